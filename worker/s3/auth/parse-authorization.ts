import { type S3Error, s3Error } from "../answer/errors.ts";

/** What an `Authorization` header or the query of a presigned URL says of a signature. */
export interface Authorization extends Credential {
  /** Lower-case names, in the order given. */
  readonly signedHeaders: readonly string[];
  /** 64 lower-case hex digits. */
  readonly signature: string;
}

export const ALGORITHM = "AWS4-HMAC-SHA256";

/** What headers said before their signature: a client sends the same for a day. Bounded, because clients choose it. */
const heads = new Map<string, Omit<Authorization, "signature">>();
const MAX_HEADS = 100;
const MAX_HEAD = 1000;
/** A head that says all but the signature, which no earlier field takes in. */
const WHOLE_HEAD = /^(?:(?!Signature=).)*,\s*Signature=$/s;
const SIGNATURE_DIGITS = 64;

/** Reads the header `Authorization: AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…`. Throws S3's codes for any other. */
export function parseAuthorization(header: string): Authorization {
  const head = header.slice(0, -SIGNATURE_DIGITS);
  const signature = header.slice(-SIGNATURE_DIGITS);
  const known = heads.get(head);
  if (known && SIGNATURE.test(signature)) return { ...known, signature };
  const authorization = parseAnew(header);
  if (head.length <= MAX_HEAD && WHOLE_HEAD.test(head)) {
    if (heads.size >= MAX_HEADS) heads.clear();
    heads.set(head, authorization);
  }
  return authorization;
}

function parseAnew(header: string): Authorization {
  const space = header.indexOf(" ");
  const algorithm = space === -1 ? header : header.slice(0, space);
  // Versions 2 and 4A are mechanisms of AWS, which is what S3 says of them; anything else is none.
  if (algorithm !== "AWS" && !algorithm.startsWith("AWS4-")) {
    const more = { ArgumentName: "Authorization", ArgumentValue: algorithm };
    throw s3Error.InvalidArgument(
      `Unsupported Authorization Type '${algorithm}': sign with ${ALGORITHM} (signature version 4).`,
      { more },
    );
  }
  if (algorithm !== ALGORITHM) {
    throw s3Error.InvalidRequest(
      `The authorization mechanism '${algorithm}' is not supported: sign with ${ALGORITHM} (signature version 4).`,
    );
  }
  const [named, signedHeaders, signature] = FIELDS.map(({ name, pattern }) => {
    const value = pattern.exec(header)?.[1]?.trim();
    if (value) return value;
    throw malformed(`it has no ${name}`);
  }) as [string, string, string];
  const credential = parseCredential(named);
  if (typeof credential === "string") throw malformed(credential);
  if (!SIGNATURE.test(signature)) throw malformed("Signature must be 64 lower-case hex digits");
  return { ...credential, signedHeaders: signedHeaders.toLowerCase().split(";"), signature };
}

const FIELDS = ["Credential", "SignedHeaders", "Signature"].map((name) => ({
  name,
  pattern: new RegExp(`[\\s,]${name}=([^,]+)`),
}));

function malformed(what: string): S3Error {
  return s3Error.AuthorizationHeaderMalformed(`The Authorization header is malformed: ${what}.`);
}

/** What a `Credential` of SigV4 says: `<access key id>/<YYYYMMDD>/<region>/s3/aws4_request`. */
export interface Credential {
  readonly keyId: string;
  /** `YYYYMMDD` */
  readonly date: string;
  readonly region: string;
}

/** Reads a credential. Returns a text if something is wrong with it. */
export function parseCredential(text: string): Credential | string {
  const scope = text.split("/");
  // The key id comes first and may hold slashes; the other four never do.
  const [date = "", region = "", service, terminator] = scope.splice(-4);
  const keyId = scope.join("/");
  if (keyId === "" || terminator !== "aws4_request") {
    return "Credential must be '<access key id>/<YYYYMMDD>/<region>/s3/aws4_request'";
  }
  if (!/^[0-9]{8}$/.test(date)) return `Credential's date '${date}' is not YYYYMMDD`;
  if (region === "") return "Credential has no region";
  if (service !== "s3") return `Credential's service is '${service}', it must be 's3'`;
  return { keyId, date, region };
}

/** The signature as SigV4 writes it: 64 lower-case hex digits. */
export const SIGNATURE = /^[0-9a-f]{64}$/;

/** Furthest that a client's clock may be off, in milliseconds. */
export const MAX_SKEW_MS = 15 * 60 * 1000;

/** When a request says that it was signed: `basic` is `YYYYMMDDTHHMMSSZ`, `at` milliseconds since 1970. */
export interface RequestTime {
  readonly basic: string;
  readonly at: number;
}

const BASIC = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/;

/** The time in `x-amz-date`, or else in `Date`; undefined if neither holds one. */
export function requestTime(headers: ReadonlyMap<string, string>): RequestTime | undefined {
  const amzDate = headers.get("x-amz-date");
  if (amzDate !== undefined) return parseBasicTime(amzDate.trim());
  const date = headers.get("date");
  if (date === undefined) return undefined;
  return parseBasicTime(date.trim()) ?? fromText(date);
}

let lastTime: RequestTime | undefined;

/** Reads a time as SigV4 writes it. Returns undefined for any other text. The last one is kept, because many requests are signed in one second. */
export function parseBasicTime(text: string): RequestTime | undefined {
  if (lastTime?.basic === text) return lastTime;
  const parts = BASIC.exec(text);
  if (!parts) return undefined;
  const [, year, month, day, hours, minutes, seconds] = parts;
  const at = Date.parse(`${year}-${month}-${day}T${hours}:${minutes}:${seconds}Z`);
  if (Number.isNaN(at)) return undefined;
  lastTime = { basic: text, at };
  return lastTime;
}

function fromText(text: string): RequestTime | undefined {
  const at = Date.parse(text);
  if (Number.isNaN(at)) return undefined;
  return { basic: new Date(at).toISOString().replace(/[-:]|\.\d{3}/g, ""), at };
}
