import { rm } from "node:fs/promises";
import { unlessAborted } from "../lib/concurrency.ts";

interface Arrival {
  readonly file: Promise<string>;
  /** The fetch itself, and everybody who waits for the file or uses it. */
  users: number;
}

export interface ArrivalUse<T> {
  /** Makes the file, which is then nobody else's, and returns its path. Only called if nobody is bringing it already. */
  readonly bring: () => Promise<string>;
  /** Ends the waiting, not the bringing: others may be waiting for the same file. */
  readonly signal: AbortSignal;
  readonly work: (path: string) => Promise<T>;
}

/**
 * Files that several datums want at the same time. Each is brought once and stays until the last of them has used it,
 * so that everybody who waited for a content gets it, whatever becomes of it in the cache.
 */
export class Arrivals {
  readonly #open = new Map<string, Arrival>();

  /** Whether the file is there, or on its way. */
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

  /** Those of these names, or all, are for nobody who comes from now on. Who waits already gets them. */
  forget(names: ReadonlySet<string> | "all"): void {
    for (const name of this.#open.keys()) if (names === "all" || names.has(name)) this.#open.delete(name);
  }

  #begin(name: string, bring: () => Promise<string>): Arrival {
    const arrival = { file: bring(), users: 1 };
    this.#open.set(name, arrival);
    arrival.file.then(
      () => this.#leave(name, arrival),
      () => {
        // Forgotten before those who waited hear of the failure, so that a new call tries again.
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
    // A file that can't be removed goes with the agent's folder.
    if (path !== undefined) await rm(path, { force: true }).catch(() => undefined);
  }

  #forget(name: string, arrival: Arrival): void {
    if (this.#open.get(name) === arrival) this.#open.delete(name);
  }
}
