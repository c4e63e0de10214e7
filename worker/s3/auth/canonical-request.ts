import { ANNOTATION_PREFIX } from "../request/annotation.ts";
import type { QueryPair, Target } from "../request/target.ts";
import { encodeUri, encodeUriPath } from "../request/target.ts";

/** A request as far as a signature covers it. */
export interface SignableRequest {
  readonly method: string;
  readonly target: Target;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
}

export interface Signed {
  readonly signedHeaders: readonly string[];
  /** The value of x-amz-content-sha256. */
  readonly payloadHash: string;
}

/** The ways in which a signer may have put one request into canonical form. */
export type Reading =
  /** As AWS describes it. */
  | "canonical"
  /** The platform joins a header that came twice with ", ", AWS with ",": see canBeJoined. */
  | "joined-headers"
  /** curl before 8 signs path and query as they go out, neither encoded nor sorted. */
  | "as-sent";

/**
 * The readings of a request that are worth a try, the likely one first. Each covers the whole request: to try another
 * gives nothing away.
 */
export function* canonicalRequests(request: SignableRequest, signed: Signed): Generator<string> {
  const canonical = canonicalRequest(request, { ...signed, reading: "canonical" });
  yield canonical;
  for (const reading of ["joined-headers", "as-sent"] as const) {
    const other = canonicalRequest(request, { ...signed, reading });
    if (other !== canonical) yield other;
  }
}

/** "Task 1: Create a Canonical Request" of AWS's "Authenticating Requests: Using the Authorization Header". */
export function canonicalRequest(
  { method, target, headers }: SignableRequest,
  { signedHeaders, payloadHash, reading }: Signed & { reading: Reading },
): string {
  const asSent = reading === "as-sent";
  const joined = reading === "joined-headers";
  let lines = `${method}\n${asSent ? target.rawPath : encodeUriPath(target.path)}\n`;
  lines += `${asSent ? target.rawQuery : canonicalQuery(target.query)}\n`;
  for (const name of signedHeaders) {
    const value = canonicalValue(headers.get(name) ?? "");
    lines += `${name}:${joined && canBeJoined(name) ? value.replaceAll(", ", ",") : value}\n`;
  }
  return `${lines}\n${signedHeaders.join(";")}\n${payloadHash}`;
}

/** Of the `x-amz-*`, those that are lists: the Java SDK sends one header an entry. */
const AMZ_LISTS: ReadonlySet<string> = new Set([
  "x-amz-object-attributes",
  "x-amz-optional-object-attributes",
]);
/** Kept with the object as they come, and no lists. */
const KEPT_TEXTS: ReadonlySet<string> = new Set(["content-disposition", "content-type", "expires"]);

/**
 * Whether "a, b" may stand for "a" and "b" in two headers. If the space counts (in a key to copy from, in metadata), the
 * value must be what was signed to the byte: anybody on the way could have put the space in.
 */
function canBeJoined(name: string): boolean {
  if (name.startsWith(ANNOTATION_PREFIX)) return false;
  return name.startsWith("x-amz-") ? AMZ_LISTS.has(name) : !KEPT_TEXTS.has(name);
}

/** Trimmed, with inner runs of spaces made one. */
function canonicalValue(value: string): string {
  return value.trim().replace(/ {2,}/g, " ");
}

function canonicalQuery(query: readonly QueryPair[]): string {
  if (query.length === 0) return "";
  // Encoded text is ASCII, so that comparing strings is comparing bytes.
  const encoded = query.map(([name, value]) => [encodeUri(name), encodeUri(value)] as const);
  encoded.sort(([a, av], [b, bv]) => (a === b ? compare(av, bv) : compare(a, b)));
  return encoded.map(([name, value]) => `${name}=${value}`).join("&");
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
