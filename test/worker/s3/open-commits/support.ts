import { bucketName, viewBucket } from "../../../../protocol/names.ts";
import type { BranchApi } from "../../../../worker/branch/contract/api.ts";
import { good, s3, testContext, xml } from "../support.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

export interface Open {
  /** `/<branch>.<repo>` */
  readonly branch: string;
  /** `/<session>.<branch>.<repo>` */
  readonly bucket: string;
  readonly openCommit: string;
  readonly repo: string;
  readonly api: BranchApi;
}

/** A new branch `master` of a repo, and an open commit of it. */
export async function openOn(repo: string): Promise<Open> {
  await good(`PUT /${bucketName({ repo, branch: "master" })}`);
  return await openAgain(repo);
}

/** Another open commit of the branch. */
export async function openAgain(repo: string): Promise<Open> {
  const address = { repo, branch: "master" };
  const api = testContext().branch(address);
  const opened = await api.openCommits.start({ ttlMs: DAY_MS });
  if (!opened.ok) throw new Error(opened.reason);
  const { openCommit } = opened;
  return {
    branch: `/${bucketName(address)}`,
    bucket: `/${viewBucket({ ...address, view: openCommit })}`,
    openCommit,
    repo,
    api,
  };
}

/** Publishes it; answers the commit, or null where nothing changed. */
export async function finish({ api, openCommit }: Pick<Open, "api" | "openCommit">): Promise<string | null> {
  for (;;) {
    const end = await api.openCommits.finish({ openCommit });
    if (!end.ok) throw new Error(end.reason);
    if (end.state === "finished") return end.commit;
    await scheduler.wait(10);
  }
}

export async function keys(bucket: string): Promise<string[]> {
  const { ListBucketResult } = await xml(good(`GET ${bucket}?list-type=2`));
  return (ListBucketResult.Contents ?? []).map(({ Key }: { Key: string }) => Key);
}

/** The text of an object; undefined where there is none. */
export async function text(target: string): Promise<string | undefined> {
  const response = await s3(`GET ${target}`);
  const body = new TextDecoder().decode(await response.arrayBuffer());
  if (response.status === 404) return undefined;
  if (!response.ok) throw new Error(`${target}: ${body}`);
  return body;
}

/** How many commits have put or deleted something in a branch. */
export async function commits(branch: string): Promise<number> {
  const { ListVersionsResult: all } = await xml(good(`GET ${branch}?versions`));
  const entries = [...(all.Version ?? []), ...(all.DeleteMarker ?? [])];
  return new Set(entries.map(({ VersionId }: { VersionId: string }) => VersionId)).size;
}
