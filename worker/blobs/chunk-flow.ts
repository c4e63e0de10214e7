import type { ByteBudget } from "./budget.ts";

/** How many buffers of the usual size are kept for the next taker. Without them, memory would be mapped anew for each chunk. */
const POOLED_BUFFERS = 4;

interface ChunkFlowOptions {
  readonly budget: ByteBudget;
  readonly pool: BufferPool;
  /** How many chunks may be in flight. */
  readonly putsAtOnce: number;
}

/**
 * The buffers of one upload: chunks in flight to the store and one filling, all counted against the isolate's budget. It
 * takes the second only if that is free at once, and more only while half of the budget is left to others. Otherwise it
 * waits until one has arrived. If others wait in line, it waits for all of its own, and then stands in line with empty
 * hands. That keeps the budget free of deadlock and fair: while others wait, a long upload goes back in line after each
 * chunk.
 */
export class ChunkFlow {
  readonly #options: ChunkFlowOptions;
  readonly #inFlight = new Set<Promise<void>>();
  #filling = 0;
  #failure: { readonly error: unknown } | undefined;

  constructor(options: ChunkFlowOptions) {
    this.#options = options;
  }

  /** A buffer of at least `bytes` bytes for the next chunk. It is not cleared. */
  async take(bytes: number): Promise<ArrayBuffer> {
    const { budget, pool } = this.#options;
    while (this.#inFlight.size > 1 && !budget.isAmple(bytes)) await this.#oneArrived();
    if (!budget.tryTake(bytes)) {
      await this.arrived();
      await budget.take(bytes);
    }
    this.#filling = bytes;
    return pool.take(bytes);
  }

  /** Sends the buffer that was taken last, as soon as so few are in flight. Rejects if one that was sent before has failed. */
  async send(chunk: Uint8Array<ArrayBuffer>, put: (chunk: Uint8Array) => Promise<void>): Promise<void> {
    const { budget, pool, putsAtOnce } = this.#options;
    while (this.#inFlight.size >= putsAtOnce) await this.#oneArrived();
    this.#raise();
    const bytes = this.#filling;
    this.#filling = 0;
    const sent = put(chunk)
      .catch((error) => {
        this.#failure ??= { error };
      })
      .finally(() => {
        this.#inFlight.delete(sent);
        pool.give(chunk.buffer);
        budget.give(bytes);
      });
    this.#inFlight.add(sent);
  }

  /** Resolves when all that was sent has arrived. Rejects if one has failed. */
  async arrived(): Promise<void> {
    await Promise.all(this.#inFlight);
    this.#raise();
  }

  /** Gives everything back, also after a failure. */
  async close(): Promise<void> {
    await Promise.all(this.#inFlight);
    this.#options.budget.give(this.#filling);
    this.#filling = 0;
  }

  async #oneArrived(): Promise<void> {
    await Promise.race(this.#inFlight);
    this.#raise();
  }

  #raise(): void {
    if (this.#failure) throw this.#failure.error;
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
