import type { Caller } from "../../app.ts";
import { BodyReader, type ByteSource, sentBody } from "../../blobs/body-reader.ts";
import type { KeyRing } from "../../keys/key-ring.ts";
import { S3Error, s3Error } from "../answer/errors.ts";
import { writeFailure } from "../answer/failures.ts";
import { type FormClaim, missingField, readFormClaim } from "../auth/form-claim.ts";
import { verifyPolicy } from "../auth/verify.ts";
import { BODY_IDLE_MS, MAX_FORM_FIELDS_BYTES, MAX_FORM_FIELDS_MS } from "../limits.ts";
import { parseTagging, tagsHeader } from "../objects/tag-set.ts";
import { isOurs } from "../request/refusals.ts";
import { Delimiter, FormFile, type FormHead, FormHeadReader, malformed } from "./form-parts.ts";
import { checkPolicy, parsePolicy, type SizeRange } from "./policy.ts";

/*
 * A form that a browser posts to a bucket (S3 API Reference, "Browser-Based Uploads Using POST"). Nobody signs the request:
 * somebody signed a policy, which says what the form may hold and until when, and gave both to the page. So the fields come
 * first, and are read before anybody knows who asks; they are bounded, in bytes (form-parts.ts) and in time. Then it is found
 * out who signed the policy, and the form is held to it (policy.ts). The file is a stream that ends at the delimiter, or where
 * the policy says that it is too large (form-parts.ts); it is read by the operation, post-object.ts, as PutObject reads its body.
 */

/** A form whose fields are read and allowed, and whose file is still to come. */
export interface OpenForm {
  /** Who signed the policy. */
  readonly caller: Caller;
  /** By names in lower case, `${filename}` put in. */
  readonly fields: ReadonlyMap<string, string>;
  readonly file: FormFile;
  /** How many bytes the file may have. */
  readonly sizes: SizeRange;
}

export interface FormRequest {
  readonly body: ReadableStream<Uint8Array> | null;
  readonly headers: ReadonlyMap<string, string>;
  /** As the client wrote it. */
  readonly bucket: string;
}

export interface FormOptions {
  readonly keys: KeyRing;
  readonly now: () => number;
}

/** Reads a form up to its file. Throws S3Error for a form that is malformed, unsigned, or not what its policy allows. */
export async function openForm(request: FormRequest, { keys, now }: FormOptions): Promise<OpenForm> {
  const delimiter = new Delimiter(boundaryOf(request.headers.get("content-type")));
  const { head, rest, raw } = await readHead(request.body, { delimiter, now });
  try {
    const fields = fieldsOf(head);
    if (!fields.get("key")) throw missingField("key");
    const claim = readFormClaim(fields, now());
    const caller = await verifyPolicy(claim, keys).catch((error: unknown) => {
      throw tellingClaim(error, claim);
    });
    const sizes = checkPolicy(parsePolicy(claim.policy), { bucket: request.bucket, fields, now: now() });
    const proposed = proposedSize(request.headers, { head, delimiter });
    const more = { ProposedSize: proposed, MaxSizeAllowed: sizes.max };
    const tooLarge = () => s3Error.EntityTooLarge(undefined, { more });
    const file = new FormFile({ raw, delimiter, ahead: rest, max: sizes.max, tooLarge });
    return { caller, fields, file, sizes };
  } catch (error) {
    await raw.cancel().catch(() => {});
    throw error;
  }
}

/** Characters of a boundary (RFC 2046 §5.1.1). */
const BOUNDARY = /^[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]$/;

/** The boundary in a Content-Type. Throws PreconditionFailed if it is no form's, and MalformedPOSTRequest if it names none. */
function boundaryOf(contentType: string | undefined): string {
  if (!/^\s*multipart\/form-data\s*(;|$)/i.test(contentType ?? "")) {
    throw s3Error.PreconditionFailed("At least one of the pre-conditions you specified did not hold", {
      more: { Condition: "Bucket POST must be of the enclosure-type multipart/form-data" },
    });
  }
  const [, quoted, token] = /;\s*boundary=(?:"([^"]*)"|([^;\s]*))/i.exec(contentType ?? "") ?? [];
  const boundary = quoted ?? token ?? "";
  if (BOUNDARY.test(boundary)) return boundary;
  throw malformed("Content-Type names no boundary of up to 70 characters");
}

const READ_BYTES = 16 * 1024;

