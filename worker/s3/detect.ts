import type { Address } from "./address.ts";
import { S3Error } from "./errors.ts";

export type ServiceOperationName = "ListBuckets";
export type BucketOperationName =
  | "CreateBucket"
  | "DeleteBucket"
  | "DeleteObjects"
  | "GetBucketLocation"
  | "GetBucketVersioning"
  | "HeadBucket"
  | "ListObjects"
  | "ListObjectsV2";
export type ObjectOperationName = "DeleteObject" | "GetObject" | "HeadObject" | "PutObject";

type Query = ReadonlyMap<string, string>;

const ALLOWED: Record<Address["level"], string> = {
  service: "GET",
  bucket: "GET, HEAD, PUT, POST, DELETE",
  object: "GET, HEAD, PUT, DELETE",
};
/** POST names its operation in the query; these are S3's, beside `delete`. */
const POST_OPERATIONS = ["uploads", "uploadId", "restore", "select", "delete"];

/** The operation on the service. Throws MethodNotAllowed. */
export function detectServiceOperation(method: string): ServiceOperationName {
  if (method === "GET") return "ListBuckets";
  throw methodNotAllowed(method, "service");
}

/** The operation on a bucket. A sub-resource that is not looked at here is refused by what the operation declares. */
export function detectBucketOperation(method: string, query: Query): BucketOperationName {
  switch (method) {
    case "GET":
      return detectBucketRead(query);
    case "HEAD":
      return "HeadBucket";
    case "PUT":
      return "CreateBucket";
    case "DELETE":
      return "DeleteBucket";
    case "POST":
      if (query.has("delete")) return "DeleteObjects";
      throw new S3Error("NotImplemented", {
        message: "POST on a bucket is implemented as '?delete' only: forms and others are not.",
      });
    default:
      throw methodNotAllowed(method, "bucket");
  }
}

function detectBucketRead(query: Query): BucketOperationName {
  if (query.has("location")) return "GetBucketLocation";
  if (query.has("versioning")) return "GetBucketVersioning";
  const listType = query.get("list-type");
  if (listType === undefined) return "ListObjects";
  if (listType === "2") return "ListObjectsV2";
  throw new S3Error("InvalidArgument", { message: `list-type is '${listType}': it must be 2, or absent.` });
}

/** The operation on an object. */
export function detectObjectOperation(method: string, query: Query): ObjectOperationName {
  switch (method) {
    case "GET":
      return "GetObject";
    case "HEAD":
      return "HeadObject";
    case "PUT":
      return "PutObject";
    case "DELETE":
      return "DeleteObject";
    default:
      if (method === "POST" && POST_OPERATIONS.some((name) => query.has(name))) {
        throw new S3Error("NotImplemented", { message: "POST on an object is not implemented." });
      }
      throw methodNotAllowed(method, "object");
  }
}

function methodNotAllowed(method: string, level: Address["level"]): S3Error {
  return new S3Error("MethodNotAllowed", {
    message: `${method} is not allowed on this ${level}: use ${ALLOWED[level]}.`,
    headers: { allow: ALLOWED[level] },
  });
}
