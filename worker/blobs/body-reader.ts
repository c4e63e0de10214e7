/** How a body ended: whole as far as its sender says, silent for too long, or cut off. */
export type BodyEnd = "complete" | "idle" | "lost";

/** A read asks for as much as comes in about this time, at the rate of the last read. If more were asked for, a slow body would look silent. */
const READ_MS = 100;

type ByteView = Uint8Array<ArrayBuffer>;

/**
 * Reads a request's body into buffers that the caller owns. A read transfers the buffer that is handed in: only the one
 * that comes back may be used afterwards. Once `end` is set, every read returns no bytes.
 */
export class BodyReader {
  readonly #source: ByteSource;
  /** A body that brings nothing for so long is given up, in milliseconds. */
  readonly #idleMs: number;
  readonly #now: () => number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #onIdle: (() => void) | undefined;
  #readSince: number | undefined;
  #bytesPerRead = 1;
  #end: BodyEnd | null = null;

  constructor(source: ByteSource, { idleMs, now }: { readonly idleMs: number; readonly now: () => number }) {
    this.#source = source;
    this.#idleMs = idleMs;
    this.#now = now;
  }

  /** Null while more may come. */
  get end(): BodyEnd | null {
    return this.#end;
  }

  /** Whether the body ended before its sender meant it to; the buffer of the last read is gone then. */
  get broken(): boolean {
    return this.#end === "idle" || this.#end === "lost";
  }

