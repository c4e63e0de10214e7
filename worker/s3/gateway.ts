/**
 * The S3 gateway. It refuses what it does not have, with 501 NotImplemented unless another code stands here, and never
 * ignores it:
 * - SelectObjectContent, RestoreObject, RenameObject, appending (x-amz-write-offset-bytes)
 * - session tokens (400 InvalidToken), signatures of version 2 and of version 4A (400)
 * Without a signature, 403 for all but reads of public branches: objects and listings, neither versions nor uploads; a form has
 * its signature in its fields, over its policy.
 * What S3's settings of a bucket can't be here is told as it is (buckets/fixed-settings.ts).
 * It will never have ACLs other than private and public-read of a bucket, policies that say anything else, keys of its own
 * for encryption, object lock, storage classes other than STANDARD, notifications, website, and a
 * delimiter other than `/` (400 InvalidArgument). Of lifecycle rules it has Expiration (Days or Date) and
 * AbortIncompleteMultipartUpload by prefix, of these the first by tags, too, and NoncurrentVersionExpiration of the whole bucket.
 */
import { type BucketAddress, bucketName, isUlid } from "../../protocol/names.ts";
import { pathFault } from "../../protocol/paths.ts";
import type { Caller, Context } from "../app.ts";
import { permits, refusalText } from "../core/permissions.ts";
import { S3Error, s3Error } from "./answer/errors.ts";
import { keyFailure } from "./answer/failures.ts";
import { keepWaiting } from "./answer/keep-waiting.ts";
import { renderError } from "./answer/render-error.ts";
import { isUnsigned } from "./auth/claim.ts";
import { operationHeaders, operationQuery } from "./auth/presigned.ts";
import { presumed, type ReadAhead, readAhead } from "./auth/read-ahead.ts";
import { admitUnsigned, refuseUnsigned } from "./auth/unsigned.ts";
import { signableHeaders, verify } from "./auth/verify.ts";
import { mustTakeWrites, openTree, publicTree, readOnly } from "./bucket-tree.ts";
import { REGION_HEADER } from "./buckets/bucket.ts";
import { detectOperation, detectServiceOperation, isPostOfForm } from "./detect.ts";
import { fieldHeaders, type OpenForm, openForm } from "./forms/open-form.ts";
import type { FormRequest } from "./forms/post-object.ts";
import type { BucketRequest, ObjectRequest, Operation, ServiceRequest, UploadRequest } from "./operation.ts";
import {
  BUCKET_OPERATIONS,
  FORM_OPERATIONS,
  OBJECT_OPERATIONS,
  SERVICE_OPERATIONS,
  UPLOAD_OPERATIONS,
} from "./operations.ts";
import { type Address, addressOf, parseAddress, refuseHidden } from "./request/address.ts";
import { answerPreflight, crossOriginHeaders } from "./request/cross-origin.ts";
import { tellEncryption } from "./request/encryption.ts";
import { FORM_FIELDS, MEMBERS, type Members } from "./request/members.ts";
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
  const { requestId, event } = context;
  const fail = (error: unknown): Response =>
    renderError(error, { method: request.method, resource: rawPathOf(request.url), requestId, event });
  const response = await answer(request, { context, now, fail }).catch(fail);
  response.headers.set("x-amz-request-id", requestId);
  // No cache keeps the answer to a preflight: browsers go by its own max-age.
  const mayBeKept = !request.headers.has("authorization") && request.method !== "OPTIONS";
  if (mayBeKept) forbidCaching(response.headers);
  return response;
}

/**
 * Caches may keep the answer to a request without `Authorization` as they see fit, and serve it when it is old: browsers go by
 * Last-Modified. So it says that they must ask, unless the object says what they may do. An answer to a signed request has
 * what the object has and no more: no shared cache keeps it, and tools copy its headers to other objects.
 */
function forbidCaching(headers: Headers): void {
  if (!headers.has("cache-control") && !headers.has("expires")) {
    headers.set("cache-control", "private, no-cache");
  }
}

/** An address of a bucket itself. */
type BucketAddressed = Extract<Address, { level: "bucket" }>;

/** What a request is sent to and with, before anybody knows who sent it. */
interface Sent extends AnswerOptions {
  readonly request: Request;
  readonly target: Target;
  readonly headers: ReadonlyMap<string, string>;
  readonly address: Address;
}

async function answer(request: Request, options: AnswerOptions): Promise<Response> {
  const target = parseTarget(request.url);
  if (target === undefined) throw s3Error.InvalidURI();
  const headers = signableHeaders(request);
  const { domain } = options.context.config;
  const address = parseAddress({ path: target.path, host: headers.get("host") }, { domain });
  const sent = { request, target, headers, address, ...options };
  const { method } = request;
  const origin = headers.get("origin");
  // The query of a preflight may hold a signature: that of the request which is to follow.
  if (method === "OPTIONS" && !headers.has("authorization"))
    return await answerPreflight(sent, options.context);
  const answering = answerCaller(sent).catch((error: unknown) => {
    throw method === "HEAD" && address.level === "bucket" ? tellingRegion(error) : error;
  });
  if (origin === undefined) return await answering;
  const [answered, more] = await Promise.all([
    answering.catch(options.fail),
    crossOriginHeaders({ origin, method, address }, options.context),
  ]);
  for (const [name, value] of Object.entries(more)) answered.headers.set(name, value);
  return answered;
}

