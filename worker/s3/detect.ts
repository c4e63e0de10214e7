import { type S3Error, s3Error } from "./answer/errors.ts";
import {
  BUCKET_OPERATIONS,
  type BucketOperationName,
  type ObjectOperationName,
  type ServiceOperationName,
  type UploadOperationName,
} from "./operations.ts";
import type { Address } from "./request/address.ts";
import { SETTINGS } from "./request/members.ts";

/** What tells the operation, beside the address. */
export interface Asked {
  readonly method: string;
  readonly query: ReadonlyMap<string, string>;
  readonly headers: ReadonlyMap<string, string>;
}

/** An operation's name, and what kind of request it takes. */
export type Detected =
  | { readonly level: "bucket"; readonly name: BucketOperationName }
  | { readonly level: "object"; readonly name: ObjectOperationName }
  | { readonly level: "upload"; readonly name: UploadOperationName };

const ALLOWED: Record<Address["level"], string> = {
  service: "GET",
  bucket: "GET, HEAD, PUT, POST, DELETE",
  object: "GET, HEAD, PUT, POST, DELETE",
};
/** POST names its operation in the query; these are S3's that we do not have. */
const OTHER_POSTS = ["restore", "select", "delete"];

/** The operation on the service. Throws MethodNotAllowed. */
export function detectServiceOperation(method: string): ServiceOperationName {
  if (method === "GET") return "ListBuckets";
  throw methodNotAllowed(method, "service");
}

/**
 * The operation on a bucket or on what is in it. A sub-resource that is not named here is refused later, because the
 * operation does not declare it. Throws MethodNotAllowed and NotImplemented.
 */
export function detectOperation(level: "bucket" | "object", asked: Asked): Detected {
  const upload = asked.query.size === 0 ? undefined : uploadOperation(asked);
  if (upload !== undefined) return { level: "upload", name: upload };
  // `POST /<bucket>?uploads&filepath=<key>` begins an upload of that key.
  if (level === "bucket" && asked.method === "POST" && asked.query.has("uploads")) {
    return { level: "object", name: "CreateMultipartUpload" };
  }
  return level === "bucket"
    ? { level, name: bucketOperation(asked) }
    : { level, name: objectOperation(asked) };
}

/** Whether a request that carries no signature of its own is a form, which has one in its fields. */
export function isPostOfForm({
  method,
  level,
  query,
}: Pick<Asked, "method" | "query"> & { readonly level: Address["level"] }): boolean {
  if (method !== "POST" || level !== "bucket") return false;
  return !query.has("delete") && !query.has("uploads") && !query.has("uploadId");
}

/** A part number alone makes a PUT one of a part: it must never overwrite the object itself. */
function uploadOperation({ method, query, headers }: Asked): UploadOperationName | undefined {
  if (method === "PUT" && (query.has("uploadId") || query.has("partNumber"))) {
    return headers.has("x-amz-copy-source") ? "UploadPartCopy" : "UploadPart";
  }
  if (!query.has("uploadId")) return undefined;
  switch (method) {
    case "GET":
      return "ListParts";
    case "POST":
      return "CompleteMultipartUpload";
    case "DELETE":
      return "AbortMultipartUpload";
    default:
      return undefined;
  }
}

const VERBS = { GET: "Get", PUT: "Put", DELETE: "Delete" } as const;
type Method = keyof typeof VERBS;
/** What the operation is about, beside the bucket itself and its SETTINGS. */
const OTHER_SUB_RESOURCES: Readonly<Record<Method, Readonly<Record<string, BucketOperationName>>>> = {
  GET: {
    lifecycle: "GetBucketLifecycleConfiguration",
    location: "GetBucketLocation",
    policyStatus: "GetBucketPolicyStatus",
    uploads: "ListMultipartUploads",
    versions: "ListObjectVersions",
  },
  PUT: { lifecycle: "PutBucketLifecycleConfiguration" },
  DELETE: { lifecycle: "DeleteBucketLifecycle" },
};
const SUB_RESOURCES = { GET: subResources("GET"), PUT: subResources("PUT"), DELETE: subResources("DELETE") };

