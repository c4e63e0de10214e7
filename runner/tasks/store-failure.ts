import type { Failure } from "../gateway/retry.ts";
import { errorCode } from "../lib/fault.ts";

const MAX_WORDS_CHARACTERS = 500;

/**
 * What a store's client said of a failure: its code and its message, in one line, after `redact`. Queries of URLs are
 * left out, because they may carry a signature.
 */
export function storeMessage(error: unknown, redact: (text: string) => string): string {
  const root = rootOf(error);
  const label = labelOf(root);
  const text = textOf(root);
  const words = label === undefined || text.includes(label) ? text : `${label}: ${text}`;
  // Shortened last: else a secret could be cut in two before it is found.
  return redact(words.replaceAll(/(https?:\/\/[^\s?"']*)\?[^\s"']*/g, "$1?…"))
    .slice(0, MAX_WORDS_CHARACTERS)
    .toWellFormed();
}

/** The innermost error says most, if several addresses of a host were tried or one error has another as its cause. */
function rootOf(error: unknown): unknown {
  if (error instanceof AggregateError && error.errors.length > 0) return rootOf(error.errors[0]);
  if (error instanceof Error && error.cause instanceof Error && statusOf(error) === undefined) {
    return rootOf(error.cause);
  }
  return error;
}

/** The vendor's code, such as "AccessDenied", else the status of the answer. */
function labelOf(error: unknown): string | undefined {
  const code = errorCode(error);
  if (code !== undefined && !GENERIC.has(code)) return code;
  const status = statusOf(error);
  if (status === undefined) return undefined;
  const named = error instanceof Error && /^[A-Z][A-Za-z]+$/.test(error.name) && !GENERIC.has(error.name);
  return named ? error.name : String(status);
}

const GENERIC = new Set(["Error", "RestError", "ApiError", "GaxiosError", "Unknown", "UnknownError"]);

function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const text = error.message.replace(/\s+/g, " ").trim();
  if (text !== "" && !GENERIC.has(text)) return text;
  return statusOf(error) === undefined ? error.name : "the store said nothing more";
}

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
  if (error instanceof EgressFault) return "final";
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
  const found = [$metadata?.httpStatusCode, response?.status, statusCode, status, code];
  return found.map(Number).find((number) => Number.isInteger(number) && number >= 100 && number < 600);
}

interface Statuses {
  readonly $metadata?: { readonly httpStatusCode?: unknown };
  readonly response?: { readonly status?: unknown };
  readonly statusCode?: unknown;
  readonly status?: unknown;
  readonly code?: unknown;
}

/** Why an egress can't succeed as it is set up, for the readers of its job. Holds no credentials. */
export class EgressFault extends Error {
  override readonly name = "EgressFault";
}
