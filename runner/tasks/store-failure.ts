import type { Failure } from "../gateway/client.ts";
import { Stalled } from "../lib/concurrency.ts";
import { errorCode } from "../lib/fault.ts";

/**
 * What is told of a store's failure: the vendor's code and the status of the answer, after `redact`. Nothing else of an
 * answer is told, because it need not be a store that answers: the address may be that of any service that the runner
 * reaches, and a job's reason is read by those who chose the address.
 */
export function storeMessage(error: unknown, redact: (text: string) => string): string {
  const own = chainOf(error).find(isOwn);
  if (own) return own.message;
  const root = rootOf(error);
  if (root instanceof Error && root.name === "CredentialsProviderError") {
    return "no credentials were found in the environment of the runner";
  }
  const status = statusOf(root);
  const label = labelOf(root);
  if (status === undefined) return label === undefined ? "no answer" : `no answer (${redact(label)})`;
  return label === undefined ? `status ${status}` : `${redact(label)} (status ${status})`;
}

/** Errors whose words are the runner's. */
const OWN_NAMES = new Set(["EgressFault", "ContentBroken", "Outrun"]);

function isOwn(error: unknown): error is Error {
  return error instanceof Stalled || (error instanceof Error && OWN_NAMES.has(error.name));
}

/** An error and what caused it, outermost first. */
function chainOf(error: unknown): unknown[] {
  const next =
    error instanceof AggregateError ? error.errors[0] : error instanceof Error ? error.cause : null;
  return next == null ? [error] : [error, ...chainOf(next)];
}

/** The innermost error says most, if several addresses of a host were tried or one error has another as its cause. */
function rootOf(error: unknown): unknown {
  if (error instanceof AggregateError && error.errors.length > 0) return rootOf(error.errors[0]);
  if (error instanceof Error && error.cause instanceof Error && statusOf(error) === undefined) {
    return rootOf(error.cause);
  }
  return error;
}

/** The vendor's code of a refusal, such as "AccessDenied", or that of the failed system call. Each vendor's SDK keeps it elsewhere. */
export function labelOf(error: unknown): string | undefined {
  const name = error instanceof Error && statusOf(error) !== undefined ? error.name : undefined;
  return [errorCode(error), reasonOf(error), name].find(isCode);
}

/** Google's reasons, such as "notFound", are in lists. */
function reasonOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { errors, response } = error as Reasons;
  const list = errors ?? response?.data?.error?.errors;
  const first: unknown = Array.isArray(list) ? list[0] : undefined;
  const isObject = typeof first === "object" && first !== null;
  return isObject && "reason" in first && typeof first.reason === "string" ? first.reason : undefined;
}

interface Reasons {
  readonly errors?: unknown;
  readonly response?: { readonly data?: { readonly error?: Reasons } };
}

function isCode(text: unknown): text is string {
  return typeof text === "string" && /^[A-Za-z][A-Za-z0-9_]{1,63}$/.test(text) && !GENERIC.has(text);
}

const GENERIC = new Set(["Error", "RestError", "ApiError", "GaxiosError", "Unknown", "UnknownError"]);

/** Codes of status 400 that blame this one try: bytes were lost or came too slowly. */
const TRANSIENT_CODES = new Set([
  "BadDigest",
  "IncompleteBody",
  "InternalError",
  "Md5Mismatch",
  "OperationAborted",
  "RequestTimeout",
  "SlowDown",
  "XAmzContentSHA256Mismatch",
]);

/** Whether another try may go better. So it may, a number of times, if there was no answer at all. */
export function storeFailureOf(error: unknown): Failure {
  if (chainOf(error).some((one) => one instanceof EgressFault)) return "final";
  if (error instanceof Error && error.name === "CredentialsProviderError") return "final";
  if (TRANSIENT_CODES.has(labelOf(error) ?? "")) return "transient";
  const status = statusOf(error);
  if (status === undefined) return "transient";
  return status >= 500 || status === 429 || status === 408 ? "transient" : "final";
}

/** The status of the store's answer; undefined if there was none. Each vendor's SDK keeps it elsewhere. */
export function statusOf(error: unknown): number | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { $metadata, response, statusCode, status, code } = error as Statuses;
  const found = [$metadata?.httpStatusCode, response?.status, response?.statusCode, statusCode, status, code];
  return found.map(Number).find((number) => Number.isInteger(number) && number >= 100 && number < 600);
}

interface Statuses {
  readonly $metadata?: { readonly httpStatusCode?: unknown };
  readonly response?: { readonly status?: unknown; readonly statusCode?: unknown };
  readonly statusCode?: unknown;
  readonly status?: unknown;
  readonly code?: unknown;
}

/** Why an egress can't succeed as it is set up, for the readers of its job. Holds no credentials. */
export class EgressFault extends Error {
  override readonly name = "EgressFault";
}
