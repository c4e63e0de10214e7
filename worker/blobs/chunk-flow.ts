import type { ByteBudget } from "./budget.ts";
import type { PutTogether } from "./port.ts";

/** How many buffers of the usual size are kept for the next taker. Without them, memory would be mapped anew for each chunk. */
const POOLED_BUFFERS = 4;

/** How many chunks of an upload may be written and not flushed yet: a disk that is slow should hold up whoever sends. */
const MOST_UNFINISHED = 8;

/** How a chunk is sent. */
type Put = (chunk: Uint8Array, together: PutTogether) => Promise<void>;

interface ChunkFlowOptions {
  readonly budget: ByteBudget;
  readonly pool: BufferPool;
  /** How many chunks may be on their way to the store. */
  readonly putsAtOnce: number;
}

/**
 * The buffers of one upload: chunks on their way to the store and one filling, all counted against the isolate's budget. It
 * takes the second only if that is free at once, and more only while half of the budget is left to others. Otherwise it
 * waits until the store has taken one. If others wait in line, it waits for all of its own, and then stands in line with empty
 * hands. That keeps the budget free of deadlock and fair: while others wait, a long upload goes back in line after each
 * chunk. A chunk whose bytes the store has taken holds no memory while it waits to be flushed.
 */
export class ChunkFlow {
  readonly #options: ChunkFlowOptions;
  readonly #inFlight = new Set<Promise<void>>();
  /** One for each buffer that the store has not taken yet. */
  readonly #held = new Set<Promise<void>>();
  #filling = 0;
  /** Blobs that will be finished together when those are that come before them. */
  #waiting: { readonly names: string[]; readonly done: Promise<void> } | undefined;
  #finishing: Promise<void> = Promise.resolve();
  #failure: { readonly error: unknown } | undefined;

  constructor(options: ChunkFlowOptions) {
    this.#options = options;
  }

  /** A buffer of at least `bytes` bytes for the next chunk. It is not cleared. */
  async take(bytes: number): Promise<ArrayBuffer> {
    const { budget, pool } = this.#options;
    while (this.#held.size > 1 && !budget.isAmple(bytes)) await Promise.race(this.#held);
    this.#raise();
    if (!budget.tryTake(bytes)) {
      await Promise.all(this.#held);
      await budget.take(bytes);
    }
    this.#filling = bytes;
    return pool.take(bytes);
  }

  /** Sends the buffer that was taken last, as soon as so few are in flight. Rejects if one that was sent before has failed. */
  async send(chunk: Uint8Array<ArrayBuffer>, put: Put): Promise<void> {
    const { budget, pool, putsAtOnce } = this.#options;
    while (this.#held.size >= putsAtOnce) await Promise.race(this.#held);
    while (this.#inFlight.size >= putsAtOnce + MOST_UNFINISHED) await Promise.race(this.#inFlight);
    this.#raise();
    const bytes = this.#filling;
    this.#filling = 0;
    const { promise: taken, resolve: onTaken } = Promise.withResolvers<void>();
    const held = taken.then(() => {
      this.#held.delete(held);
      pool.give(chunk.buffer);
      budget.give(bytes);
    });
    this.#held.add(held);
    const sent = put(chunk, { onTaken, finish: this.#finish })
      .catch((error) => {
        this.#failure ??= { error };
      })
      .finally(() => {
        this.#inFlight.delete(sent);
        onTaken();
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
    await Promise.all([...this.#inFlight, ...this.#held]);
    this.#options.budget.give(this.#filling);
    this.#filling = 0;
  }

  readonly #finish: PutTogether["finish"] = (name, finishAll) => {
    if (!this.#waiting) {
      const names: string[] = [];
      const done = this.#finishing.then(() => {
        this.#waiting = undefined;
        return finishAll(names);
      });
      this.#waiting = { names, done };
      this.#finishing = done.catch(() => {});
    }
    this.#waiting.names.push(name);
    return this.#waiting.done;
  };

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