async function readHead(
  body: ReadableStream<Uint8Array> | null,
  { delimiter, now }: { delimiter: Delimiter; now: () => number },
): Promise<{ head: FormHead; rest: Uint8Array<ArrayBuffer>; raw: ByteSource }> {
  if (body === null) throw malformed("it is empty");
  const reader = new BodyReader(sentBody(body), { idleMs: BODY_IDLE_MS, now });
  const fields = new FormHeadReader(delimiter);
  let head: FormHead | undefined;
  const since = now();
  let tooSlow = false;
  try {
    let space = new Uint8Array(READ_BYTES);
    while (head === undefined) {
      const bytes = await reader.read(space, 1);
      tooSlow = reader.end === "idle" || now() - since > MAX_FORM_FIELDS_MS;
      if (tooSlow) throw writeFailure("request-timeout");
      if (reader.end === "lost") throw writeFailure("incomplete-body");
      head = fields.push(bytes);
      if (head === undefined && reader.end !== null) throw malformed("it ends before its file");
      // Reading transferred the buffer: this one is the same memory.
      space = new Uint8Array(bytes.buffer);
    }
  } catch (error) {
    await reader.close({ atOnce: tooSlow });
    throw error;
  }
  return { head, rest: fields.rest, raw: reader.release() };
}

const FILENAME = `\${filename}`;
/** Fields in which it is not a variable: what belongs to the signature is taken as it is. */
const VERBATIM: ReadonlySet<string> = new Set([
  "policy",
  "x-amz-algorithm",
  "x-amz-credential",
  "x-amz-date",
  "x-amz-signature",
]);

/**
 * The fields by name. Metadata that comes twice is joined, as HTTP joins headers; any other field may come once. Nobody is known
 * yet: with the file's name put in, all values together have no more characters than a form may have bytes before its file.
 * Throws InvalidArgument and MaxPostPreDataLengthExceededError.
 */
function fieldsOf({ fields, filename }: FormHead): ReadonlyMap<string, string> {
  // Some browsers send a whole path: what counts stands behind the last slash.
  const base = filename.slice(Math.max(filename.lastIndexOf("/"), filename.lastIndexOf("\\")) + 1);
  const found = new Map<string, string>();
  let length = 0;
  for (const { name, value: sent } of fields) {
    const pieces = VERBATIM.has(name) ? [sent] : sent.split(FILENAME);
    length += sent.length + (pieces.length - 1) * (base.length - FILENAME.length);
    if (length > MAX_FORM_FIELDS_BYTES) throw s3Error.MaxPostPreDataLengthExceededError();
    const value = pieces.join(base);
    const before = found.get(name);
    if (before === undefined || name.startsWith("x-ignore-")) found.set(name, value);
    else if (name.startsWith("x-amz-meta-")) found.set(name, `${before},${value}`);
    else throw s3Error.InvalidArgument(`The field ${name} comes twice: send it once.`);
  }
  return found;
}

/** The error of a policy that nobody signed, with what S3 wanted signed. */
function tellingClaim(error: unknown, { keyId, policy, signature }: FormClaim): unknown {
  if (!(error instanceof S3Error)) return error;
  const told = error.code === "SignatureDoesNotMatch" && {
    StringToSign: policy,
    SignatureProvided: signature,
    StringToSignBytes: hexBytes(policy),
  };
  const more = { AWSAccessKeyId: keyId, ...told };
  return new S3Error(error.code, error.message, { more });
}

/** How many bytes the file has if nothing stands behind it, which only Content-Length tells before it came. */
function proposedSize(
  headers: ReadonlyMap<string, string>,
  { head, delimiter }: { head: FormHead; delimiter: Delimiter },
): number | undefined {
  const whole = headers.get("content-length");
  if (whole === undefined || !/^[0-9]{1,15}$/.test(whole)) return undefined;
  return Number(whole) - head.length - delimiter.bytes.length - "--\r\n".length;
}

/** The bytes of a text in hex, as S3 shows what it wanted signed. */
function hexBytes(text: string): string {
  return Array.from(new TextEncoder().encode(text), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/**
 * The fields as a PutObject would send them in headers, which have no white space around them. Those that are the form's own mean
 * nothing there, and HTTP's own that a page leaves empty are not sent. Throws InvalidArgument if two of them mean the same
 * header, and what is wrong with tags.
 */
export function fieldHeaders(fields: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const headers = new Map<string, string>();
  for (const [name, value] of fields) {
    const header = HEADER_OF.get(name) ?? name;
    if (headers.has(header)) {
      throw s3Error.InvalidArgument(`The fields ${name} and ${header} mean the same: send one.`);
    }
    headers.set(header, name === "tagging" ? tagsInHeader(value) : value.trim());
  }
  for (const [header, value] of headers) if (value === "" && !isOurs(header)) headers.delete(header);
  return headers;
}

const HEADER_OF: ReadonlyMap<string, string> = new Map([
  ["acl", "x-amz-acl"],
  ["tagging", "x-amz-tagging"],
]);

/** The tags of a `Tagging` of XML, as a header names them. */
function tagsInHeader(xml: string): string {
  return xml.trim() === "" ? "" : tagsHeader(parseTagging(xml));
}
