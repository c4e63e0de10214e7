import { toHex } from "../../../../protocol/digest.ts";
import { SigningKeys } from "../../../../worker/s3/auth/signature.ts";
import { answer, ENDPOINT, type Failure, failure, type Gateway, ROOT_KEY } from "../support.ts";

type Bytes = Uint8Array<ArrayBuffer>;
export type Field = readonly [name: string, value: string];

export const BOUNDARY = "----WebKitFormBoundary7MA4YWxkTrZu0gW";
const keys = new SigningKeys(10);

export interface FormToPost {
  readonly bucket: string;
  /** Fields beside those of the signature, in order. */
  readonly fields?: readonly Field[];
  /** Conditions beside those that cover `bucket` and the fields of the signature. Absent: each field is as it is. */
  readonly conditions?: readonly unknown[];
  /** Set: what is signed instead of a policy of these conditions. */
  readonly policy?: string;
  readonly expiresAt?: number;
  readonly key?: { readonly id: string; readonly secret: string };
  /** When it is signed; milliseconds since 1970. */
  readonly at?: number;
  /** Fields to leave out or to change once everything is signed; undefined leaves one out. */
  readonly tampered?: Readonly<Record<string, string | undefined>>;
  readonly file?: string | Bytes;
  readonly filename?: string;
  /** Raw text behind the file's delimiter. Absent: the end of the form. */
  readonly behind?: string;
  /** Headers of the request. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** The fields of a form that is signed as S3's clients sign it. */
export function signedFields({
  bucket,
  fields = [],
  conditions,
  policy,
  expiresAt,
  key = ROOT_KEY,
  at = Date.now(),
  tampered = {},
}: FormToPost): Field[] {
  const time = new Date(at).toISOString().replace(/[-:]|\.\d{3}/g, "");
  const date = time.slice(0, 8);
  const own: Field[] = [
    ["x-amz-algorithm", "AWS4-HMAC-SHA256"],
    ["x-amz-credential", `${key.id}/${date}/us-east-1/s3/aws4_request`],
    ["x-amz-date", time],
  ];
  const asSent = fields.map(([name, value]) => ({ [name]: value }));
  const document = {
    expiration: new Date(expiresAt ?? at + 60_000).toISOString(),
    conditions: [{ bucket }, ...own.map(([name, value]) => ({ [name]: value })), ...(conditions ?? asSent)],
  };
  const text = policy ?? btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(document))));
  const signature = toHex(keys.get({ secret: key.secret, date, region: "us-east-1" }).sign(text));
  const all: Field[] = [...fields, ...own, ["policy", text], ["x-amz-signature", signature]];
  return all.flatMap(([name, value]): Field[] => {
    if (!(name in tampered)) return [[name, value]];
    const other = tampered[name];
    return other === undefined ? [] : [[name, other]];
  });
}

/** A body of multipart/form-data. */
export function formBody(
  fields: readonly Field[],
  {
    file,
    filename = "file.txt",
    behind = "--\r\n",
    boundary = BOUNDARY,
  }: Pick<FormToPost, "file" | "filename" | "behind"> & { boundary?: string },
): Bytes {
  const text = new TextEncoder();
  const parts: (string | Uint8Array)[] = fields.map(
    ([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  if (file !== undefined) {
    const head = `Content-Disposition: form-data; name="file"; filename="${filename}"\r\nContent-Type: text/plain`;
    parts.push(`--${boundary}\r\n${head}\r\n\r\n`, file, "\r\n");
  }
  parts.push(`--${boundary}${behind}`);
  const bytes = parts.map((part) => (typeof part === "string" ? text.encode(part) : part));
  const all = new Uint8Array(bytes.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of bytes) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** The gateway's answer to a form. Without `file` it has none. */
export function post(form: FormToPost, gateway: Gateway = {}): Promise<Response> {
  return send(formBody(signedFields(form), form), {
    bucket: form.bucket,
    headers: form.headers ?? {},
    gateway,
  });
}

/** The gateway's answer to a body that is posted to a bucket. */
export function send(
  body: Bytes | ReadableStream<Uint8Array> | string,
  {
    bucket,
    headers = {},
    gateway = {},
  }: { bucket: string; headers?: Readonly<Record<string, string>>; gateway?: Gateway },
): Promise<Response> {
  const length = body instanceof Uint8Array ? { "content-length": String(body.length) } : {};
  const request = new Request(`${ENDPOINT}/${bucket}`, {
    method: "POST",
    headers: { "content-type": `multipart/form-data; boundary=${BOUNDARY}`, ...length, ...headers },
    body,
  });
  return answer(request, gateway);
}

export async function refused(form: FormToPost, gateway: Gateway = {}): Promise<Failure> {
  return await failure(post(form, gateway));
}
