import { z } from "zod";
import { type CatalogueRebuilt, MAX_REBUILT } from "../../../protocol/admin.ts";
import { type BranchAddress, bucketName, NAME_PATTERN } from "../../../protocol/names.ts";
import type { Context } from "../../app.ts";
import { type ApiRequest, readQuery } from "../request/api-request.ts";

const PageQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(MAX_REBUILT).default(MAX_REBUILT),
  after: z.string().optional(),
});

/** Calls to objects at a time, each of which writes to the catalogue a few times. */
const AT_ONCE = 5;

/** Where branches and pipelines leave their markers: `m/branches/<repo>/<branch>` and `m/pipelines/<name>`. */
const MARKERS = "m/";

/** Whom a marker is of. */
type Marked =
  | { readonly kind: "branch"; readonly address: BranchAddress }
  | { readonly kind: "pipeline"; readonly name: string };

type Told = "told" | "deleted" | "missing" | "failed";

/**
 * `POST /admin/rebuild`: has a page of the objects tell the catalogue of themselves, by the markers that they left in the
 * blob store. May be asked at any time: what the catalogue knows already stays, or becomes what the object says. Nodes empty
 * their caches after the first page.
 */
export async function rebuild(asked: ApiRequest): Promise<Response> {
  const { limit, after } = readQuery(asked, PageQuery);
  const { context } = asked;
  // The list lives in the catalogue alone: what it lost, or was set back from, nobody knows.
  if (after === undefined) await context.catalogue.erasedContents.beginAnew();
  const { names: markers, next } = await context.blobs.list({ prefix: MARKERS, limit, after });
  const found: { marked: Marked; told: Told }[] = [];
  for (let from = 0; from < markers.length; from += AT_ONCE) {
    const some = markers.slice(from, from + AT_ONCE).flatMap((marker) => markedBy(marker) ?? []);
    found.push(
      ...(await Promise.all(some.map(async (marked) => ({ marked, told: await tell(context, marked) })))),
    );
  }
  context.openBranches.forget();
  const namesOf = (told: Told) =>
    found.filter((each) => each.told === told).map(({ marked }) => nameOf(marked));
  const told = found.filter((each) => each.told === "told");
  const answer: CatalogueRebuilt = {
    branches: told.filter(({ marked }) => marked.kind === "branch").length,
    pipelines: told.filter(({ marked }) => marked.kind === "pipeline").length,
    deleted: namesOf("deleted").length,
    missing: namesOf("missing"),
    failed: namesOf("failed"),
    next,
  };
  return Response.json(answer);
}

/** One that can't be reached must not keep the others from being listed. */
async function tell(context: Pick<Context, "branch" | "pipeline">, marked: Marked): Promise<Told> {
  try {
    if (marked.kind === "branch") {
      const answer = await context.branch(marked.address).admin.announce();
      if (answer.ok) return answer.deleted ? "deleted" : "told";
      return answer.reason === "no-such-branch" ? "missing" : "failed";
    }
    const answer = await context.pipeline(marked.name).admin.announce();
    if (answer.ok) return "told";
    return answer.reason === "no-such-pipeline" ? "missing" : "failed";
  } catch (error) {
    console.warn(`${nameOf(marked)} could not tell the catalogue of itself:`, error);
    return "failed";
  }
}

function nameOf(marked: Marked): string {
  return marked.kind === "branch" ? `branch ${bucketName(marked.address)}` : `pipeline ${marked.name}`;
}

/** Undefined: it is of no kind that this release knows. */
function markedBy(marker: string): Marked | undefined {
  const [, folder, first = "", second, ...rest] = marker.split("/");
  const names = second === undefined ? [first] : [first, second];
  if (rest.length > 0 || !names.every((name) => NAME_PATTERN.test(name))) return undefined;
  if (folder === "branches" && second !== undefined) {
    return { kind: "branch", address: { repo: first, branch: second } };
  }
  return folder === "pipelines" && second === undefined ? { kind: "pipeline", name: first } : undefined;
}
