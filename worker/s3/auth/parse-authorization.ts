import { type Credential, parseCredential, SIGNATURE } from "./credential.ts";
import type { Failed } from "./failure.ts";

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
