import {
  type BucketAddress,
  bucketName,
  isOwnWord,
  parseBucket,
  parseHostLabel,
  viewBucket,
} from "../../../protocol/names.ts";
import type { HiddenRepos } from "../../keys/hidden-repos.ts";
import { type S3Error, s3Error } from "../answer/errors.ts";

/** What names the bucket: the path, or a host of the bucket's own. */
export type NamedBy = "path" | "host";

/** Where a request goes: `/`, `/<bucket>[/]` or `/<bucket>/<key>`. */
export type Address =
  | { readonly level: "service" }
  | { readonly level: "bucket"; readonly by: NamedBy; readonly bucket: string }
  | { readonly level: "object"; readonly by: NamedBy; readonly bucket: string; readonly key: string };

/**
 * Reads the address from the decoded path and the Host. With a base domain, `<bucket>.<domain>` names the bucket and
 * the whole path is the key (virtual-host addressing). With any other Host the bucket is in the path. Bucket and key
 * are not yet checked.
 */
export function parseAddress(
  { path, host }: { path: string; host: string | undefined },
  { domain }: { domain: string | undefined },
): Address {
  const bucket = domain === undefined || host === undefined ? undefined : bucketOfHost(host, domain);
  if (bucket !== undefined) return bucketOrObject({ by: "host", bucket, key: path.slice(1) });
  if (path === "/") return { level: "service" };
  const slash = path.indexOf("/", 1);
  const end = slash === -1 ? path.length : slash;
  return bucketOrObject({ by: "path", bucket: path.slice(1, end), key: path.slice(end + 1) });
}

/** Whether a host is that of one bucket, where every path is a key. */
export function isBucketHost(host: string | undefined, { domain }: { domain: string | undefined }): boolean {
  return domain !== undefined && host !== undefined && bucketOfHost(host, domain) !== undefined;
}

/** Host names have no case: only buckets in lower case can be reached by them. */
function bucketOfHost(host: string, domain: string): string | undefined {
  // A domain without a port takes any port.
  const named = domain.includes(":") ? host : host.replace(/:[0-9]+$/, "");
  const suffix = `.${domain}`.toLowerCase();
  const name = named.toLowerCase();
  return name.length > suffix.length && name.endsWith(suffix) ? name.slice(0, -suffix.length) : undefined;
}

function bucketOrObject({ by, bucket, key }: { by: NamedBy; bucket: string; key: string }): Address {
  return key === "" ? { level: "bucket", by, bucket } : { level: "object", by, bucket, key };
}

/**
 * What a bucket stands for: a branch, or something else that the branch can show. A client that reaches buckets by host
 * knows them by their labels, also where it names one in a header. Throws InvalidBucketName.
 */
export function addressOf(bucket: string, by: NamedBy): BucketAddress {
  if (by === "path" && isOwnWord(bucket)) {
    throw s3Error.InvalidBucketName(
      `'/${bucket}' is a path that the gateway keeps for itself: name the bucket 'master.${bucket}', which is the same one.`,
    );
  }
  const address = parseNamed(bucket, by);
  if (address !== undefined) return address;
  throw isLabel(bucket, by) ? invalidLabel(bucket) : s3Error.InvalidBucketName();
}

/** The same, but undefined if the request goes to no bucket, or to one that can't be. */
export function bucketAt(address: Address): BucketAddress | undefined {
  if (address.level === "service") return undefined;
  const { bucket, by } = address;
  return by === "path" && isOwnWord(bucket) ? undefined : parseNamed(bucket, by);
}

/** Throws InvalidBucketName if a label is also the name of a repo: who sent it may mean either bucket. */
export async function refuseHidden(
  bucket: string,
  { by, hiddenRepos }: { by: NamedBy; hiddenRepos: HiddenRepos },
): Promise<void> {
  if (!isLabel(bucket, by) || !(await hiddenRepos.has(bucket))) return;
  const read = addressOf(bucket, by);
  const path = read.view === undefined ? bucketName(read) : viewBucket({ ...read, view: read.view });
  throw s3Error.InvalidBucketName(
    `The host's label '${bucket}' is also the name of a repo: name the bucket in the path, '/${bucket}' for that repo, '/${path}' for what the label says.`,
  );
}

function parseNamed(bucket: string, by: NamedBy): BucketAddress | undefined {
  return isLabel(bucket, by) ? parseHostLabel(bucket) : parseBucket(bucket);
}

function isLabel(bucket: string, by: NamedBy): boolean {
  return by === "host" && !bucket.includes(".");
}

function invalidLabel(label: string): S3Error {
  return s3Error.InvalidBucketName(
    `The host's label '${label}' names no bucket: it must be '<repo>', '<branch>--<repo>' or '<x>--<branch>--<repo>', each a letter or digit and then letters, digits and single '-', none 'xn', 63 characters in all. Other names are reached in the path.`,
  );
}
