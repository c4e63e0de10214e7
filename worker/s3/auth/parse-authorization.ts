import type { AuthFailure } from "./failure.ts";

/** What an `Authorization` header of SigV4 says. */
export interface Authorization {
  readonly keyId: string;
  /** `YYYYMMDD` */
  readonly date: string;
  readonly region: string;
  /** Lower-case names, in the order given. */
  readonly signedHeaders: readonly string[];
  /** 64 lower-case hex digits. */
  readonly signature: string;
}

const ALGORITHM = "AWS4-HMAC-SHA256";
type Fields = Record<"Credential" | "SignedHeaders" | "Signature", string>;

/** Reads the header `Authorization: AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…`. */
export function parseAuthorization(
  header: string,
): { ok: true; authorization: Authorization } | ({ ok: false } & AuthFailure) {
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
  const scope = Credential.split("/");
  // The key id comes first and may hold slashes; the other four never do.
  const [date = "", region = "", service, terminator] = scope.splice(-4);
  const keyId = scope.join("/");
  if (keyId === "" || terminator !== "aws4_request") {
    return malformed("Credential must be '<access key id>/<YYYYMMDD>/<region>/s3/aws4_request'");
  }
  if (!/^[0-9]{8}$/.test(date)) return malformed(`Credential's date '${date}' is not YYYYMMDD`);
  if (region === "") return malformed("Credential has no region");
  if (service !== "s3") return malformed(`Credential's service is '${service}', it must be 's3'`);
  if (!/^[0-9a-f]{64}$/.test(Signature)) return malformed("Signature must be 64 lower-case hex digits");
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

function malformed(what: string): { ok: false } & AuthFailure {
  return {
    ok: false,
    code: "AuthorizationHeaderMalformed",
    message: `The Authorization header is malformed: ${what}.`,
  };
}
