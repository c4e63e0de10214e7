import type { ByteBudget } from "./budget.ts";

/** How many buffers of the usual size are kept for the next taker. Without them, memory would be mapped anew for each chunk. */
const POOLED_BUFFERS = 4;

/**
 * The buffers of one upload: one chunk in flight to the store and one filling, both counted against the isolate's
 * budget. It takes the second only if that is free at once. Otherwise it waits for the one in flight, and then stands in
 * line with empty hands. That keeps the budget free of deadlock and fair: while others wait, a long upload goes back in
 * line after each chunk.
 */
export class ChunkFlow {
  readonly #budget: ByteBudget;
  readonly #pool: BufferPool;
  #filling = 0;
  #inFlight: Promise<void> = Promise.resolve();

  constructor(budget: ByteBudget, pool: BufferPool) {
    this.#budget = budget;
    this.#pool = pool;
  }

  /** A buffer of at least `bytes` bytes for the next chunk. It is not cleared. */
  async take(bytes: number): Promise<ArrayBuffer> {
    if (!this.#budget.tryTake(bytes)) {
      await this.#inFlight;
      await this.#budget.take(bytes);
    }
    this.#filling = bytes;
    return this.#pool.take(bytes);
  }

  /** Sends the buffer that was taken last, as soon as the one before has arrived. Rejects if that one failed. */
  async send(chunk: Uint8Array<ArrayBuffer>, put: (chunk: Uint8Array) => Promise<void>): Promise<void> {
    await this.#inFlight;
    const bytes = this.#filling;
    this.#filling = 0;
    this.#inFlight = put(chunk).finally(() => {
      this.#pool.give(chunk.buffer);
      this.#budget.give(bytes);
    });
    // The next `take` or `send`, or the end, rejects with it.
    this.#inFlight.catch(() => {});
  }

  /** Resolves when all that was sent has arrived. */
  async arrived(): Promise<void> {
    await this.#inFlight;
  }

  /** Gives everything back, also after a failure. */
  async close(): Promise<void> {
    await this.#inFlight.catch(() => {});
    this.#budget.give(this.#filling);
    this.#filling = 0;
  }
}

/** Keeps a few buffers of one size between their uses. */
export class BufferPool {
  readonly #bytes: number;
  readonly #idle: ArrayBuffer[] = [];

  /** `bytes`: the size of the buffers that are kept. */
  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  take(bytes: number): ArrayBuffer {
    return (bytes === this.#bytes ? this.#idle.pop() : undefined) ?? new ArrayBuffer(bytes);
  }

  give(buffer: ArrayBuffer): void {
    if (buffer.byteLength === this.#bytes && this.#idle.length < POOLED_BUFFERS) this.#idle.push(buffer);
  }
}
