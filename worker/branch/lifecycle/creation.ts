import type { Made, Refused } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Courier } from "./courier.ts";
import { beginGeneration, type Moment } from "./generation.ts";

/**
 * Creations of the branch. One is acknowledged once the catalogue knows; where the catalogue can't be reached nobody
 * is told that the branch is theirs, and whoever asks next finishes what was begun.
 */
export class Creation {
  readonly #ledger: Ledger;
  readonly #courier: Courier;
  /** By the uid of a generation: the announcement that its creator waits for now. */
  readonly #announcing = new Map<string, Promise<boolean>>();

  constructor(ledger: Ledger, courier: Courier) {
    this.#ledger = ledger;
    this.#courier = courier;
  }

  async create(moment: Moment): Promise<Made | Refused<"already-exists" | "catalogue-unavailable">> {
    const live = this.#ledger.generations.live();
    if (!live) return await this.#begin(moment);
    if (this.#ledger.writer.get() || !this.#courier.catalogueWaits) return refused("already-exists");
    const announcing = this.#announcing.get(live.uid);
    if (!announcing) return await this.#announce();
    return refused((await announcing) ? "already-exists" : "catalogue-unavailable");
  }

  #begin(moment: Moment): Promise<Made | Refused<"catalogue-unavailable">> {
    this.#ledger.transaction(() => beginGeneration(this.#ledger, moment));
    this.#courier.watch();
    return this.#announce();
  }

  async #announce(): Promise<Made | Refused<"catalogue-unavailable">> {
    const live = this.#ledger.generations.live();
    if (!live) throw new Error("the branch to announce is not there");
    const { uid, createdAt } = live;
    const announcing = this.#courier.flushCatalogue();
    this.#announcing.set(uid, announcing);
    try {
      return (await announcing) ? { ok: true, uid, createdAt } : refused("catalogue-unavailable");
    } finally {
      this.#announcing.delete(uid);
    }
  }
}

function refused<R extends string>(reason: R): Refused<R> {
  return { ok: false, reason };
}
