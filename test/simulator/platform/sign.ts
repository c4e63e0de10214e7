import { createHash, createHmac } from "node:crypto";

const REGION = "auto";

/** A request of an S3 client. */
export interface S3Request {
  readonly method: string;
  readonly bucket: string;
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Nobody signs it. */
  readonly isUnsigned?: boolean;
}

const HOST = "gateway.test";

/** Signs a request with version 4 of AWS's signatures, in one go: whatever takes its own time has no place in a simulation. */
export function signedRequest(
  { method, bucket, key = "", query = {}, headers: own = {}, body }: S3Request,
  { keyId, secret, now }: { readonly keyId: string; readonly secret: string; readonly now: number },
): Request {
  const path = `/${bucket}/${key.split("/").map(encode).join("/")}`;
  const search = Object.entries(query)
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .sort()
    .join("&");
  const time = `${new Date(now).toISOString().slice(0, 19).replace(/[-:]/g, "")}Z`;
  const headers = new Map(
    Object.entries({
      ...own,
      host: HOST,
      "x-amz-date": time,
      "x-amz-content-sha256": sha256(body ?? new Uint8Array(0)),
      ...(body && { "content-length": String(body.length) }),
    }).sort(([one], [other]) => (one < other ? -1 : 1)),
  );
  const names = [...headers.keys()].join(";");
  const lines = [...headers].map(([name, value]) => `${name}:${value}\n`).join("");
  const canonical = [method, path, search, lines, names, headers.get("x-amz-content-sha256")].join("\n");
  const scope = `${time.slice(0, 8)}/${REGION}/s3/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", time, scope, sha256(Buffer.from(canonical))].join("\n");
  const signing = scope
    .split("/")
    .reduce<string | Buffer>(
      (from, part) => createHmac("sha256", from).update(part).digest(),
      `AWS4${secret}`,
    );
  const signature = createHmac("sha256", signing).update(text).digest("hex");
  const authorization = `AWS4-HMAC-SHA256 Credential=${keyId}/${scope}, SignedHeaders=${names}, Signature=${signature}`;
  return new Request(`http://${HOST}${path}${search && `?${search}`}`, {
    method,
    headers: { ...Object.fromEntries(headers), authorization },
    ...(body && { body: body as Uint8Array<ArrayBuffer> }),
  });
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
