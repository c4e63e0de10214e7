/** What a `Credential` of SigV4 says: `<access key id>/<YYYYMMDD>/<region>/s3/aws4_request`. */
export interface Credential {
  readonly keyId: string;
  /** `YYYYMMDD` */
  readonly date: string;
  readonly region: string;
}

/** Reads a credential; a text says what is wrong with it. */
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
