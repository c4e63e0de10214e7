/** What an `Authorization` header or the query of a presigned URL says of a signature. */
export interface Authorization extends Credential {
  /** Lower-case names, in the order given. */
  readonly signedHeaders: readonly string[];
  /** 64 lower-case hex digits. */
  readonly signature: string;
}

export const ALGORITHM = "AWS4-HMAC-SHA256";
type Fields = Record<"Credential" | "SignedHeaders" | "Signature", string>;

/** Reads the header `Authorization: AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…`. */
export function parseAuthorization(header: string): { ok: true; authorization: Authorization } | Failed {
  const space = header.indexOf(" ");
  const algorithm = space === -1 ? header : header.slice(0, space);
  // Versions 2 and 4A are mechanisms of AWS, which is what S3 says of them; anything else is none.
  if (algorithm !== "AWS" && !algorithm.startsWith("AWS4-")) {
    return {
      ok: false,
      code: "InvalidArgument",
      message: `Unsupported Authorization Type '${algorithm}': sign with ${ALGORITHM} (signature version 4).`,
      more: { ArgumentName: "Authorization", ArgumentValue: algorithm },
    };
  }
  if (algorithm !== ALGORITHM) {
    return {
      ok: false,
      code: "InvalidRequest",
      message: `The authorization mechanism '${algorithm}' is not supported: sign with ${ALGORITHM} (signature version 4).`,
    };
  }
  const fields = readFields(header.slice(algorithm.length));
  return typeof fields === "string" ? malformed(fields) : fromFields(fields);
}

const FIELD = {
  Credential: /(?:^|[\s,])Credential=([^,]+)/,
  SignedHeaders: /(?:^|[\s,])SignedHeaders=([^,]+)/,
  Signature: /(?:^|[\s,])Signature=([^,]+)/,
};

/** The three fields, or what is wrong. */
function readFields(text: string): Fields | string {
  const Credential = FIELD.Credential.exec(text)?.[1]?.trim();
  const SignedHeaders = FIELD.SignedHeaders.exec(text)?.[1]?.trim();
  const Signature = FIELD.Signature.exec(text)?.[1]?.trim();
  if (!Credential) return "it has no Credential";
  if (!SignedHeaders) return "it has no SignedHeaders";
  if (!Signature) return "it has no Signature";
  return { Credential, SignedHeaders, Signature };
}

function fromFields({ Credential, SignedHeaders, Signature }: Fields): ReturnType<typeof parseAuthorization> {
  const credential = parseCredential(Credential);
  if (typeof credential === "string") return malformed(credential);
  if (!SIGNATURE.test(Signature)) return malformed("Signature must be 64 lower-case hex digits");
  const { keyId, date, region } = credential;
  return {
    ok: true,
    authorization: {
      keyId,
      date,
      region,
      signedHeaders: SignedHeaders.toLowerCase().split(";"),
      signature: Signature,
    },
  };
}

function malformed(what: string): Failed {
  return {
    ok: false,
    code: "AuthorizationHeaderMalformed",
    message: `The Authorization header is malformed: ${what}.`,
  };
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

/** Why a request is not let in: an S3 error code and a sentence for people. */
export interface AuthFailure {
  readonly code: AuthFailureCode;
  readonly message: string;
  /** Tags that S3 gives the error beside. */
  readonly more?: Readonly<Record<string, string | number>>;
}

/** The outcome of a check that failed. */
export type Failed = { readonly ok: false } & AuthFailure;

type AuthFailureCode =
  | "AccessDenied"
  | "AuthorizationHeaderMalformed"
  | "AuthorizationQueryParametersError"
  | "InvalidAccessKeyId"
  | "InvalidArgument"
  | "InvalidRequest"
  | "InvalidToken"
  | "InvalidURI"
  | "NotImplemented"
  | "RequestTimeTooSkewed"
  | "SignatureDoesNotMatch";
