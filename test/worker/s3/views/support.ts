import { bucketName } from "../../../../protocol/names.ts";
import { good, testContext } from "../support.ts";

/** A branch of two commits: the first has `a`, `dir/b` and `dir/c`, the second has deleted `dir/b` and replaced `a`. */
export interface TwoCommits {
  readonly repo: string;
  /** `/<branch>.<repo>` */
  readonly branch: string;
  readonly first: string;
  /** `/<first, in lower case>.<branch>.<repo>` */
  readonly bucket: string;
  readonly second: string;
  /** Of the commits, as `Last-Modified` has them. */
  readonly times: readonly string[];
}

export const BEFORE = { a: "first a", "dir/b": "first b", "dir/c": "0123456789" };

export async function twoCommits(repo: string): Promise<TwoCommits> {
  const branch = `/${bucketName({ repo, branch: "master" })}`;
  await good(`PUT ${branch}`);
  let first = "";
  for (const [key, body] of Object.entries(BEFORE)) first = await commitOf(`PUT ${branch}/${key}`, body);
  await commitOf(`DELETE ${branch}/dir/b`);
  const second = await commitOf(`PUT ${branch}/a`, "second a");
  const log = await testContext().branch({ repo, branch: "master" }).history.list({ limit: 10 });
  if (!log.ok) throw new Error(log.reason);
  const timeOf = (id: string) => log.commits.find((commit) => commit.id === id)?.createdAt ?? 0;
  const times = [first, second].map((id) => new Date(timeOf(id)).toUTCString());
  return { repo, branch, first, bucket: `/${first.toLowerCase()}${branch.replace("/", ".")}`, second, times };
}

async function commitOf(line: string, body?: string): Promise<string> {
  const answer = await good(line, body === undefined ? {} : { body });
  return answer.headers.get("x-amz-version-id") ?? "";
}

/** Requests that would change something in a bucket, or are about uploads into it. */
export function writesTo(bucket: string): [line: string, body?: string][] {
  const upload = `master.${bucket.split(".").at(-1)}.01ARZ3NDEKTSV4RRFFQ69G5FAV`;
  return [
    [`PUT ${bucket}`],
    [`DELETE ${bucket}`],
    [`PUT ${bucket}/key`, "x"],
    [`PUT ${bucket}/large`, "x".repeat(10_000)],
    [`DELETE ${bucket}/a`],
    [`POST ${bucket}?delete`, "<Delete><Object><Key>a</Key></Object></Delete>"],
    [`POST ${bucket}/key?uploads`],
    [`GET ${bucket}?uploads`],
    [`PUT ${bucket}/key?uploadId=${upload}&partNumber=1`, "x"],
    [`PUT ${bucket}/key?uploadId=none&partNumber=1`, "x"],
    [`POST ${bucket}/key?uploadId=${upload}`, completion()],
    [`GET ${bucket}/key?uploadId=${upload}`],
    [`DELETE ${bucket}/key?uploadId=${upload}`],
  ];
}

function completion(): string {
  return "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>";
}
