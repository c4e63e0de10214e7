import type { ErrorBody, Issue } from "../../../protocol/errors.ts";
import type { Context } from "../../app.ts";
import { STORE_WORDS, type StoreFault, storeFault } from "../../blobs/stores.ts";
import { CATALOGUE_WORDS, type CatalogueFault, catalogueFault } from "../../core/catalogue-fault.ts";

/** Codes of the control API's errors, and the status of each. */
const STATUS = {
  InvalidRequest: 400,
  InvalidSpec: 400,
  PathConflict: 400,
  NoSuchContent: 400,
  AccessDenied: 403,
  InvalidGrant: 403,
  NotFound: 404,
  NoSuchRepo: 404,
  NoSuchBranch: 404,
  NoSuchCommit: 404,
  NoSuchTag: 404,
  NoSuchUpload: 404,
  NoSuchSession: 404,
  NoSuchPipeline: 404,
  NoSuchJob: 404,
  NoSuchNode: 404,
  NoSuchAccessKey: 404,
  MethodNotAllowed: 405,
  RequestTimeout: 408,
  AlreadyExists: 409,
  ConditionalRequestConflict: 409,
  HeldByFork: 409,
  InUse: 409,
  JobEnded: 409,
  JobRunning: 409,
  NoInputData: 409,
  NotEmpty: 409,
  NotKept: 409,
  PipelineStopped: 409,
  SessionApplying: 409,
  NoEncryptionKey: 409,
  PreconditionFailed: 412,
  BodyTooLarge: 413,
  InternalError: 500,
  NotImplemented: 501,
  Unavailable: 503,
  StorageFull: 503,
  BranchFull: 400,
} as const;

export type ApiCode = keyof typeof STATUS;

/** What a handler throws; renderApiError makes the answer of it. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly code: ApiCode;
  readonly issues: readonly Issue[] | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ApiCode,
    message: string,
    { issues, headers = {} }: { issues?: readonly Issue[]; headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(message);
    this.code = code;
    this.issues = issues;
    this.headers = headers;
  }
}

type Refuse = (message: string, more?: ConstructorParameters<typeof ApiError>[2]) => ApiError;

const CODES = Object.keys(STATUS) as ApiCode[];

/** The error of each code: `apiError.NotFound("There is no …")`. */
export const apiError = Object.fromEntries(
  CODES.map((code): [string, Refuse] => [code, (message, more) => new ApiError(code, message, more)]),
) as Record<ApiCode, Refuse>;

/** When a client should try again what is not possible just now. */
const RETRY_AFTER_SECONDS = "1";

/** The answer to a request that failed. Any error but an ApiError is our fault: it is logged, and the client learns only the request's id. */
export function renderApiError(error: unknown, context: Told): Response {
  const failure = error instanceof ApiError ? error : unexpected(error, context.requestId);
  const { code, message, issues, headers } = failure;
  const body = { code, message, ...(issues && { issues: [...issues] }) };
  const status = STATUS[code];
  const again = status === 503 && { "retry-after": RETRY_AFTER_SECONDS };
  return errorAnswer(body, { status, headers: { ...again, ...headers }, context });
}

/** What an error is told to beside the client. */
type Told = Pick<Context, "requestId" | "event">;

/** The error for what the catalogue could not do. */
export function catalogueError(fault: CatalogueFault): ApiError {
  return new ApiError("Unavailable", CATALOGUE_WORDS[fault]);
}

const STORE_CODES: Record<StoreFault, ApiCode> = {
  "bytes-lost": "InternalError",
  "store-takes-nothing": "Unavailable",
  "disk-full": "StorageFull",
  "no-handles": "Unavailable",
};

function unexpected(error: unknown, requestId: string): ApiError {
  console.error(`request ${requestId} failed:`, error);
  const fault = catalogueFault(error);
  if (fault) return catalogueError(fault);
  const lacking = storeFault(error);
  if (lacking) return new ApiError(STORE_CODES[lacking], STORE_WORDS[lacking]);
  if (isRetryable(error)) return new ApiError("Unavailable", "The gateway is overloaded: try again.");
  return new ApiError("InternalError", "The gateway failed: try again.");
}

/** The platform marks errors of an object that is overloaded or was restarted: another try may help. */
export function isRetryable(error: unknown): boolean {
  return error instanceof Error && ("retryable" in error || "overloaded" in error);
}

/** The answer for an error; that of the signature check has code and status of the S3 gateway. */
export function errorAnswer(
  error: ErrorBody["error"],
  { status, headers, context }: { status: number; headers?: ApiError["headers"]; context: Told },
): Response {
  const { requestId, event } = context;
  event.code = error.code;
  return Response.json({ error, requestId } satisfies ErrorBody, {
    status,
    headers: { ...headers, "x-amz-request-id": requestId },
  });
}
