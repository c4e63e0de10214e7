/**
 * How many bytes of bodies an isolate may hold at once. A request that wants more waits in line. There is no deadlock as
 * long as no request waits in `take` while it holds something: every holder then ends by itself, because an idle client
 * is timed out. A holder asks with `tryTake`, which never waits and never overtakes the line.
 */
export class ByteBudget {
  readonly #line: { readonly bytes: number; readonly admit: () => void }[] = [];
  readonly #total: number;
  #free: number;

  /** `total` must be at least the largest single reservation. */
  constructor(total: number) {
    this.#total = total;
    this.#free = total;
  }

  /** Bytes that are not reserved. */
  get free(): number {
    return this.#free;
  }

  /** Whether a request waits: holders should then give back what they can do without. */
  get contended(): boolean {
    return this.#line.length > 0;
  }

  /** Whether half of it would still be free for others if so many bytes were taken. */
  isAmple(bytes: number): boolean {
    return this.#free - bytes >= this.#total / 2;
  }

  /** Reserves at once, or not at all. */
  tryTake(bytes: number): boolean {
    if (this.contended || bytes > this.#free) return false;
    this.#free -= bytes;
    return true;
  }

  /** Waits for the caller's turn, then reserves: first come, first served, whatever the sizes. */
  async take(bytes: number): Promise<void> {
    if (this.tryTake(bytes)) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#line.push({ bytes, admit: resolve });
    await promise;
  }

  /** Returns a reservation. */
  give(bytes: number): void {
    this.#free += bytes;
    for (;;) {
      const first = this.#line[0];
      if (!first || first.bytes > this.#free) return;
      this.#line.shift();
      this.#free -= first.bytes;
      first.admit();
    }
  }
}

/** Bytes of bodies held by one isolate, of the 128 MB that the platform gives it. */
const ISOLATE_BODY_BYTES = 48 * 1024 * 1024;

/** Shared by all requests of this isolate. */
export const isolateBudget = new ByteBudget(ISOLATE_BODY_BYTES);
