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

/** Why a form is not let in: S3's code, a sentence, and the field that is at fault. */
export interface FormFault {
  readonly ok: false;
  readonly code: "AccessDenied" | "InvalidArgument" | "InvalidRequest" | "InvalidToken";
  readonly message: string;
  readonly field?: { readonly name: string; readonly value: string };
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

/** Reads the claim. `now` is in milliseconds since 1970, and the names of fields are in lower case. */
export function readFormClaim(
  fields: ReadonlyMap<string, string>,
  now: number,
): { readonly ok: true; readonly claim: FormClaim } | FormFault {
  if (fields.has("awsaccesskeyid") || fields.has("signature")) {
    return failed({
      code: "InvalidRequest",
      message: `The authorization mechanism you have provided is not supported. Please use ${ALGORITHM}. boto3 signs forms by version 2 unless its client is made with config=Config(signature_version="s3v4").`,
    });
  }
  if (!SIGNED_FIELDS.some((name) => fields.has(name))) {
    return failed({
      code: "AccessDenied",
      message: `The form has no policy that anybody signed, and no bucket takes such forms: give it the fields ${SIGNED_FIELDS.join(", ")}.`,
    });
  }
  for (const name of SIGNED_FIELDS) {
    if (!fields.has(name)) return missingField(name);
  }
  const value = (name: (typeof SIGNED_FIELDS)[number]): string => fields.get(name) ?? "";
  const fault = algorithmFault(value("x-amz-algorithm")) ?? dateFault(fields, now);
  if (fault) return fault;
  const credential = parseCredential(value("x-amz-credential"));
  if (typeof credential === "string")
    return wrong("x-amz-credential", { value: value("x-amz-credential"), message: CREDENTIAL });
  const time = value("x-amz-date");
  if (!time.startsWith(credential.date)) {
    return wrong("x-amz-credential", {
      value: value("x-amz-credential"),
      message: `The date ${credential.date} in x-amz-credential is not the day of x-amz-date ${time}.`,
    });
  }
  if (fields.has("x-amz-security-token")) {
    return failed({
      code: "InvalidToken",
      message: "Session tokens are not known here: sign the policy without one.",
    });
  }
  return { ok: true, claim: { ...credential, policy: value("policy"), signature: value("x-amz-signature") } };
}

const CREDENTIAL =
  'the Credential is mal-formed; expecting "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request".';

/** What S3 says of a field that a form must have. */
export function missingField(name: string): FormFault {
  const message = `Bucket POST must contain a field named '${name}'.  If it is specified, please check the order of the fields.`;
  return wrong(name, { value: "", message });
}

function algorithmFault(value: string): FormFault | undefined {
  if (value === ALGORITHM) return undefined;
  return wrong("X-Amz-Algorithm", { value, message: `Only ${ALGORITHM} is supported` });
}

function dateFault(fields: ReadonlyMap<string, string>, now: number): FormFault | undefined {
  const value = fields.get("x-amz-date") ?? "";
  const time = parseBasicTime(value);
  if (time === undefined) {
    return wrong("X-Amz-Date", { value, message: "X-Amz-Date must be formated via ISO8601 Long format" });
  }
  if (now < time.at - MAX_SKEW_MS) {
    return failed({
      code: "AccessDenied",
      message: `Invalid according to Policy: x-amz-date is ${value}, and the server's time is ${new Date(now).toISOString()}.`,
    });
  }
  if (now <= time.at + MAX_AGE_MS) return undefined;
  return failed({ code: "AccessDenied", message: "Invalid according to Policy: Policy expired." });
}

function wrong(name: string, { value, message }: { value: string; message: string }): FormFault {
  return { ...failed({ code: "InvalidArgument", message }), field: { name, value } };
}

function failed({ code, message }: Pick<FormFault, "code" | "message">): FormFault {
  return { ok: false, code, message };
}
