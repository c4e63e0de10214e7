import { createHash } from "node:crypto";
import { BodyReader, sentBody } from "../../blobs/body-reader.ts";
import { type ApiError, apiError } from "../answer/errors.ts";
import type { ApiRequest } from "./api-request.ts";
import { type BodyLimits, brokenLimit } from "./body-scan.ts";

/** A body that brings nothing for so long is given up. */
const IDLE_MS = 30_000;
const FIRST_BUFFER_BYTES = 64 * 1024;

type SentBody = Pick<ApiRequest, "request" | "bodySha256">;

/**
 * Reads the body of a request as a JSON value: for ApiRequest.json. A body beyond its limits is refused before it is
 * parsed: an isolate serves nobody else meanwhile.
 */
export async function readJsonValue(sent: SentBody, limits: BodyLimits): Promise<unknown> {
  const bytes = await readBytes(sent, limits);
  const broken = brokenLimit(bytes, limits);
  if (broken !== undefined) throw beyond(broken, limits);
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes));
  } catch (error) {
    throw apiError.InvalidRequest(
      `The body is not JSON in UTF-8: ${error instanceof Error ? error.message : error}`,
    );
  }
}

async function readBytes({ request, bodySha256 }: SentBody, limits: BodyLimits): Promise<Uint8Array> {
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (declared > limits.bytes) throw beyond("bytes", limits);
  const bytes = request.body === null ? new Uint8Array(0) : await readAll(request.body, limits);
  if (bodySha256 !== null && createHash("sha256").update(bytes).digest("hex") !== bodySha256)
    throw apiError.InvalidRequest("The body does not have the SHA-256 that x-amz-content-sha256 says.");
  return bytes;
}

async function readAll(body: ReadableStream<Uint8Array>, limits: BodyLimits): Promise<Uint8Array> {
  const reader = new BodyReader(sentBody(body), { idleMs: IDLE_MS, now: Date.now });
  try {
    let view = new Uint8Array(new ArrayBuffer(Math.min(FIRST_BUFFER_BYTES, limits.bytes + 1)), 0, 0);
    while (reader.end === null) {
      if (view.length > limits.bytes) throw beyond("bytes", limits);
      if (view.length === view.buffer.byteLength) view = doubled(view, limits);
      const filled = view.length;
      const bytes = await reader.read(new Uint8Array(view.buffer, filled));
      if (reader.broken) throw apiError.RequestTimeout("The body stopped coming: send it whole.");
      view = new Uint8Array(bytes.buffer, 0, filled + bytes.length);
    }
    return view;
  } finally {
    await reader.close();
  }
}

function doubled(view: Uint8Array<ArrayBuffer>, { bytes }: BodyLimits): Uint8Array<ArrayBuffer> {
  // One byte more than may come, to see whether it does.
  const larger = new ArrayBuffer(Math.min(2 * view.buffer.byteLength, bytes + 1));
  new Uint8Array(larger).set(view);
  return new Uint8Array(larger, 0, view.length);
}

function beyond(limit: keyof BodyLimits, limits: BodyLimits): ApiError {
  switch (limit) {
    case "bytes":
      return apiError.BodyTooLarge(`The body is too large: send at most ${limits.bytes} bytes.`);
    case "values":
      return apiError.BodyTooLarge(
        `The body holds too much: send at most ${limits.values} values in its objects and lists.`,
      );
    case "keys":
      return apiError.InvalidRequest(
        `The body has an object with more than ${limits.keys} fields: send at most so many in each.`,
      );
    case "depth":
      return apiError.InvalidRequest(
        `The body has objects or lists inside each other more than ${limits.depth} deep.`,
      );
  }
}
