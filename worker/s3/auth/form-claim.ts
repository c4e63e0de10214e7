import { type S3Error, s3Error } from "../answer/errors.ts";
import {
  ALGORITHM,
  type Credential,
  MAX_SKEW_MS,
  parseBasicTime,
  parseCredential,
} from "./parse-authorization.ts";

/** What the fields of a form say of the signature of its policy (S3 API Reference, "Authenticating Requests: Browser-Based Uploads"). */
export interface FormClaim extends Credential {
  /** In base64, as it was signed. */
  readonly policy: string;
  /** As sent: it may be anything. */
  readonly signature: string;
}

/** A form has all of these, or none if nobody signed it. */
const SIGNED_FIELDS = [
  "policy",
  "x-amz-algorithm",
  "x-amz-credential",
  "x-amz-date",
  "x-amz-signature",
] as const;
/** A signing key is good for so long after the day it is derived for (S3 API Reference, "Signature Calculation"). */
const MAX_AGE_MS = 7 * 24 * 60 * 60 * 1000;

/** How much of a field is told to who sent it, in characters. */
const MAX_TOLD = 1000;

/** Reads the claim. `now` is in milliseconds since 1970, and the names of fields are in lower case. Throws S3's codes. */
export function readFormClaim(fields: ReadonlyMap<string, string>, now: number): FormClaim {
  if (fields.has("awsaccesskeyid") || fields.has("signature")) {
    throw s3Error.InvalidRequest(
      `The authorization mechanism you have provided is not supported. Please use ${ALGORITHM}. boto3 signs forms by version 2 unless its client is made with config=Config(signature_version="s3v4").`,
    );
  }
  if (!SIGNED_FIELDS.some((name) => fields.has(name))) {
    throw s3Error.AccessDenied(
      `The form has no policy that anybody signed, and no bucket takes such forms: give it the fields ${SIGNED_FIELDS.join(", ")}.`,
    );
  }
  for (const name of SIGNED_FIELDS) {
    if (!fields.has(name)) throw missingField(name);
  }
  const value = (name: (typeof SIGNED_FIELDS)[number]): string => fields.get(name) ?? "";
  const algorithm = value("x-amz-algorithm");
  if (algorithm !== ALGORITHM) {
    throw wrong("X-Amz-Algorithm", { value: algorithm, message: `Only ${ALGORITHM} is supported` });
  }
  const time = value("x-amz-date");
  checkDate(time, now);
  const named = value("x-amz-credential");
  const credential = parseCredential(named);
  if (typeof credential === "string") throw wrong("x-amz-credential", { value: named, message: CREDENTIAL });
  if (!time.startsWith(credential.date)) {
    throw wrong("x-amz-credential", {
      value: named,
      message: `The date ${credential.date} in x-amz-credential is not the day of x-amz-date ${time}.`,
    });
  }
  if (fields.has("x-amz-security-token")) {
    throw s3Error.InvalidToken("Session tokens are not known here: sign the policy without one.");
  }
  return { ...credential, policy: value("policy"), signature: value("x-amz-signature") };
}

const CREDENTIAL =
  'the Credential is mal-formed; expecting "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request".';

/** What S3 says of a field that a form must have. */
export function missingField(name: string): S3Error {
  const message = `Bucket POST must contain a field named '${name}'.  If it is specified, please check the order of the fields.`;
  return wrong(name, { value: "", message });
}

function checkDate(value: string, now: number): void {
  const time = parseBasicTime(value);
  if (time === undefined) {
    throw wrong("X-Amz-Date", { value, message: "X-Amz-Date must be formated via ISO8601 Long format" });
  }
  if (now < time.at - MAX_SKEW_MS) {
    throw s3Error.AccessDenied(
      `Invalid according to Policy: x-amz-date is ${value}, and the server's time is ${new Date(now).toISOString()}.`,
    );
  }
  if (now > time.at + MAX_AGE_MS) {
    throw s3Error.AccessDenied("Invalid according to Policy: Policy expired.");
  }
}

/** A field is at fault. */
function wrong(name: string, { value, message }: { value: string; message: string }): S3Error {
  const more = { ArgumentName: name, ArgumentValue: value.slice(0, MAX_TOLD) };
  return s3Error.InvalidArgument(message, { more });
}
