import { yieldToOthers } from "../../objects/turns.ts";

/** Rounds between two turns of others, of a body that is woken again and again. Long bodies let others in by themselves. */
const ROUNDS_PER_TURN = 10;

/**
 * Work that runs once at a time until nothing is left. Its body looks for what is to be done by itself, so that a
 * wake is no message that could be lost: waking twice is as good as once, and a crash is made good by any wake.
 */
export class Loop {
  readonly #body: () => Promise<void>;
  readonly #failed: (error: unknown, failures: number) => void;
  #running: Promise<void> | undefined;
  #again = false;
  #failures = 0;
  /** What it failed with, if it failed the last time. */
  #error: string | null = null;

  constructor(body: () => Promise<void>, failed: (error: unknown, failures: number) => void) {
    this.#body = body;
    this.#failed = failed;
  }

  /** Runs the body, once more if it runs already; resolves when it has come to rest. Never rejects. */
  wake(): Promise<void> {
    this.#again = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Resolves when it has come to rest. Undefined: it rests. */
  get resting(): Promise<void> | undefined {
    return this.#running;
  }

  get standing(): { running: boolean; failures: number; error: string | null } {
    return { running: this.#running !== undefined, failures: this.#failures, error: this.#error };
  }

  async #run(): Promise<void> {
    // A wake may come from inside a transaction: the body must not run in it.
    await Promise.resolve();
    let rounds = 0;
    while (this.#again) {
      this.#again = false;
      try {
        await this.#body();
        this.#failures = 0;
        this.#error = null;
        rounds += 1;
        if (this.#again && rounds % ROUNDS_PER_TURN === 0) await yieldToOthers();
      } catch (error) {
        this.#failures++;
        this.#error = String(error);
        this.#report(error);
        return;
      }
    }
  }

  /** If not even the next try can be written down, since the object is broken or full, the next wake is that try. */
  #report(error: unknown): void {
    try {
      this.#failed(error, this.#failures);
    } catch (fault) {
      console.warn("no next try of what failed could be written down", fault);
    }
  }
}
