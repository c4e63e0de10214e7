import type { Faults } from "./faults.ts";
import { actorNow, type World } from "./world.ts";

/** How long a store takes to do something, at most; milliseconds. */
const STORE_MS = 15;

/** A store that all objects reach by messages: each takes its time, and may fail before or after it did anything. */
export class Remote {
  readonly #options: { readonly world: World; readonly faults: Faults; readonly store: string };

  constructor(options: { readonly world: World; readonly faults: Faults; readonly store: string }) {
    this.#options = options;
  }

  get now(): number {
    return this.#options.world.now;
  }

  /** Does it in one moment. */
  async ask<T>(work: () => T): Promise<T> {
    const { world, faults, store } = this.#options;
    const from = actorNow();
    if (!from) throw new Error(`only an actor of the simulation can reach ${store}`);
    await from.flushed();
    return await new Promise((resolve, reject) => {
      const later = (run: () => void) => world.after(world.random.next() * STORE_MS, run);
      const answer = (settle: () => void) => later(() => from.isAlive && settle());
      later(() => {
        const failed = () => reject(new Error(`${store} could not be reached`));
        if (faults.failsBefore(store)) {
          answer(failed);
          return;
        }
        try {
          const value = work();
          answer(faults.failsAfter(store) ? failed : () => resolve(value));
        } catch (error) {
          answer(() => reject(error));
        }
      });
    });
  }
}
