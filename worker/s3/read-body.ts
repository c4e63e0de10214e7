import { createHash } from "node:crypto";
import { toHex } from "../../protocol/digest.ts";
import { BodyReader } from "../blobs/body-reader.ts";
import { contentMd5, declaredSize } from "./body-headers.ts";
import { S3Error } from "./errors.ts";
import { writeFailure } from "./failures.ts";
import { BODY_IDLE_MS } from "./limits.ts";
import type { ServiceRequest } from "./operation.ts";

/**
 * A small body as text, once it is known to be what Content-MD5 and x-amz-content-sha256 say. Throws
 * MaxMessageLengthExceeded above `maxBytes`.
 */
export async function readTextBody(request: ServiceRequest, maxBytes: number): Promise<string> {
  const md5 = contentMd5(request.headers);
  const declared = declaredSize(request.headers);
  if (declared !== undefined && declared > maxBytes) throw tooLarge(maxBytes);
  // One byte more than may come, to see whether it does.
  const bytes = await readAtMost(request, (declared ?? maxBytes) + 1);
  if (declared !== undefined && bytes.length !== declared) throw writeFailure("incomplete-body");
  if (bytes.length > maxBytes) throw tooLarge(maxBytes);
  if (md5 && toHex(md5) !== createHash("md5").update(bytes).digest("hex")) throw writeFailure("md5-mismatch");
  const sha256 = request.caller.bodySha256;
  if (sha256 !== null && sha256 !== createHash("sha256").update(bytes).digest("hex")) {
    throw writeFailure("sha256-mismatch");
  }
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
  } catch {
    throw new S3Error("MalformedXML", { message: "The body is not UTF-8." });
  }
}

async function readAtMost({ body, now }: ServiceRequest, maxBytes: number): Promise<Uint8Array> {
  if (body === null) return new Uint8Array(0);
  const reader = new BodyReader(body, { idleMs: BODY_IDLE_MS, now });
  try {
    let view = new Uint8Array(new ArrayBuffer(maxBytes), 0, 0);
    while (reader.end === null && view.length < maxBytes) {
      const before = view.length;
      const bytes = await reader.read(new Uint8Array(view.buffer, before));
      if (reader.end === "idle") throw writeFailure("request-timeout");
      if (reader.end === "lost") throw writeFailure("incomplete-body");
      view = new Uint8Array(bytes.buffer, 0, before + bytes.length);
    }
    return view;
  } finally {
    await reader.close();
  }
}

function tooLarge(maxBytes: number): S3Error {
  return new S3Error("MaxMessageLengthExceeded", {
    message: `The body is too large for this operation: send at most ${maxBytes} bytes.`,
  });
}
