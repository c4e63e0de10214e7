import { rm } from "node:fs/promises";
import { unlessAborted } from "../lib/concurrency.ts";

interface Arrival {
  readonly file: Promise<string>;
  /** Who brings it, and those who wait for it or use it. */
  users: number;
}

export interface ArrivalUse<T> {
  /** Makes the file, which is then nobody else's, and answers its path. Called where nobody is at it already. */
  readonly bring: () => Promise<string>;
  /** Ends the waiting, not the bringing: others may wait for the same, and later ones will. */
  readonly signal: AbortSignal;
  readonly work: (path: string) => Promise<T>;
}

/**
 * Files that several want at the same time. Each is brought once, and is there until the last one has made use of
 * it: whatever becomes of it in the cache, who has waited for a content gets it.
 */
export class Arrivals {
  readonly #open = new Map<string, Arrival>();

  /** Whether such a file is there, or on its way. */
  has(name: string): boolean {
    return this.#open.has(name);
  }

  async use<T>(name: string, { bring, signal, work }: ArrivalUse<T>): Promise<T> {
    const arrival = this.#open.get(name) ?? this.#begin(name, bring);
    arrival.users += 1;
    try {
      return await work(await unlessAborted(arrival.file, signal));
    } finally {
      await this.#leave(name, arrival);
    }
  }

  #begin(name: string, bring: () => Promise<string>): Arrival {
    const arrival = { file: bring(), users: 1 };
    this.#open.set(name, arrival);
    arrival.file.then(
      () => this.#leave(name, arrival),
      () => {
        // A failure is not remembered, not even while those who waited are told.
        this.#forget(name, arrival);
        return this.#leave(name, arrival);
      },
    );
    return arrival;
  }

  async #leave(name: string, arrival: Arrival): Promise<void> {
    arrival.users -= 1;
    if (arrival.users > 0) return;
    this.#forget(name, arrival);
    const path = await arrival.file.catch(() => undefined);
    // Else it goes with the agent's folder.
    if (path !== undefined) await rm(path, { force: true }).catch(() => undefined);
  }

  #forget(name: string, arrival: Arrival): void {
    if (this.#open.get(name) === arrival) this.#open.delete(name);
  }
}
