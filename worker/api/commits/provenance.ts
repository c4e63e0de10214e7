import { z } from "zod";
import { MAX_LIST_MAKERS, type Provenance } from "../../../protocol/commits.ts";
import type { ComputedFile, Derived } from "../../../protocol/files.ts";
import { bucketName, Name } from "../../../protocol/names.ts";
import { type ApiError, apiError } from "../answer/errors.ts";
import { branchError } from "../answer/failures.ts";
import { type ApiRequest, branchInPath, mayRead, readQuery } from "../request/api-request.ts";
import { invalidField } from "../request/issues.ts";
import { commitInPath } from "./log.ts";

const ProvenanceQuery = z.strictObject({
  path: z.string().min(1, { error: "must be the path of a file of the commit" }),
  after: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(MAX_LIST_MAKERS).default(MAX_LIST_MAKERS),
});

/** `GET …/commits/{id}/provenance?path=`: the datums that made a file of the commit, and what they read. */
export async function readProvenance(asked: ApiRequest): Promise<Response> {
  const { path, after = null, limit } = readQuery(asked, ProvenanceQuery);
  const { id: commit, origin: job } = await commitInPath(asked);
  await mustHold(asked, { commit, path });
  if (job === null) return Response.json({ path, job, datums: [], next: null } satisfies Provenance);
  // A pipeline's output is in the repo of its name.
  const { repo = "", branch = "" } = asked.params;
  const page = await asked.context.pipeline(repo).lineage.provenance({ job, branch, path, after, limit });
  if (page.ok) {
    const { datums, next } = page;
    return Response.json({ path, job, datums: [...datums], next } satisfies Provenance);
  }
  throw refused(page.reason, job);
}

/** Files in one page, but for those that the last look found more. */
const MAX_DERIVED = 100;
/** Looks at a pipeline for one page: each takes some tens of milliseconds. */
const MAX_LOOKS = 8;

const DerivedQuery = z.strictObject({
  path: z.string().min(1, { error: "must be the path of a file of the commit" }),
  after: z.string().optional(),
});

/** Where a page ended: in which pipeline, and where in its outputs, as it says it itself; null: before all of them. */
const DerivedPlace = z.strictObject({ pipeline: Name, within: z.string().nullable() });
type DerivedPlace = z.infer<typeof DerivedPlace>;
const Within = z.strictObject({ path: z.string(), born: z.int(), key: z.string() });

/**
 * `GET …/commits/{id}/derived?path=`: the files that pipelines computed from a file of the commit, of those whose repo the
 * caller may read. One step: what was computed from these in turn is asked of them.
 */
export async function readDerived(asked: ApiRequest): Promise<Response> {
  const { path, after } = readQuery(asked, DerivedQuery);
  const place = after === undefined ? undefined : placeOf(after);
  const { id: commit } = await commitInPath(asked);
  await mustHold(asked, { commit, path });
  const { address, branch } = branchInPath(asked);
  const spans = await branch.erasures.spans({ versions: [{ path, version: commit }] });
  const left = [...new Set(spans.readers.map(({ pipeline }) => pipeline))]
    .filter((repo) => mayRead(asked, repo))
    .filter((name) => place === undefined || name >= place.pipeline)
    .sort();
  // The pipeline of the page before may be gone.
  let within = left[0] === place?.pipeline ? (place?.within ?? null) : null;
  const files: ComputedFile[] = [];
  for (let looks = 0; looks < MAX_LOOKS && files.length < MAX_DERIVED; looks++) {
    const [name] = left;
    if (name === undefined) break;
    const from = within === null ? {} : { after: within };
    const made = await asked.context
      .pipeline(name)
      .lineage.outputsOf({ ...address, files: spans.files, ...from });
    for (const output of made.outputs) {
      files.push({
        bucket: bucketName(output),
        path: output.path,
        job: output.job,
        commit: output.commit,
      });
    }
    within = made.next;
    if (within === null) left.shift();
  }
  const [pipeline] = left;
  const next = pipeline === undefined ? null : JSON.stringify({ pipeline, within } satisfies DerivedPlace);
  return Response.json({ path, files, next } satisfies Derived);
}

/** Throws InvalidRequest if no page ended there. */
function placeOf(text: string): DerivedPlace {
  try {
    const place = DerivedPlace.parse(JSON.parse(text));
    if (place.within !== null) Within.parse(JSON.parse(place.within));
    return place;
  } catch {
    throw invalidField("after", "must be the 'next' of an earlier page");
  }
}

async function mustHold(
  asked: ApiRequest,
  { commit, path }: { commit: string; path: string },
): Promise<void> {
  const { address, branch } = branchInPath(asked);
  const read = await branch.files.read({ path, commit });
  if (read.ok) return;
  if (read.reason === "no-such-branch") throw branchError({ ok: false, reason: read.reason }, address);
  throw apiError.NotFound(
    `The commit '${commit}' has no file '${path}': 'sluice commit diff' shows what it changed.`,
  );
}

function refused(reason: "no-such-job" | "not-yet", job: string): ApiError {
  switch (reason) {
    case "no-such-job":
      return apiError.NotKept(
        `What made the file is kept no more: the pipeline of the job '${job}' was deleted.`,
      );
    case "not-yet":
      return apiError.Unavailable(
        `The end of the job '${job}' is being written down: ask again in a moment.`,
      );
  }
}