/** By the name of a query parameter. */
function subResources(method: Method): ReadonlyMap<string, BucketOperationName> {
  const operations = new Map(Object.entries(OTHER_SUB_RESOURCES[method]));
  for (const [query, setting] of Object.entries(SETTINGS)) {
    const name = `${VERBS[method]}${setting}`;
    if (isBucketOperation(name)) operations.set(query, name);
  }
  return operations;
}

function isBucketOperation(name: string): name is BucketOperationName {
  return Object.hasOwn(BUCKET_OPERATIONS, name);
}

function bucketOperation({ method, query }: Asked): BucketOperationName {
  switch (method) {
    case "GET":
      return subResource("GET", query) ?? listing(query);
    case "HEAD":
      return "HeadBucket";
    case "PUT":
      return subResource("PUT", query) ?? "CreateBucket";
    case "DELETE":
      return subResource("DELETE", query) ?? "DeleteBucket";
    case "POST":
      if (query.has("delete")) return "DeleteObjects";
      throw s3Error.NotImplemented(
        "POST on a bucket is implemented as '?delete', '?uploads', '?uploadId' and a form, which is signed in its fields and in no header.",
      );
    default:
      throw methodNotAllowed(method, "bucket");
  }
}

/** If two are named, either is a parameter that the operation of the other does not know. */
function subResource(method: Method, query: Asked["query"]): BucketOperationName | undefined {
  for (const name of query.keys()) {
    const operation = SUB_RESOURCES[method].get(name);
    if (operation !== undefined) return operation;
  }
  return undefined;
}

function listing(query: Asked["query"]): BucketOperationName {
  const listType = query.get("list-type");
  if (listType === undefined) return "ListObjects";
  if (listType === "2") return "ListObjectsV2";
  throw s3Error.InvalidArgument(`list-type is '${listType}': it must be 2, or absent.`);
}

function objectOperation({ method, query, headers }: Asked): ObjectOperationName {
  switch (method) {
    case "GET":
      return objectRead(query);
    case "HEAD":
      return "HeadObject";
    case "PUT":
      if (query.has("acl")) return "PutObjectAcl";
      if (query.has("legal-hold")) return "PutObjectLegalHold";
      if (query.has("retention")) return "PutObjectRetention";
      if (query.has("tagging")) return "PutObjectTagging";
      return headers.has("x-amz-copy-source") ? "CopyObject" : "PutObject";
    case "DELETE":
      return query.has("tagging") ? "DeleteObjectTagging" : "DeleteObject";
    case "POST":
      return objectPost(query);
    default:
      throw methodNotAllowed(method, "object");
  }
}

function objectRead(query: Asked["query"]): ObjectOperationName {
  if (query.size === 0) return "GetObject";
  if (query.has("acl")) return "GetObjectAcl";
  if (query.has("legal-hold")) return "GetObjectLegalHold";
  if (query.has("retention")) return "GetObjectRetention";
  if (query.has("attributes")) return "GetObjectAttributes";
  return query.has("tagging") ? "GetObjectTagging" : "GetObject";
}

function objectPost(query: Asked["query"]): ObjectOperationName {
  if (query.has("uploads")) return "CreateMultipartUpload";
  if (OTHER_POSTS.some((name) => query.has(name))) {
    throw s3Error.NotImplemented("POST on an object is implemented as '?uploads' and '?uploadId' only.");
  }
  throw methodNotAllowed("POST", "object");
}

function methodNotAllowed(method: string, level: Address["level"]): S3Error {
  return s3Error.MethodNotAllowed(`${method} is not allowed on this ${level}: use ${ALLOWED[level]}.`, {
    headers: { allow: ALLOWED[level] },
  });
}
