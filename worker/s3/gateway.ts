/**
 * The S3 gateway. It refuses what it does not have, with 501 NotImplemented unless another code stands here, and never
 * ignores it:
 * - CORS: no answer carries Access-Control-*, and OPTIONS is 405
 * - deleting a version (`DELETE ?versionId`): history is only added to
 * - POST of HTML forms, SelectObjectContent, RestoreObject, RenameObject, appending (x-amz-write-offset-bytes)
 * - session tokens (400 InvalidToken), signatures of version 2 and of version 4A (400)
 * It will never have ACLs other than private, policies, tags (`GET ?tagging` says that there are none), encryption by
 * the service, object lock, storage classes other than STANDARD, lifecycle, notifications, website, and a delimiter
 * other than `/` (400 InvalidArgument).
 */
import { type BucketAddress, isUlid } from "../../protocol/names.ts";
import { pathFault } from "../../protocol/paths.ts";
import type { Context } from "../app.ts";
import { permits, refusalText } from "../core/permissions.ts";
import { S3Error } from "./answer/errors.ts";
import { keyFailure } from "./answer/failures.ts";
import { keepWaiting } from "./answer/keep-waiting.ts";
import { renderError } from "./answer/render-error.ts";
import { authenticateTarget, signableHeaders } from "./auth/authenticate.ts";
import { operationHeaders, operationQuery } from "./auth/presigned.ts";
import { mustTakeWrites, openTree, readOnly } from "./bucket-tree.ts";
import type { BucketRequest, ObjectRequest, Operation, ServiceRequest, UploadRequest } from "./operation.ts";
import { BUCKET_OPERATIONS, OBJECT_OPERATIONS, SERVICE_OPERATIONS, UPLOAD_OPERATIONS } from "./operations.ts";
import { type Address, addressOf, parseAddress } from "./request/address.ts";
import { detectOperation, detectServiceOperation } from "./request/detect.ts";
import { checkExpectedOwner, refuseHeaders, refuseOnView, refuseQuery } from "./request/refusals.ts";
import { parseTarget, rawPathOf, type Target } from "./request/target.ts";

interface AnswerOptions {
  readonly context: Context;
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number;
  /** The answer for an error. */
  readonly fail: (error: unknown) => Response;
}

/** Answers one S3 request. Never rejects: a failure becomes an answer, too. */
export async function handleS3(
  request: Request,
  { context, now }: Omit<AnswerOptions, "fail">,
): Promise<Response> {
  const { requestId } = context;
  const fail = (error: unknown): Response =>
    renderError(error, { method: request.method, resource: rawPathOf(request.url), requestId });
  try {
    const response = await answer(request, { context, now, fail });
    response.headers.set("x-amz-request-id", requestId);
    return response;
  } catch (error) {
    return fail(error);
  }
}

/**
 * Clients may rely on the order, because it decides which of two faults they hear of: address → signature → bucket →
 * operation → refused headers and sub-resources → permission → header values → body.
 */
async function answer(request: Request, options: AnswerOptions): Promise<Response> {
  const target = parseTarget(request.url);
  if (target === undefined) throw new S3Error("InvalidURI");
  const sent = signableHeaders(request);
  const { domain } = options.context.config;
  const address = parseAddress({ path: target.path, host: sent.get("host") }, { domain });
  const asked = await readRequest(request, { target, sent, options });
  const { method, url } = request;
  const { fail } = options;
  if (address.level === "service") {
    const operation = SERVICE_OPERATIONS[detectServiceOperation(method)];
    return await run(operation, { asked, address: null, open: () => asked, fail });
  }
  const bucket = openBucket(asked, address);
  const on = { asked, address: bucket.address, fail };
  const detected = detectOperation(address.level, { method, query: asked.query, headers: asked.headers });
  switch (detected.level) {
    case "bucket":
      return await run(BUCKET_OPERATIONS[detected.name], { ...on, open: () => bucket });
    case "object":
      return await run(OBJECT_OPERATIONS[detected.name], { ...on, open: () => openObject(bucket, address) });
    case "upload": {
      const open = () => openUpload(bucket, { address, url });
      return await run(UPLOAD_OPERATIONS[detected.name], { ...on, open }).catch((error) =>
        uploadRefusal(error, bucket),
      );
    }
  }
}

