import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { seededBytes } from "../../support/random.ts";
import type { Body } from "./s3-ask.ts";
import { type Key, signedPolicy } from "./signing.ts";

export const BOUNDARY = "----fuzz7MA4YWxkTrZu0gW";

/** The bytes of a body. `told`: puts into a text what stands in braces. */
export function bytesOf(body: Body | undefined, form: FormSigner): Buffer {
  if (body === undefined) return Buffer.alloc(0);
  if (body.of === "bytes") return seededBytes(body.size, body.seed);
  if (body.of === "text") return Buffer.from(form.told(body.text));
  return formBytes(body, form);
}

/** What checksums of a body are put into headers for. */
export function checksumsOf(body: Buffer): Readonly<Record<"{crc32}" | "{md5}" | "{sha256}", string>> {
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(body));
  return {
    "{crc32}": sum.toString("base64"),
    "{md5}": Buffer.from(createHash("md5").update(body).digest()).toString("base64"),
    "{sha256}": Buffer.from(createHash("sha256").update(body).digest()).toString("base64"),
  };
}

export interface FormSigner {
  readonly bucket: string;
  readonly signer: Key;
  readonly now: Date;
  readonly told: (text: string) => string;
}

/** The file of a form. */
function formFile(size: number): Buffer {
  return seededBytes(size, size);
}

function formBytes(
  { fields, size, flaw }: Body & { of: "form" },
  { bucket, signer, now }: FormSigner,
): Buffer {
  const conditions = fields.map(([name, value]) => ({ [name]: value }));
  const expiration = new Date(now.getTime() + (flaw === "expired" ? -1000 : 60_000)).toISOString();
  const policy = (own: object): string => {
    const signing = Object.entries(own).map(([name, value]) => ({ [name]: value }));
    const whole = JSON.stringify({ expiration, conditions: [{ bucket }, ...signing, ...conditions] });
    return flaw === "policy-is-no-json" ? whole.slice(0, -3) : whole;
  };
  const signing = signedPolicy(signer, { policy, now }).filter(
    ([name]) => flaw !== "no-policy" || name !== "policy",
  );
  const sent = fields.map(([name, value]) => [name, flaw === "field-changed" ? `${value}x` : value] as const);
  const parts: (string | Buffer)[] = [...sent, ...signing].map(([name, value]) => field(name, value));
  if (flaw !== "no-file") {
    const head = 'Content-Disposition: form-data; name="file"; filename="f"\r\nContent-Type: text/plain';
    parts.push(`--${BOUNDARY}\r\n${head}\r\n\r\n`, formFile(size), "\r\n");
  }
  if (flaw === "field-behind") parts.push(field("x-late", "1"));
  if (flaw !== "no-boundary") parts.push(`--${BOUNDARY}--\r\n`);
  const whole = Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part) : part)));
  return flaw === "cut" ? whole.subarray(0, whole.length >> 1) : whole;
}

function field(name: string, value: string): string {
  return `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
}
