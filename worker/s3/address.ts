import { type BranchAddress, parseBucketName } from "../../protocol/names.ts";
import { S3Error } from "./errors.ts";

/** Where a request goes: `/`, `/<bucket>[/]` or `/<bucket>/<key>` (path-style). */
export type Address =
  | { readonly level: "service" }
  | { readonly level: "bucket"; readonly bucket: string }
  | { readonly level: "object"; readonly bucket: string; readonly key: string };

/** Splits a decoded path. Bucket and key are not yet checked. */
export function parseAddress(path: string): Address {
  if (path === "/") return { level: "service" };
  const slash = path.indexOf("/", 1);
  const bucket = slash === -1 ? path.slice(1) : path.slice(1, slash);
  const key = slash === -1 ? "" : path.slice(slash + 1);
  return key === "" ? { level: "bucket", bucket } : { level: "object", bucket, key };
}

/** The branch that a bucket stands for. Throws InvalidBucketName. */
export function branchOf(bucket: string): BranchAddress {
  const address = parseBucketName(bucket);
  if (address === undefined) throw new S3Error("InvalidBucketName");
  return address;
}