/** No upload is for the bucket of a commit: that is said, and not that this one is not there. */
async function uploadRefusal(error: unknown, bucket: BucketRequest): Promise<never> {
  if (error instanceof S3Error && error.code === "NoSuchUpload") await mustTakeWrites(bucket);
  throw error;
}

/** What an operation is run with. */
interface Run<R> {
  readonly asked: ServiceRequest;
  /** What the operation touches; null if that is not one repo. */
  readonly address: BucketAddress | null;
  /** The operation's own request, whose address is only looked at once the operation may be done. */
  readonly open: () => R;
  readonly fail: AnswerOptions["fail"];
}

async function run<R>(operation: Operation<R>, { asked, address, open, fail }: Run<R>): Promise<Response> {
  refuseQuery(asked.query, operation);
  if (address?.view !== undefined) refuseOnViewBucket(asked.query, { operation, address });
  refuseHeaders(asked.headers, operation);
  checkExpectedOwner(asked.headers);
  const need = { permission: operation.permission, repo: address?.repo ?? null };
  if (!permits(asked.caller.scope, need)) {
    throw new S3Error("AccessDenied", { message: refusalText(asked.caller.scope, need) });
  }
  const answered = operation.handle(open());
  return await (operation.mayTakeLong ? keepWaiting(answered, { fail }) : answered);
}

/**
 * Of a tag the name alone says that it is read-only. Of an id it does not: the operation hears from the branch whether it
 * is an open commit's or a commit's.
 */
function refuseOnViewBucket(
  query: ServiceRequest["query"],
  { operation, address: { view, ...branch } }: { operation: Operation<never>; address: BucketAddress },
): void {
  const writes = operation.permission === "write" || operation.permission === "admin" || operation.ofWrites;
  if (view !== undefined && writes && !isUlid(view)) throw readOnly({ ...branch, view });
  refuseOnView(query, operation);
}

/** The request of a known caller. */
async function readRequest(
  request: Request,
  { target, sent, options }: { target: Target; sent: ReadonlyMap<string, string>; options: AnswerOptions },
): Promise<ServiceRequest> {
  const { context, now } = options;
  const auth = await authenticateTarget(
    { request, target, headers: sent },
    { keys: context.keys, now: now() },
  );
  if (!auth.ok) throw new S3Error(auth.code, { message: auth.message });
  return {
    context,
    caller: auth.caller,
    headers: operationHeaders(sent, target),
    query: operationQuery(target),
    body: request.body,
    now,
    compressingProxy: hasCompressingProxy(request),
  };
}

/** Cloudflare and `wrangler dev` compress for clients that take it. One tells them by the Accept-Encoding that they keep in `cf`. */
function hasCompressingProxy({ cf }: Request): boolean {
  const accepted = cf?.clientAcceptEncoding;
  return typeof accepted === "string" && /gzip|br|zstd|deflate|\*/.test(accepted);
}

function openBucket(
  asked: ServiceRequest,
  { bucket, by }: Exclude<Address, { level: "service" }>,
): BucketRequest {
  const { context } = asked;
  const address = addressOf(bucket, by);
  const tree = openTree(context, address);
  return { ...asked, bucket, address, by, tree, branch: context.branch(address) };
}

function openObject(bucket: BucketRequest, address: Address): ObjectRequest {
  const key = keyOf(bucket.query, address);
  const fault = pathFault(key);
  if (fault !== undefined) throw keyFailure(key, fault);
  return { ...bucket, key };
}

/** The key in the path, or in `filepath` if an upload begins at `POST /<bucket>?uploads`. */
function keyOf(query: ReadonlyMap<string, string>, address: Address): string {
  const filepath = query.get("filepath");
  if (address.level === "object") {
    if (filepath === undefined) return address.key;
    throw new S3Error("InvalidArgument", {
      message: "The key is in the path and in 'filepath', too: give it in one of them.",
    });
  }
  if (filepath) return filepath;
  throw new S3Error("InvalidArgument", {
    message:
      "No key is given: begin the upload at /<bucket>/<key>?uploads, or at /<bucket>?uploads&filepath=<key>.",
  });
}

function openUpload(
  bucket: BucketRequest,
  { address, url }: { address: Address; url: string },
): UploadRequest {
  const query = url.indexOf("?");
  return {
    ...bucket,
    uploadId: bucket.query.get("uploadId") ?? "",
    key: address.level === "object" ? address.key : undefined,
    resource: query === -1 ? url : url.slice(0, query),
  };
}
