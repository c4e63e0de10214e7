import type { Refused } from "../contract/answers.ts";

/** How long a writer waits for a large commit; milliseconds. */
const WAIT_MS = 60_000;

interface GateOptions {
  readonly isClosed: () => boolean;
  readonly waitMs?: number;
}

/** The gate in front of all writes: closed while a large commit is applied. Writers wait there in their order, but not for ever. */
export class Gate {
  readonly #isClosed: () => boolean;
  readonly #waitMs: number;
  /** Each goes on when it is called. A set keeps the order. */
  readonly #waiting = new Set<() => void>();

  constructor({ isClosed, waitMs = WAIT_MS }: GateOptions) {
    this.#isClosed = isClosed;
    this.#waitMs = waitMs;
  }

  get isClosed(): boolean {
    return this.#isClosed();
  }

  /** Does the work now, or when it is its turn. Returns `busy` if that took too long. */
  async pass<A>(work: () => A | Promise<A>): Promise<A | Refused<"busy">> {
    if (!this.isClosed) return await work();
    return await new Promise((resolve, reject) => {
      const goOn = () => {
        clearTimeout(timer);
        // `work` must have written when the next writer goes on: so it is called, not awaited, here.
        try {
          resolve(work());
        } catch (error) {
          reject(error);
        }
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(goOn);
        resolve({ ok: false, reason: "busy" });
      }, this.#waitMs);
      this.#waiting.add(goOn);
    });
  }

  /** Call this when the gate may be open again: lets writers through until one of them closes it. */
  opened(): void {
    for (const goOn of this.#waiting) {
      if (this.isClosed) return;
      this.#waiting.delete(goOn);
      goOn();
    }
  }
}
