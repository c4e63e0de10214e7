import { type BucketAddress, parseBucket } from "../../../protocol/names.ts";
import { S3Error } from "../answer/errors.ts";

/** Where a request goes: `/`, `/<bucket>[/]` or `/<bucket>/<key>`. */
export type Address =
  | { readonly level: "service" }
  | { readonly level: "bucket"; readonly bucket: string }
  | { readonly level: "object"; readonly bucket: string; readonly key: string };

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
  return bucket === undefined ? addressOfPath(path) : bucketOrObject(bucket, path.slice(1));
}

/** Host names have no case: only buckets in lower case can be reached by them. */
function bucketOfHost(host: string, domain: string): string | undefined {
  // A domain without a port takes any port.
  const named = domain.includes(":") ? host : host.replace(/:[0-9]+$/, "");
  const suffix = `.${domain}`.toLowerCase();
  const name = named.toLowerCase();
  return name.length > suffix.length && name.endsWith(suffix) ? name.slice(0, -suffix.length) : undefined;
}

function addressOfPath(path: string): Address {
  if (path === "/") return { level: "service" };
  const slash = path.indexOf("/", 1);
  if (slash === -1) return bucketOrObject(path.slice(1), "");
  return bucketOrObject(path.slice(1, slash), path.slice(slash + 1));
}

function bucketOrObject(bucket: string, key: string): Address {
  return key === "" ? { level: "bucket", bucket } : { level: "object", bucket, key };
}

/** What a bucket stands for: a branch, or one of its open commits. Throws InvalidBucketName. */
export function addressOf(bucket: string): BucketAddress {
  const address = parseBucket(bucket);
  if (address === undefined) throw new S3Error("InvalidBucketName");
  return address;
}
