import { createHash } from "node:crypto";
import { toHex } from "../../../protocol/digest.ts";
import { BodyReader } from "../../blobs/body-reader.ts";
import { createChecksum } from "../../blobs/hash/checksum-hasher.ts";
import {
  type ExpectedHashes,
  type WriteOptions,
  type WriteResult,
  writeContent,
} from "../../blobs/write-content.ts";
import { encodeBase64 } from "../../core/base64.ts";
import { type S3Error, s3Error } from "../answer/errors.ts";
import { writeFailure } from "../answer/failures.ts";
import { BODY_IDLE_MS } from "../limits.ts";
import type { ServiceRequest } from "../operation.ts";
import { type OpenBody, type OpenRequest, openBody } from "./open-body.ts";

/** A small body as text, once it is what its hashes and signatures say. Throws MaxMessageLengthExceeded. */
export async function readTextBody(
  request: OpenRequest & Pick<ServiceRequest, "now">,
  maxBytes: number,
): Promise<string> {
  const body = openBody(request);
  const declared = body.declaredSize;
  if (declared !== undefined && declared > maxBytes) throw tooLarge(maxBytes);
  // One byte more than may come, to notice a body that is too long.
  const bytes = await readAtMost(body, { maxBytes: (declared ?? maxBytes) + 1, now: request.now });
  if (declared !== undefined && bytes.length !== declared) throw writeFailure("incomplete-body");
  if (bytes.length > maxBytes) throw tooLarge(maxBytes);
  checkHashes(bytes, body.expect);
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
  } catch {
    throw s3Error.MalformedXML("The body is not UTF-8.");
  }
}

/** Takes in a body as a content. Throws what is wrong with it: its framing and signatures come before any other reason. */
export async function storeBody(
  { source, declaredSize, expect, fault }: OpenBody,
  options: Omit<WriteOptions, "declaredSize" | "expect" | "idleMs">,
): Promise<Extract<WriteResult, { ok: true }>> {
  const size = declaredSize !== undefined && { declaredSize };
  const written = await writeContent(source, { ...options, ...size, expect, idleMs: BODY_IDLE_MS });
  const found = fault();
  if (found) throw found;
  if (!written.ok) throw writeFailure(written.reason);
  return written;
}

async function readAtMost(
  body: OpenBody,
  { maxBytes, now }: { maxBytes: number; now: () => number },
): Promise<Uint8Array> {
  if (body.source === null) return new Uint8Array(0);
  const reader = new BodyReader(body.source, { idleMs: BODY_IDLE_MS, now });
  try {
    let view = new Uint8Array(new ArrayBuffer(maxBytes), 0, 0);
    while (reader.end === null && view.length < maxBytes) {
      const before = view.length;
      const bytes = await reader.read(new Uint8Array(view.buffer, before));
      if (reader.end === "idle") throw writeFailure("request-timeout");
      if (reader.end === "lost") throw body.fault() ?? writeFailure("incomplete-body");
      view = new Uint8Array(bytes.buffer, 0, before + bytes.length);
    }
    return view;
  } finally {
    await reader.close();
  }
}

function checkHashes(bytes: Uint8Array, { md5, sha256, checksum }: ExpectedHashes): void {
  if (md5 && toHex(md5) !== createHash("md5").update(bytes).digest("hex")) throw writeFailure("md5-mismatch");
  if (sha256 !== undefined && sha256 !== createHash("sha256").update(bytes).digest("hex")) {
    throw writeFailure("sha256-mismatch");
  }
  const value = checksum?.value() ?? null;
  if (!checksum || value === null) return;
  const hasher = createChecksum(checksum.algorithm);
  hasher.update(bytes);
  if (encodeBase64(hasher.digest()) !== value) throw writeFailure("checksum-mismatch");
}

function tooLarge(maxBytes: number): S3Error {
  return s3Error.MaxMessageLengthExceeded(
    `The body is too large for this operation: send at most ${maxBytes} bytes.`,
  );
}