/**
 * HEAD of a bucket tells its region also to callers who may not see it, as on S3: SDKs send it with any key, or with none, to
 * learn where a bucket is. Here the region is the same for all, so that it tells nothing of a bucket, not even that it is there.
 */
function tellingRegion(error: unknown): unknown {
  if (!(error instanceof S3Error) || error.status !== 403) return error;
  const { code, message, headers } = error;
  return new S3Error(code, message, { ...error, headers: { ...headers, ...REGION_HEADER } });
}

/**
 * Clients may rely on the order, because it decides which of two faults they hear of: address → signature → bucket →
 * operation → refused headers and sub-resources → permission → header values → body.
 */
async function answerCaller(sent: Sent): Promise<Response> {
  const { address, target, headers, context } = sent;
  const { method } = sent.request;
  const unsigned = isUnsigned({ headers, target });
  if (unsigned && address.level === "bucket") {
    const asksFor = { method, level: address.level, query: operationQuery(target) };
    if (isPostOfForm(asksFor)) return await answerForm(sent, address);
  }
  const begun: { ahead?: ReadAhead | undefined } = {};
  const meanwhile = (keyId: string): void => {
    begun.ahead = aheadOf(sent, keyId);
  };
  try {
    const caller = unsigned
      ? await admitUnsigned({ method, address }, context)
      : await verify({ method, target, headers }, { keys: context.keys, now: sent.now(), meanwhile });
    return await answerKnown(sent, { caller, ...begun });
  } finally {
    begun.ahead?.drop();
  }
}

/** Begins a read of an object while the key of this id is looked up; undefined if the request is for something else. */
function aheadOf(sent: Sent, keyId: string): ReadAhead | undefined {
  const { address, request, context } = sent;
  if (address.level !== "object" || (request.method !== "GET" && request.method !== "HEAD")) return undefined;
  // Nobody without a key may decide where a bucket lives that is not there yet.
  if (!context.config.probesBuckets) return undefined;
  const caller = presumed(keyId);
  return readAhead(context, async (own, heldBack) => {
    const asked = requestOf({ ...sent, context: own }, caller);
    const { method } = request;
    const detected = detectOperation(address.level, { method, query: asked.query, headers: asked.headers });
    const operation = detected.level === "object" ? OBJECT_OPERATIONS[detected.name] : undefined;
    if (!operation?.readsAhead) return undefined;
    const opened = openObject(openBucket(asked, address), address);
    return await operation.handle({ ...opened, tree: heldBack(opened.tree) });
  });
}

/** Answers a sender who is known, or who need not be. */
async function answerKnown(
  sent: Sent,
  { caller, ahead }: { caller: Caller; ahead?: ReadAhead | undefined },
): Promise<Response> {
  const { address, context, fail } = sent;
  const { method, url } = sent.request;
  const asked = requestOf(sent, caller);
  const { event } = context;
  if (asked.caller.keyId) event.key = asked.caller.keyId;
  if (address.level === "service") {
    const name = detectServiceOperation(method);
    event.operation = name;
    const operation = SERVICE_OPERATIONS[name];
    return await run(operation, { asked, members: MEMBERS[name], address: null, open: () => asked, fail });
  }
  const bucket = openBucket(asked, address);
  await refuseHidden(address.bucket, { by: address.by, hiddenRepos: context.hiddenRepos });
  event.bucket = bucketName(bucket.address);
  const detected = detectOperation(address.level, { method, query: asked.query, headers: asked.headers });
  event.operation = detected.name;
  const on = { asked, members: MEMBERS[detected.name], address: bucket.address, fail };
  switch (detected.level) {
    case "bucket":
      return await run(BUCKET_OPERATIONS[detected.name], { ...on, open: () => bucket });
    case "object":
      return await run(OBJECT_OPERATIONS[detected.name], {
        ...on,
        ahead,
        open: () => openObject(bucket, address),
      });
    case "upload": {
      const open = () => openUpload(bucket, { address, url });
      return await run(tellingOfBucket(UPLOAD_OPERATIONS[detected.name]), { ...on, open });
    }
  }
}

/** The same, of a form: who signed it, and what it asks for, is in its fields. */
async function answerForm(sent: Sent, address: BucketAddressed): Promise<Response> {
  const { request, headers, context, now, fail } = sent;
  const { event } = context;
  event.operation = "PostObject";
  const posted = { body: request.body, headers, bucket: address.bucket };
  const form = await openForm(posted, { keys: context.keys, now });
  event.key = form.caller.keyId;
  const asked = requestOf(sent, form.caller);
  const bucket = openBucket(asked, address);
  await refuseHidden(address.bucket, { by: address.by, hiddenRepos: context.hiddenRepos });
  event.bucket = bucketName(bucket.address);
  refuseHeaders(form.fields, FORM_FIELDS, { word: "field" });
  const open = () => openPosted(bucket, { form, url: request.url });
  const members = MEMBERS.PostObject;
  return await run(FORM_OPERATIONS.PostObject, { asked, members, address: bucket.address, open, fail });
}

