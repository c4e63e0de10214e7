/**
 * The S3 gateway. Not there yet, and refused with 501 NotImplemented, never ignored:
 * - presigned URLs; aws-chunked bodies (`STREAMING-*`), trailers, x-amz-checksum-*
 * - multipart uploads; CopyObject; conditional PUT and DELETE
 * - Cache-Control, Content-Disposition, Content-Encoding, Content-Language and Expires of an object, response-*
 * - deleting a version; listing versions; ListBuckets' prefix
 * - virtual-host addressing (the Host is not looked at), CORS
 * - access keys other than the root key, and with them permissions: each operation declares the one it needs
 * For good: ACLs, policies, tagging, encryption, object lock, storage classes, lifecycle, website, and a
 * delimiter other than `/`.
 */
import { pathFault } from "../../protocol/paths.ts";
import type { Context } from "../app.ts";
import { branchOf, parseAddress } from "./address.ts";
import { authenticateTarget, signableHeaders } from "./auth/authenticate.ts";
import { detectBucketOperation, detectObjectOperation, detectServiceOperation } from "./detect.ts";
import { S3Error } from "./errors.ts";
import { keyFailure } from "./failures.ts";
import type { BucketRequest, Operation, ServiceRequest } from "./operation.ts";
import { BUCKET_OPERATIONS, OBJECT_OPERATIONS, SERVICE_OPERATIONS } from "./operations.ts";
import { checkExpectedOwner, refuseHeaders, refuseQuery } from "./refusals.ts";
import { renderError } from "./render-error.ts";
import { parseTarget, rawPathOf, type Target } from "./target.ts";

export interface GatewayOptions {
  readonly context: Context;
  readonly rootKey: { readonly id: string; readonly secret: string };
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number;
}

/** Answers one S3 request, whatever becomes of it: never rejects. */
export async function handleS3(request: Request, options: GatewayOptions): Promise<Response> {
  const { requestId } = options.context;
  try {
    const response = await answer(request, options);
    response.headers.set("x-amz-request-id", requestId);
    return response;
  } catch (error) {
    return renderError(error, { method: request.method, resource: rawPathOf(request.url), requestId });
  }
}

/**
 * The order is contract (design §5), because it decides which of two faults a client hears of: address →
 * signature → bucket → operation → refused headers and sub-resources → permission → header values → body.
 */
async function answer(request: Request, options: GatewayOptions): Promise<Response> {
  const target = parseTarget(request.url);
  if (target === undefined) throw new S3Error("InvalidURI");
  const address = parseAddress(target.path);
  const asked = readRequest(request, { target, options });
  const { method } = request;
  if (address.level === "service") {
    const operation = SERVICE_OPERATIONS[detectServiceOperation(method)];
    admit(asked, operation);
    return operation.handle(asked);
  }
  const onBucket = openBucket(asked, address.bucket);
  if (address.level === "bucket") {
    const operation = BUCKET_OPERATIONS[detectBucketOperation(method, asked.query)];
    admit(asked, operation);
    return operation.handle(onBucket);
  }
  const { key } = address;
  const operation = OBJECT_OPERATIONS[detectObjectOperation(method, asked.query)];
  admit(asked, operation);
  const fault = pathFault(key);
  if (fault !== undefined) throw keyFailure(key, fault);
  return operation.handle({ ...onBucket, key });
}

/** The request of a known caller. */
function readRequest(
  request: Request,
  { target, options }: { target: Target; options: GatewayOptions },
): ServiceRequest {
  const { context, rootKey, now } = options;
  const headers = signableHeaders(request);
  const auth = authenticateTarget({ request, target, headers }, { rootKey, now: now() });
  if (!auth.ok) throw new S3Error(auth.code, { message: auth.message });
  return {
    context,
    caller: auth.caller,
    headers,
    query: firstOfEach(target),
    body: request.body,
    now,
    compressingProxy: hasCompressingProxy(request),
  };
}

/** Cloudflare and `wrangler dev`, which say so by keeping the client's Accept-Encoding, compress for those who take it. */
function hasCompressingProxy({ cf }: Request): boolean {
  const accepted = cf?.clientAcceptEncoding;
  return typeof accepted === "string" && /gzip|br|zstd|deflate|\*/.test(accepted);
}

function firstOfEach({ query }: Target): ReadonlyMap<string, string> {
  return new Map(query.toReversed());
}

function openBucket(asked: ServiceRequest, bucket: string): BucketRequest {
  const address = branchOf(bucket);
  return { ...asked, bucket, address, branch: asked.context.branch(address) };
}

/** Refuses what the operation does not understand. The caller has the root key, which may do everything. */
function admit<R>({ query, headers }: ServiceRequest, operation: Operation<R>): void {
  refuseQuery(query, operation);
  refuseHeaders(headers, operation);
  checkExpectedOwner(headers);
}
