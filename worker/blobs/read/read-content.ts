import type { Body, ChunkedBody } from "../content.ts";
import { chunksWithin, MissingBlobError } from "../manifest.ts";
import type { BlobStore, ByteRange } from "../port.ts";
import type { ReadHold } from "./read-hold.ts";

export interface ContentToRead {
  readonly body: Body;
  readonly size: number;
  /** A range inside the content. Absent: the whole. */
  readonly range?: ByteRange;
  /** Keeps what is still to be read if that takes long. Absent: somebody else does. */
  readonly hold: ReadHold | null;
}

/**
 * A content's bytes, or a range of them, for `new Response(…)`, which learns the length from them. Rejects if the first
 * blob is missing, so that the answer can still be an error. If a later one is missing or too short, the stream fails:
 * the reader sees a broken transfer and never wrong bytes.
 */
export async function readContent(
  store: BlobStore,
  { body, size, range = { offset: 0, length: size }, hold }: ContentToRead,
): Promise<Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>> {
  if (body.kind === "inline") return body.bytes.slice(range.offset, range.offset + range.length);
  const streams = blobStreams(store, { body, range });
  const first = await streams.next();
  if (first.done) return new Uint8Array(0);
  if (first.value.length === range.length) return first.value.stream;
  // Never `new TransformStream()`: it passes every byte through JavaScript, at twenty times the cost.
  const { readable, writable } = new FixedLengthStream(range.length);
  let sent = 0;
  const end = hold?.begin(store, { body, unread: () => blobsWithin(body, range).slice(sent) });
  pump(streams, { first: first.value, writable, onSent: () => sent++ })
    .catch(() => {})
    .finally(end);
  return readable;
}

/** The blobs of a list that a range of the content lies in, in order, one for each chunk. */
function blobsWithin(body: ChunkedBody, { offset, length }: ByteRange): string[] {
  if (body.kind === "manifest") return [body.blob];
  const blobs: string[] = [];
  let start = 0;
  for (const chunk of body.chunks) {
    const end = start + chunk.length;
    if (end > offset && start < offset + length) blobs.push(chunk.blob);
    start = end;
  }
  return blobs;
}

interface BlobStream {
  readonly stream: ReadableStream<Uint8Array>;
  readonly length: number;
}

interface Pumping {
  readonly first: BlobStream;
  readonly writable: WritableStream<Uint8Array>;
  /** Called when all bytes of a blob were taken. */
  readonly onSent: () => void;
}

/** Sends one blob while it opens the next one. */
async function pump(
  streams: AsyncGenerator<BlobStream>,
  { first, writable, onSent }: Pumping,
): Promise<void> {
  let next: Promise<IteratorResult<BlobStream>> = Promise.resolve({ done: false, value: first });
  try {
    for (let step = await next; !step.done; step = await next) {
      next = streams.next();
      next.catch(() => {});
      await step.value.stream.pipeTo(writable, { preventClose: true });
      onSent();
    }
    await writable.close();
  } catch (error) {
    await Promise.allSettled([writable.abort(error), discard(next)]);
    throw error;
  }
}

async function discard(next: Promise<IteratorResult<BlobStream>>): Promise<void> {
  const step = await next;
  if (!step.done) await step.value.stream.cancel();
}

async function* blobStreams(
  store: BlobStore,
  { body, range }: { body: ChunkedBody; range: ByteRange },
): AsyncGenerator<BlobStream> {
  for await (const { chunk, from, to } of chunksWithin(store, { body, range })) {
    const length = to - from;
    const stream = await store.get(chunk.blob, { offset: chunk.offset + from, length });
    if (stream === null) throw new MissingBlobError(chunk.blob);
    yield { stream, length };
  }
}
