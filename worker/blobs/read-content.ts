import type { Body } from "./content.ts";
import { chunksFrom, MissingBlobError } from "./manifest.ts";
import type { BlobStore, ByteRange } from "./port.ts";

export interface ContentToRead {
  readonly body: Body;
  readonly size: number;
  /** The whole content where absent; else a range inside it. */
  readonly range?: ByteRange;
}

/**
 * A content's bytes, or a range of them, for `new Response(…)`, which learns the length from them. Blob follows
 * blob without passing through JavaScript. A blob that is missing or too short errors the stream, so that the
 * reader sees a broken transfer and never wrong bytes.
 */
export function readContent(
  store: BlobStore,
  { body, size, range = { offset: 0, length: size } }: ContentToRead,
): Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> {
  const end = range.offset + range.length;
  if (body.kind === "inline") return new Uint8Array(body.bytes.slice(range.offset, end));
  if (range.length === 0) return new Uint8Array(0);
  // Never `new TransformStream()`: it passes every byte through JavaScript, at twenty times the cost.
  const { readable, writable } = new FixedLengthStream(range.length);
  pump(blobStreams(store, { body, range }), writable).catch(() => {});
  return readable;
}

/** One blob is being sent while the next one is being opened. */
async function pump(
  streams: AsyncGenerator<ReadableStream<Uint8Array>>,
  writable: WritableStream<Uint8Array>,
): Promise<void> {
  let next = streams.next();
  try {
    for (let step = await next; !step.done; step = await next) {
      next = streams.next();
      next.catch(() => {});
      await step.value.pipeTo(writable, { preventClose: true });
    }
    await writable.close();
  } catch (error) {
    await Promise.allSettled([writable.abort(error), discard(next)]);
    throw error;
  }
}

async function discard(next: Promise<IteratorResult<ReadableStream<Uint8Array>>>): Promise<void> {
  const step = await next;
  if (!step.done) await step.value.cancel();
}

async function* blobStreams(
  store: BlobStore,
  { body, range }: { body: Exclude<Body, { kind: "inline" }>; range: ByteRange },
): AsyncGenerator<ReadableStream<Uint8Array>> {
  const end = range.offset + range.length;
  for await (const { start, chunk } of chunksFrom(store, { body, from: range.offset })) {
    if (start >= end) return;
    const skip = Math.max(0, range.offset - start);
    const length = Math.min(chunk.length, end - start) - skip;
    if (length <= 0) continue;
    const stream = await store.get(chunk.blob, { offset: chunk.offset + skip, length });
    if (stream === null) throw new MissingBlobError(chunk.blob);
    yield stream;
  }
}
