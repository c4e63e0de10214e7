import { type ContentId, parseContentName } from "../../protocol/content.ts";
import { bucketName } from "../../protocol/names.ts";
import { type DatumDetail, type DatumOutput, DatumOutputPage } from "../../protocol/pipelines.ts";
import { encodePath } from "../../protocol/requests.ts";
import { forEachLimited } from "../../runner/lib/concurrency.ts";
import { contentIdOf } from "../../runner/lib/tree-hash.ts";
import { type Client, unlessRefused } from "../gateway/client.ts";
import { byBytes, headFile } from "../gateway/objects.ts";

/**
 * `missing`: the job has it, and it was not made here; `extra`: the other way round; `unknown`: both have it, and what the
 * job has of this datum alone is not known.
 */
type PathState = "same" | "differs" | "missing" | "extra" | "unknown";

export interface ComparedPath {
  readonly path: string;
  readonly state: PathState;
  /** Other datums of the job wrote there, too. */
  readonly merged: boolean;
  /** What was made here; null: nothing. */
  readonly here: ContentId | null;
  /** What the job has of this datum; null: nothing, or it is not known. */
  readonly made: ContentId | null;
}

/** Something in `/pfs/out` that was made here. A directory's path ends in `/`. */
export interface Output {
  readonly path: string;
  readonly content: ContentId;
}

/** Compares what a datum made here with what its job has of it, path by path, in byte order. */
export function compareOutputs(made: readonly DatumOutput[], here: readonly Output[]): ComparedPath[] {
  const found = new Map(here.map(({ path, content }) => [path, content]));
  const known = new Set(made.map(({ path }) => path));
  const compared = made.map(({ path, content, merged }): ComparedPath => {
    const own = found.get(path) ?? null;
    return { path, state: stateOf(content, own), merged, here: own, made: content };
  });
  const extra = here.filter(({ path }) => !known.has(path));
  return [
    ...compared,
    ...extra.map(
      ({ path, content }) => ({ path, state: "extra", merged: false, here: content, made: null }) as const,
    ),
  ].sort((a, b) => byBytes(a.path, b.path));
}

function stateOf(made: ContentId | null, here: ContentId | null): PathState {
  if (here === null) return "missing";
  if (made === null) return "unknown";
  return made.digest === here.digest && made.size === here.size ? "same" : "differs";
}

/** Whether nothing that can be compared is different. */
export function isSame(compared: readonly ComparedPath[]): boolean {
  return compared.every(({ state }) => state === "same" || state === "unknown");
}

/** Files whose content is asked for at a time. */
const ASKED_AT_ONCE = 8;

/**
 * What a job has of a datum. If its result is kept no more, contents are those of the output commit, but for paths to which
 * several datums wrote.
 */
export async function madeByJob(client: Client, detail: DatumDetail): Promise<DatumOutput[]> {
  const found = new Map<string, DatumOutput>();
  const path = `${datumPath(detail.job, detail.datum.id)}/outputs`;
  for await (const { outputs } of client.pages(DatumOutputPage, path)) {
    for (const output of outputs) found.set(output.path, output);
  }
  const committed = new Map<string, ContentId | null>();
  const asked = [...found.values()].filter(({ content, merged }) => content === null && !merged);
  await forEachLimited(asked, {
    limit: ASKED_AT_ONCE,
    work: async ({ path }) => void committed.set(path, await committedAs(client, detail, path)),
  });
  return [...found.values()].map((output) => ({
    ...output,
    content: output.content ?? committed.get(output.path) ?? null,
  }));
}

/** The path of a datum in the control API. */
export function datumPath(job: string, datum: string): string {
  return `/jobs/${encodePath(job)}/datums/${encodePath(datum)}`;
}

/** The content of a path in the job's output commit. Its ETag is its digest and size. Returns null if it can't be had. */
async function committedAs(
  client: Client,
  { output, outputCommit }: DatumDetail,
  path: string,
): Promise<ContentId | null> {
  if (path.endsWith("/")) return contentIdOf(new Uint8Array(0));
  if (outputCommit === null) return null;
  const address = { ...output, bucket: bucketName(output), path };
  const found = await unlessRefused(headFile(client, address, outputCommit), 404);
  return parseContentName(found?.etag ?? "") ?? null;
}
