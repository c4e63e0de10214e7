import { type ContentId, parseContentName } from "../../protocol/content.ts";
import { bucketName } from "../../protocol/names.ts";
import { type DatumDetail, type DatumOutput, DatumOutputPage } from "../../protocol/pipelines.ts";
import { encodePath } from "../../protocol/requests.ts";
import { forEachLimited } from "../../runner/lib/concurrency.ts";
import { contentIdOf } from "../../runner/lib/tree-hash.ts";
import { type Client, GatewayError } from "../gateway/client.ts";

/** Files whose content is asked for at a time. */
const ASKED_AT_ONCE = 8;

/**
 * What a job has of a datum. If its result is kept no more, contents are those of the output commit, but for paths to which
 * several datums wrote.
 */
export async function madeByJob(client: Client, detail: DatumDetail): Promise<DatumOutput[]> {
  const found = new Map<string, DatumOutput>();
  let after: string | undefined;
  do {
    const path = `${datumPath(detail.job, detail.datum.id)}/outputs`;
    const page = await client.call(DatumOutputPage, { method: "GET", path, query: { after } });
    for (const output of page.outputs) found.set(output.path, output);
    after = page.next ?? undefined;
  } while (after !== undefined);
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
  try {
    const answer = await client.send({
      method: "HEAD",
      path: `/${bucketName(output)}/${encodePath(path)}`,
      query: { versionId: outputCommit },
    });
    await answer.body.dump();
    return parseContentName(String(answer.headers.etag ?? "").replaceAll('"', "")) ?? null;
  } catch (error) {
    if (error instanceof GatewayError && error.status === 404) return null;
    throw error;
  }
}
