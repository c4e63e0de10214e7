import type { ErrorBody, Issue } from "../../../protocol/errors.ts";

/** Codes of the control API's errors, and the status of each. */
const STATUS = {
  InvalidRequest: 400,
  InvalidSpec: 400,
  PathConflict: 400,
  NoSuchContent: 400,
  AccessDenied: 403,
  NotFound: 404,
  NoSuchRepo: 404,
  NoSuchBranch: 404,
  NoSuchCommit: 404,
  NoSuchUpload: 404,
  NoSuchSession: 404,
  NoSuchPipeline: 404,
  NoSuchJob: 404,
  NoSuchNode: 404,
  NoSuchAccessKey: 404,
  MethodNotAllowed: 405,
  RequestTimeout: 408,
  AlreadyExists: 409,
  InUse: 409,
  JobEnded: 409,
  NotKept: 409,
  SessionApplying: 409,
  NoEncryptionKey: 409,
  PreconditionFailed: 412,
  BodyTooLarge: 413,
  InternalError: 500,
  Unavailable: 503,
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

/** The answer to a request that failed. Any error but an ApiError is our fault: it is logged, and the client learns only the request's id. */
export function renderApiError(error: unknown, requestId: string): Response {
  if (!(error instanceof ApiError)) {
    console.error(`request ${requestId} failed:`, error);
    if (isRetryable(error)) {
      return render({ code: "Unavailable", message: "The gateway is overloaded: try again.", requestId });
    }
    return render({ code: "InternalError", message: "The gateway failed: try again.", requestId });
  }
  return render({ ...error, code: error.code, message: error.message, headers: error.headers, requestId });
}

/** The platform marks errors of an object that is overloaded or was restarted: another try may help. */
function isRetryable(error: unknown): boolean {
  return error instanceof Error && ("retryable" in error || "overloaded" in error);
}

/** An error whose code and status come from elsewhere: the signature check, which the S3 gateway shares. */
export function foreignError({
  code,
  message,
  status,
  requestId,
}: {
  code: string;
  message: string;
  status: number;
  requestId: string;
}): Response {
  const body: ErrorBody = { error: { code, message }, requestId };
  return Response.json(body, { status, headers: { "x-amz-request-id": requestId } });
}

function render({
  code,
  message,
  issues,
  headers = {},
  requestId,
}: {
  code: ApiCode;
  message: string;
  issues?: readonly Issue[] | undefined;
  headers?: Readonly<Record<string, string>>;
  requestId: string;
}): Response {
  const body: ErrorBody = { error: { code, message, ...(issues && { issues: [...issues] }) }, requestId };
  return Response.json(body, {
    status: STATUS[code],
    headers: { ...headers, "x-amz-request-id": requestId },
  });
}
