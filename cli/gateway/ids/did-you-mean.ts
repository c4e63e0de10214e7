import { type BucketAddress, bucketName, parseBucket } from "../../../protocol/names.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { CliError } from "../../output/failure.ts";
import { type Client, GatewayError } from "../client.ts";
import { directoryPrefix, listBuckets, listPage } from "../objects.ts";

/** Most names that are compared with one that was mistyped: those of one page. */
const MOST_NAMES = 1000;

/**
 * What to tell of a failure: of an object or a bucket that is not there, its address and the name that is nearest to it. S3's
 * own words name neither. Of a pipeline or a repo, the nearest name. Anything else is told as it is.
 */
export async function explained(client: Client, error: unknown): Promise<unknown> {
  if (!(error instanceof GatewayError && error.status === 404)) return error;
  try {
    return (error.object ? await missing(client, error.object) : await misnamed(client, error)) ?? error;
  } catch {
    return error;
  }
}

/** What the control API has of names, by the code that says that one is not there. */
const NAMES: Readonly<Record<string, (client: Client) => Promise<string[]>>> = {
  NoSuchPipeline: async (client) => {
    const { PipelineList } = await import("../../../protocol/pipelines.ts");
    const { pipelines } = await client.get(PipelineList, "/pipelines");
    return pipelines.map(({ name }) => name);
  },
  NoSuchRepo: async (client) => {
    const { RepoList } = await import("../../../protocol/repos.ts");
    const { repos } = await client.get(RepoList, "/repos");
    return repos.map(({ name }) => name);
  },
};

/** The gateway's words begin with the name that it does not have. */
async function misnamed(client: Client, error: GatewayError): Promise<CliError | undefined> {
  const [, name] = /'([^']+)'/.exec(error.message) ?? [];
  // Issues say what to write by themselves.
  if (name === undefined || error.issues.length > 0) return undefined;
  const near = nearest(name, (await NAMES[error.code]?.(client)) ?? []);
  if (near === undefined) return undefined;
  const { code, message } = error;
  return new CliError(`${message.replace(/[.]$/, "")}; did you mean '${near}'?`, { code });
}

async function missing(
  client: Client,
  { bucket, key }: { bucket: string; key: string },
): Promise<CliError | undefined> {
  const address = parseBucket(bucket);
  // What a view lacks, its own message says.
  if (!address) return undefined;
  const branch = bucketName(address);
  const buckets = (await listBuckets(client)).map(({ name }) => name);
  if (!buckets.includes(branch)) {
    const near = (await tagBucket(client, { address, buckets })) ?? nearest(branch, buckets);
    return new CliError(
      `there is no bucket s3://${branch}${near === undefined ? "" : `: did you mean s3://${near}?`}`,
      {
        code: "NoSuchBucket",
      },
    );
  }
  if (key === "" || address.view !== undefined) return undefined;
  const folder = directoryPrefix(key.split("/").slice(0, -1).join("/"));
  const page = await listPage(client, { bucket: branch, prefix: folder, delimiter: "/" });
  const near = nearest(key, page.files.map(({ path }) => path).slice(0, MOST_NAMES));
  const meant = near === undefined ? "" : `: did you mean s3://${bucket}/${near}?`;
  return new CliError(`there is no file s3://${bucket}/${key}${meant}`, { code: "NoSuchKey" });
}

/** The bucket of a tag that was named without its branch: `v1.master.images` for `v1.images`. */
async function tagBucket(
  client: Client,
  { address: { repo, branch: name }, buckets }: { address: BucketAddress; buckets: readonly string[] },
): Promise<string | undefined> {
  // Of a repo that is not there, no tags are told.
  if (!buckets.some((bucket) => bucket.endsWith(`.${repo}`))) return undefined;
  const { TagPage } = await import("../../../protocol/commits.ts");
  const { tags } = await client.get(TagPage, `/repos/${encodePath(repo)}/tags`);
  return tags.find((tag) => tag.name === name)?.bucket;
}

/** The name that one changes to with the fewest letters, if that is at most a third of them. */
function nearest(name: string, names: readonly string[]): string | undefined {
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const other of names) {
    const distance = editDistance(name, other);
    if (distance <= Math.max(1, name.length / 3) && distance < (best?.distance ?? Number.POSITIVE_INFINITY)) {
      best = { name: other, distance };
    }
  }
  return best?.name;
}

/** How many letters must be put in, left out, changed, or swapped with their neighbour (optimal string alignment). */
function editDistance(one: string, other: string): number {
  const letters = [...one];
  let above: number[] = [];
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [index, letter] of letters.entries()) {
    const next = [index + 1];
    for (let at = 1; at <= other.length; at++) {
      const same = letter === other[at - 1] ? 0 : 1;
      const isSwap = at > 1 && letter === other[at - 2] && letters[index - 1] === other[at - 1];
      const swapped = isSwap ? (above[at - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY;
      const [left = 0, up = 0, before = 0] = [next[at - 1], row[at], row[at - 1]];
      next.push(Math.min(left + 1, up + 1, before + same, swapped));
    }
    above = row;
    row = next;
  }
  return row.at(-1) ?? 0;
}
