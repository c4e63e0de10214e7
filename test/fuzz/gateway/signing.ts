import { createHash, createHmac } from "node:crypto";

/*
 * Signature version 4 by itself, so that a fault that the gateway's own reading has is not in the test's, too (AWS General
 * Reference, "Create a signed AWS API request").
 */

type Header = readonly [name: string, value: string];

export interface Key {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

interface Signable {
  readonly method: string;
  readonly target: string;
  readonly host: string;
  /** Those that are signed, beside the host. */
  readonly headers: readonly Header[];
  /** The value of x-amz-content-sha256. */
  readonly payload: string;
}

/** What a chain of signed chunks goes on from. */
export interface ChunkKey {
  readonly key: Buffer;
  readonly time: string;
  readonly scope: string;
  readonly seed: string;
}

/** The headers that sign a request, and what its chunks are signed by. */
export function signed(key: Key, request: Signable, now: Date): { headers: Header[]; chunks: ChunkKey } {
  const { time, scope, signing } = keyOf(key, now);
  const own: Header[] = [
    ["x-amz-date", time],
    ["x-amz-content-sha256", request.payload],
  ];
  const all: Header[] = [["host", request.host], ...request.headers, ...own];
  const names = [...new Set(all.map(([name]) => name.toLowerCase()))].sort();
  const seed = signatureOf(request, { names, all, time, scope, signing });
  const authorization = `AWS4-HMAC-SHA256 Credential=${key.accessKeyId}/${scope}, SignedHeaders=${names.join(";")}, Signature=${seed}`;
  return {
    headers: [...own, ["authorization", authorization]],
    chunks: { key: signing, time, scope, seed },
  };
}

/** The target of a request whose signature is in its query. */
export function presigned(
  key: Key,
  request: Signable,
  { now, expires }: { now: Date; expires: string },
): string {
  const { time, scope, signing } = keyOf(key, now);
  const all: Header[] = [["host", request.host], ...request.headers];
  const names = [...new Set(all.map(([name]) => name.toLowerCase()))].sort();
  const query = Object.entries({
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": `${key.accessKeyId}/${scope}`,
    "X-Amz-Date": time,
    "X-Amz-Expires": expires,
    "X-Amz-SignedHeaders": names.join(";"),
  }).map(([name, value]) => `${name}=${encode(value)}`);
  const target = `${request.target}${request.target.includes("?") ? "&" : "?"}${query.join("&")}`;
  const signature = signatureOf(
    { ...request, target, payload: "UNSIGNED-PAYLOAD" },
    { names, all, time, scope, signing },
  );
  return `${target}&X-Amz-Signature=${signature}`;
}

/** The fields that sign a form's policy. */
export function signedPolicy(
  key: Key,
  { policy, now }: { policy: (fields: object) => string; now: Date },
): Header[] {
  const { time, scope, signing } = keyOf(key, now);
  const fields = {
    "x-amz-algorithm": "AWS4-HMAC-SHA256",
    "x-amz-credential": `${key.accessKeyId}/${scope}`,
    "x-amz-date": time,
  };
  const text = Buffer.from(policy(fields)).toString("base64");
  return [
    ...Object.entries(fields),
    ["policy", text],
    ["x-amz-signature", hmac(signing, text).toString("hex")],
  ];
}

function keyOf({ secretAccessKey }: Key, now: Date): { time: string; scope: string; signing: Buffer } {
  const time = now.toISOString().replace(/[-:]|\.\d{3}/g, "");
  const date = time.slice(0, 8);
  const signing = [date, "us-east-1", "s3", "aws4_request"].reduce<Buffer>(
    (above, text) => hmac(above, text),
    Buffer.from(`AWS4${secretAccessKey}`),
  );
  return { time, scope: `${date}/us-east-1/s3/aws4_request`, signing };
}

interface Signing {
  readonly names: readonly string[];
  readonly all: readonly Header[];
  readonly time: string;
  readonly scope: string;
  readonly signing: Buffer;
}

function signatureOf(
  { method, target, payload }: Signable,
  { names, all, time, scope, signing }: Signing,
): string {
  const [path = "/", ...rest] = target.split("?");
  const lines = names.map((name) => {
    const values = all.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value);
    return `${name}:${values.map((value) => value.trim().replace(/ +/g, " ")).join(",")}`;
  });
  const canonical = [
    method,
    reencoded(path).replaceAll("%2F", "/"),
    canonicalQuery(rest.join("?")),
    ...lines,
    "",
    names.join(";"),
    payload,
  ].join("\n");
  return hmac(signing, `AWS4-HMAC-SHA256\n${time}\n${scope}\n${sha256(canonical)}`).toString("hex");
}

function canonicalQuery(query: string): string {
  const pairs = query.split("&").flatMap((part): Header[] => {
    if (part === "") return [];
    const equals = part.indexOf("=");
    const [name, value] = equals === -1 ? [part, ""] : [part.slice(0, equals), part.slice(equals + 1)];
    return [[reencoded(name.replaceAll("+", " ")), reencoded(value.replaceAll("+", " "))]];
  });
  return pairs
    .sort(([a, av], [b, bv]) => (a === b ? (av < bv ? -1 : 1) : a < b ? -1 : 1))
    .map(([name, value]) => `${name}=${value}`)
    .join("&");
}

/** As a reader of it would write it. What can't be read stays. */
function reencoded(text: string): string {
  try {
    return encode(decodeURIComponent(text));
  } catch {
    return text;
  }
}

/** AWS's UriEncode. */
export function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

export function hmac(key: Buffer, text: string): Buffer {
  return Buffer.from(createHmac("sha256", key).update(Buffer.from(text)).digest());
}

export function sha256(bytes: string | Buffer): string {
  return createHash("sha256").update(Buffer.from(bytes)).digest("hex");
}