/**
 * The operation, but if it finds no upload because the bucket is not there, or is that of a commit, then that is said. It is
 * asked afterwards, since an upload that is found says by itself that its bucket is there.
 */
function tellingOfBucket(operation: Operation<UploadRequest>): Operation<UploadRequest> {
  return {
    ...operation,
    async handle(request) {
      try {
        return await operation.handle(request);
      } catch (error) {
        if (error instanceof S3Error && error.code === "NoSuchUpload") await mustTakeWrites(request);
        throw error;
      }
    },
  };
}

/** What an operation is run with. */
interface Run<R> {
  readonly asked: ServiceRequest;
  readonly members: Members;
  /** What the operation touches; null if that is not one repo. */
  readonly address: BucketAddress | null;
  /** The operation's own request, whose address is only looked at once the operation may be done. */
  readonly open: () => R;
  readonly fail: AnswerOptions["fail"];
  /** It has begun already. */
  readonly ahead?: ReadAhead | undefined;
}

async function run<R>(
  operation: Operation<R>,
  { asked, members, address, open, fail, ahead }: Run<R>,
): Promise<Response> {
  if (isAnybody(asked)) refuseUnsigned(asked.query, { ...operation, members });
  refuseQuery(asked.query, members);
  if (address?.view !== undefined) refuseOnViewBucket(asked.query, { operation, address });
  refuseHeaders(asked.headers, members);
  checkExpectedOwner(asked.headers);
  const permission = operation.permissionOf?.(asked.query) ?? operation.permission;
  const need = { permission, repo: address?.repo ?? null };
  if (!permits(asked.caller.scope, need)) {
    throw s3Error.AccessDenied(refusalText(asked.caller.scope, need));
  }
  const goOn = async (begun: ReadAhead) => (await begun.take()) ?? (await operation.handle(open()));
  const handled = ahead ? goOn(ahead) : operation.handle(open());
  const good = await (operation.mayTakeLong ? keepWaiting(handled, { fail }) : handled);
  // An answer that begins before its work is done has no other headers, but this one is known by then.
  return operation.tellsEncryption ? tellEncryption(good, asked.context) : good;
}

/** A tag's name says that it is read-only. Of an id the operation hears from the branch whether it takes writes. */
function refuseOnViewBucket(
  query: ServiceRequest["query"],
  { operation, address: { view, ...branch } }: { operation: Operation<never>; address: BucketAddress },
): void {
  const writes = operation.permission === "write" || operation.permission === "admin" || operation.ofWrites;
  if (view !== undefined && writes && !isUlid(view)) throw readOnly({ ...branch, view });
  refuseOnView(query, operation);
}

/** The request of a caller who is known, or who need not be. */
function requestOf(
  { request, target, headers, address, context, now }: Sent,
  caller: Caller,
): ServiceRequest {
  return {
    context,
    caller,
    headers: operationHeaders(headers, target),
    query: operationQuery(target),
    body: request.body,
    now,
    besideApi: address.level === "service" || address.by === "path",
    compressingProxy: hasCompressingProxy(request),
  };
}

/** Whether nobody signed the request. */
function isAnybody({ caller }: Pick<ServiceRequest, "caller">): boolean {
  return caller.scope.level === "public";
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
  const branch = context.branch(address);
  const tree = openTree(branch, address, context.shared(address));
  const shown = isAnybody(asked) ? publicTree(tree) : tree;
  return { ...asked, bucket, address, by, tree: shown, branch };
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
    throw s3Error.InvalidArgument("The key is in the path and in 'filepath', too: give it in one of them.");
  }
  if (filepath) return filepath;
  throw s3Error.InvalidArgument(
    "No key is given: begin the upload at /<bucket>/<key>?uploads, or at /<bucket>?uploads&filepath=<key>.",
  );
}

/** A form as a request to make an object. Throws if its key can't be one. */
function openPosted(bucket: BucketRequest, { form, url }: { form: OpenForm; url: string }): FormRequest {
  const key = form.fields.get("key") ?? "";
  const fault = pathFault(key);
  if (fault !== undefined) throw keyFailure(key, fault);
  return { ...bucket, headers: fieldHeaders(form.fields), key, form, resource: withoutQuery(url) };
}

function withoutQuery(url: string): string {
  const query = url.indexOf("?");
  return query === -1 ? url : url.slice(0, query);
}

function openUpload(
  bucket: BucketRequest,
  { address, url }: { address: Address; url: string },
): UploadRequest {
  return {
    ...bucket,
    uploadId: bucket.query.get("uploadId") ?? "",
    key: address.level === "object" ? address.key : undefined,
    resource: withoutQuery(url),
  };
}
