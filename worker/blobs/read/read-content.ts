import { waitUntil } from "cloudflare:workers";
import { type ByteBudget, isolateBudget } from "../budget.ts";
import type { Body, ChunkedBody } from "../content.ts";
import { type ChunkPart, chunksWithin, MissingBlobError } from "../manifest.ts";
import type { BlobReader, ByteRange } from "../port.ts";
import type { ReadHold } from "./read-hold.ts";

export interface ContentToRead {
  readonly body: Body;
  readonly size: number;
  /** A range inside the content. Absent: the whole. */
  readonly range?: ByteRange;
  /** Keeps what is still to be read if that takes long. Absent: somebody else does. */
  readonly hold: ReadHold | null;
  /** What blobs are counted against that are opened early. Absent: the isolate's. */
  readonly budget?: ByteBudget;
}

/**
 * A content's bytes, or a range of them, for `new Response(…)`, which learns the length from them. Rejects if the first
 * blob is missing, so that the answer can still be an error. If a later one is missing or too short, the stream fails:
 * the reader sees a broken transfer and never wrong bytes.
 */
export async function readContent(
  store: BlobReader,
  { body, size, range = { offset: 0, length: size }, hold, budget = isolateBudget }: ContentToRead,
): Promise<Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>> {
  if (body.kind === "inline") return body.bytes.slice(range.offset, range.offset + range.length);
  const blobs = new OpenBlobs(store, { body, range, budget });
  await blobs.openFirst();
  const { first } = blobs;
  if (!first) return new Uint8Array(0);
  const stream = await first.stream;
  if (first.length === range.length && !store.isUncounted) return stream;
  // Never `new TransformStream()`: it passes every byte through JavaScript, at twenty times the cost.
  const { readable, writable } = new FixedLengthStream(range.length);
  let sent = 0;
  const end = hold?.begin(store, { body, unread: () => blobsWithin(body, range).slice(sent) });
  const pumped = pump(blobs, { writable, onSent: () => sent++ })
    .catch(() => {})
    .finally(end);
  // The platform may drop a request whose reader is gone; this one must first give back what it took of the budget.
  waitUntil(pumped);
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

interface Pumping {
  readonly writable: WritableStream<Uint8Array>;
  /** Called when all bytes of a blob were taken. */
  readonly onSent: () => void;
}

/** Sends one blob while it opens the next ones. */
async function pump(blobs: OpenBlobs, { writable, onSent }: Pumping): Promise<void> {
  try {
    for (let { first } = blobs; first; first = blobs.first) {
      const opening = blobs.openAhead();
      opening.catch(() => {});
      await (await first.stream).pipeTo(writable, { preventClose: true });
      await opening;
      blobs.shift();
      onSent();
    }
    await writable.close();
  } catch (error) {
    await Promise.allSettled([writable.abort(error), blobs.close()]);
    throw error;
  }
}

/** A blob that was asked for. */
interface OpenBlob {
  /** Rejects if there is no such blob, or if it is too short. */
  readonly stream: Promise<ReadableStream<Uint8Array>>;
  readonly length: number;
  /** Whether it has come, so that nobody waits for it. */
  isHere: boolean;
  /** Bytes of the budget that it holds. */
  held: number;
}

interface OpenBlobsOptions {
  readonly body: ChunkedBody;
  readonly range: ByteRange;
  readonly budget: ByteBudget;
}

/**
 * The blobs of a range that are open, in order. One is sent and one waits behind it, however short memory is. More wait if one
 * came later than its turn, as many as the store wants, until all that wait have come early: a slow client keeps no streams
 * open that it does not need. They are counted against the budget, and opened only while half of that is left to others.
 */
class OpenBlobs {
  readonly #store: BlobReader;
  readonly #budget: ByteBudget;
  readonly #parts: AsyncGenerator<ChunkPart>;
  readonly #open: OpenBlob[] = [];
  /** The next part, which is not open yet. */
  #next: IteratorResult<ChunkPart> | undefined;
  /** How many are opened before their turn. */
  #ahead = 1;
  #isClosed = false;

  constructor(store: BlobReader, { body, range, budget }: OpenBlobsOptions) {
    this.#store = store;
    this.#budget = budget;
    this.#parts = chunksWithin(store, { body, range });
  }

  /** The one whose turn it is to be sent; undefined if no more are open. */
  get first(): OpenBlob | undefined {
    return this.#open[0];
  }

  /** Opens the first one, if there is one. */
  openFirst(): Promise<void> {
    return this.#openUpTo(1);
  }

  /** Opens some more at the turn of the first one. Rejects if the list of chunks can't be read. */
  openAhead(): Promise<void> {
    if (!this.first?.isHere) this.#ahead = this.#store.readsAhead ?? 1;
    else if (this.#open.every(({ isHere }) => isHere)) this.#ahead = Math.max(1, this.#ahead - 1);
    return this.#openUpTo(1 + this.#ahead);
  }

  async #openUpTo(most: number): Promise<void> {
    while (this.#open.length < most) {
      this.#next ??= await this.#parts.next();
      if (this.#next.done || this.#isClosed) return;
      const { chunk, from, to } = this.#next.value;
      const length = to - from;
      const held = this.#open.length < 2 ? 0 : length;
      if (held > 0 && !(this.#budget.isAmple(held) && this.#budget.tryTake(held))) return;
      const stream = openBlob(this.#store, { blob: chunk.blob, offset: chunk.offset + from, length });
      const opened = { stream, length, isHere: false, held };
      this.#open.push(opened);
      stream.then(
        () => {
          opened.isHere = true;
        },
        // It is told at its turn.
        () => {},
      );
      this.#next = undefined;
    }
  }

  /** The first one was sent. */
  shift(): void {
    this.#open.shift();
    const second = this.#open[1];
    if (!second) return;
    this.#budget.give(second.held);
    second.held = 0;
  }

  /** Nothing more will be sent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(
      this.#open.splice(0).map(async ({ stream, held }) => {
        // At once, since a store may never answer: what comes still is cancelled unread.
        this.#budget.give(held);
        await (await stream).cancel();
      }),
    );
  }
}

async function openBlob(
  store: BlobReader,
  { blob, ...range }: { readonly blob: string } & ByteRange,
): Promise<ReadableStream<Uint8Array>> {
  const stream = await store.get(blob, range);
  if (stream === null) throw new MissingBlobError(blob);
  return stream;
}
