import { decodeBase64 } from "../../core/base64.ts";
import { type S3Error, s3Error } from "../answer/errors.ts";

/**
 * The policy of a form (S3 API Reference, "POST Policy"): JSON in base64 that says until when a form may be sent and what it
 * may hold. Messages are S3's, since people look them up.
 */
export interface Policy {
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
  readonly conditions: readonly Condition[];
}

type Condition = FieldCondition | { readonly kind: "content-length-range"; readonly range: SizeRange };

interface FieldCondition {
  readonly kind: "eq" | "starts-with";
  /** In lower case; undefined if the name has no `$`, so that it is no field's. */
  readonly field: string | undefined;
  readonly value: string;
  /** As a failure tells it. */
  readonly text: string;
}

/** How many bytes a file may have. */
export interface SizeRange {
  readonly min: number;
  readonly max: number;
}

/** Reads a policy as the form has it. Throws InvalidPolicyDocument. */
export function parsePolicy(base64: string): Policy {
  const document = readDocument(base64);
  if (typeof document !== "object" || document === null || Array.isArray(document)) throw NOT_JSON();
  const { expiration, conditions, ...others } = document as Readonly<Record<string, unknown>>;
  if (expiration === undefined) throw invalid("Policy missing expiration.");
  if (conditions === undefined) throw invalid("Policy missing conditions.");
  const [other] = Object.keys(others);
  if (other !== undefined) throw invalid(`Unexpected: "${other}"`);
  if (typeof expiration !== "string") throw NOT_JSON();
  if (!Array.isArray(conditions)) throw invalid("Invalid 'conditions' value: must be a List.");
  return { expiresAt: parseExpiration(expiration), conditions: conditions.map(parseCondition) };
}

function readDocument(base64: string): unknown {
  const text = base64.replace(/\s+/g, "");
  if (text === "") throw invalid("Expecting '{' but found End-of-Input");
  const [, digits] = /^([A-Za-z0-9+/]*)={0,2}$/.exec(text) ?? [];
  const padded = digits?.padEnd(Math.ceil(digits.length / 4) * 4, "=");
  const bytes = padded === undefined ? null : decodeBase64(padded);
  if (bytes === null) throw invalid("invalid Base64 encoding.");
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes));
  } catch {
    throw NOT_JSON();
  }
}

const EXPIRATION = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/;

function parseExpiration(text: string): number {
  const at = EXPIRATION.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) throw invalid(`Invalid 'expiration' value: '${text}'`);
  return at;
}

function parseCondition(condition: unknown): Condition {
  if (Array.isArray(condition)) return parseTest(condition);
  if (typeof condition !== "object" || condition === null) {
    throw invalid("Invalid condition test: must be a List or Object.");
  }
  const [entry, ...others] = Object.entries(condition);
  if (entry === undefined || others.length > 0) {
    throw invalid("Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.");
  }
  const [name, value] = entry;
  if (typeof value !== "string") throw invalid("Invalid Simple-Condition: value must be a string.");
  const text = `["eq", ${JSON.stringify(`$${name}`)}, ${JSON.stringify(value)}]`;
  return { kind: "eq", field: name.toLowerCase(), value, text };
}

/** A condition that is a list: what is tested, then its two arguments. */
function parseTest(list: readonly unknown[]): Condition {
  const [named, first, second] = list;
  if (named === undefined) throw invalid("Invalid Condition: missing operation identifier.");
  if (typeof named !== "string") throw NOT_JSON();
  const kind = named.toLowerCase();
  if (kind !== "eq" && kind !== "starts-with" && kind !== "content-length-range") {
    throw invalid(`Invalid Condition: unknown operation '${named}'.`);
  }
  if (list.length !== 3) throw invalid(`Invalid ${named}: wrong number of arguments.`);
  if (kind === "content-length-range")
    return { kind, range: { min: byteCount(first), max: byteCount(second) } };
  if (typeof first !== "string" || typeof second !== "string") throw NOT_JSON();
  const field = first.startsWith("$") && first.length > 1 ? first.slice(1).toLowerCase() : undefined;
  return { kind, field, value: second, text: JSON.stringify(list) };
}

/** A bound of a size: a whole number, which some write as a text. */
function byteCount(value: unknown): number {
  const bytes = typeof value === "string" && /^[0-9]{1,15}$/.test(value) ? Number(value) : value;
  if (typeof bytes !== "number" || !Number.isSafeInteger(bytes) || bytes < 0) throw NOT_JSON();
  return bytes;
}

/** A form as its policy judges it. */
export interface Judged {
  /** As the client wrote it. */
  readonly bucket: string;
  /** By names in lower case, `${filename}` put in. */
  readonly fields: ReadonlyMap<string, string>;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/**
 * Holds a form to its policy: it has not expired, every field is in a condition, and every condition holds. Returns how large
 * the file may be. Throws AccessDenied that names what fails.
 */
export function checkPolicy({ expiresAt, conditions }: Policy, { bucket, fields, now }: Judged): SizeRange {
  if (expiresAt < now) throw denied("Policy expired.");
  const inConditions = new Set(conditions.map((condition) => "field" in condition && condition.field));
  // S3 takes the bucket for a field, whether the form has one of that name or not.
  const values = new Map([...fields, ["bucket", bucket]]);
  const extra = [...values.keys()].filter((name) => !inConditions.has(name) && !isExempt(name));
  if (extra.length > 0) throw denied(`Extra input fields: ${extra.join(", ")}`);
  let range: SizeRange = { min: 0, max: Number.POSITIVE_INFINITY };
  for (const condition of conditions) {
    if (condition.kind === "content-length-range") range = narrowed(range, condition.range);
    else if (!holds(condition, values)) throw denied(`Policy Condition failed: ${condition.text}`);
  }
  return range;
}

/** Fields that need no condition. */
function isExempt(name: string): boolean {
  return name === "policy" || name === "x-amz-signature" || name.startsWith("x-ignore-");
}

function holds({ kind, field, value }: FieldCondition, values: ReadonlyMap<string, string>): boolean {
  const found = field === undefined ? undefined : values.get(field);
  if (found === undefined) return false;
  if (kind === "eq") return found === value;
  // A list of types is held to the condition one by one.
  if (field === "content-type") return found.split(",").every((type) => type.trim().startsWith(value));
  return found.startsWith(value);
}

function narrowed(one: SizeRange, other: SizeRange): SizeRange {
  return { min: Math.max(one.min, other.min), max: Math.min(one.max, other.max) };
}

function denied(what: string): S3Error {
  return s3Error.AccessDenied(`Invalid according to Policy: ${what}`);
}

function invalid(what: string): S3Error {
  return s3Error.InvalidPolicyDocument(`Invalid Policy: ${what}`);
}

function NOT_JSON(): S3Error {
  return invalid("Invalid JSON.");
}