  /**
   * Waits for bytes and returns them, at the start of the space that was handed in; none at the end of the body.
   * `atLeast`: how many to wait for, unless the body ends. Absent: as many as are likely to come soon.
   */
  async read(space: ByteView, atLeast = Math.min(this.#bytesPerRead, space.length)): Promise<ByteView> {
    if (this.#end !== null) return space.subarray(0, 0);
    const since = this.#now();
    this.#readSince = since;
    const bytes = await this.#orIdle(this.#source.read(space, atLeast));
    this.#readSince = undefined;
    if (bytes === "idle" || bytes === "lost") {
      this.#end = bytes;
      return new Uint8Array(0);
    }
    if (bytes.length < atLeast) this.#end = "complete";
    const millis = Math.max(1, this.#now() - since);
    this.#bytesPerRead = Math.max(1, Math.floor((bytes.length * READ_MS) / millis));
    return bytes;
  }

  /** Gives the source back, to be read by another. Call it between two reads, before the end. */
  release(): ByteSource {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    return this.#source;
  }

  /** Call it when no more will be read. Cancels a body that has not ended; `atOnce`: one that comes too slowly to be waited for. */
  async close({ atOnce = this.#end === "idle" } = {}): Promise<void> {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    if (this.#end === "complete" || this.#end === "lost") return;
    await this.#source.cancel({ atOnce }).catch(() => {});
  }

  async #orIdle(read: Promise<ByteView>): Promise<ByteView | "idle" | "lost"> {
    const { promise: idle, resolve } = Promise.withResolvers<"idle">();
    this.#onIdle = () => resolve("idle");
    this.#timer ??= setTimeout(() => this.#watch(), this.#idleMs);
    return await Promise.race([read.catch(() => "lost" as const), idle]);
  }

  /** One timer serves the whole body: it checks how long the present read has waited, and sleeps for the rest. */
  #watch(): void {
    const now = this.#now();
    const waited = this.#readSince === undefined ? 0 : now - this.#readSince;
    // The timer fires as soon as a read has waited too long: one that has waited much longer, or less than nothing, by a clock
    // that was set meanwhile.
    if (waited < 0 || waited >= 2 * this.#idleMs) {
      this.#readSince = now;
      this.#timer = setTimeout(() => this.#watch(), this.#idleMs);
    } else if (waited >= this.#idleMs) this.#onIdle?.();
    else this.#timer = setTimeout(() => this.#watch(), this.#idleMs - waited);
  }
}

/** Bytes that come one after the other, read into buffers that the caller owns. One read at a time. */
export interface ByteSource {
  /**
   * Returns at least `atLeast` bytes, for which `space` has room, at the start of `space`; fewer only if the body ends, and
   * none at its end. The buffer of `space` is transferred: only the one that comes back may be used afterwards. Rejects
   * if the sender is gone or what it sent cannot be decoded.
   */
  read(space: ByteView, atLeast: number): Promise<ByteView>;
  /** Nothing more will be read. `atOnce`: nor taken from a sender that is still sending. */
  cancel(how?: { readonly atOnce: boolean }): Promise<void>;
}

/** A stream as a source. Bodies of requests are byte streams, which read into a buffer; a stream made by a transform may not be one. */
export function byteSource(body: ReadableStream<Uint8Array>): ByteSource {
  try {
    return new DirectSource(body.getReader({ mode: "byob" }));
  } catch (error) {
    if (!(error instanceof TypeError) || body.locked) throw error;
    return new CopyingSource(body.getReader());
  }
}

/** How much of a body that is given up is still taken at most, in bytes and milliseconds. */
const REST_BYTES = 256 * 1024;
const REST_MS = 1000;

/**
 * The body of a request. Cancelled early, it takes what is still coming, up to a bound: if the connection closed at once, a
 * client that is still sending would meet that, and many never look for the answer then. (net/http of Go does likewise.)
 */
export function sentBody(body: ReadableStream<Uint8Array>): ByteSource {
  return new PatientSource(byteSource(body));
}

class PatientSource implements ByteSource {
  readonly #source: ByteSource;
  #hasEnded = false;

  constructor(source: ByteSource) {
    this.#source = source;
  }

  async read(space: ByteView, atLeast: number): Promise<ByteView> {
    const bytes = await this.#source.read(space, atLeast);
    this.#hasEnded = bytes.length < atLeast;
    return bytes;
  }

  async cancel({ atOnce } = { atOnce: false }): Promise<void> {
    if (!atOnce && !this.#hasEnded) await this.#takeRest().catch(() => {});
    await this.#source.cancel();
  }

  async #takeRest(): Promise<void> {
    let isLate = false;
    const late = scheduler.wait(REST_MS).then(() => {
      isLate = true;
    });
    const take = async () => {
      let space: ByteView = new Uint8Array(64 * 1024);
      for (let taken = 0; taken < REST_BYTES && !isLate; ) {
        const bytes = await this.#source.read(space, 1);
        if (bytes.length === 0) return;
        taken += bytes.length;
        space = new Uint8Array(bytes.buffer);
      }
    };
    await Promise.race([take(), late]);
  }
}

class DirectSource implements ByteSource {
  readonly #reader: ReadableStreamBYOBReader;

  constructor(reader: ReadableStreamBYOBReader) {
    this.#reader = reader;
  }

  async read(space: ByteView, atLeast: number): Promise<ByteView> {
    const { value } = await this.#reader.readAtLeast(atLeast, space);
    return value ?? new Uint8Array(0);
  }

  cancel(): Promise<void> {
    return this.#reader.cancel();
  }
}

class CopyingSource implements ByteSource {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #left: Uint8Array = new Uint8Array(0);

  constructor(reader: ReadableStreamDefaultReader<Uint8Array>) {
    this.#reader = reader;
  }

  async read(space: ByteView, atLeast: number): Promise<ByteView> {
    let filled = 0;
    while (filled < atLeast) {
      if (this.#left.length === 0) {
        const { done, value } = await this.#reader.read();
        if (done) break;
        this.#left = value;
      }
      const part = this.#left.subarray(0, space.length - filled);
      space.set(part, filled);
      this.#left = this.#left.subarray(part.length);
      filled += part.length;
    }
    return space.subarray(0, filled);
  }

  cancel(): Promise<void> {
    return this.#reader.cancel();
  }
}
