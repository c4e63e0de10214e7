import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { orNothing } from "../lib/system-calls.ts";
import { allEntries, bytesOnDisk } from "./entries.ts";

export interface RoomOptions {
  readonly dir: string;
  /** The folder of the agents that share the cache: `<agent>/incoming/` holds what they fetch. */
  readonly agents: string;
  readonly maxBytes: number;
  readonly now: () => number;
}

/** The part of the cache that is kept free, for what agents add between two counts. */
const MARGIN = 0.1;

/**
 * Keeps the cache within its bound, though several agents add to it and none of them knows of the others. Each
 * counts what is there before it adds more than its share of the margin, and makes room then: between two counts all
 * of them together stay within the margin. Nothing is kept in memory but that share, so a restart forgets nothing,
 * and a count, which looks at every file, comes once for a part of the cache that was fetched anew.
 *
 * Last used is the time of access of a file. What running datums hold, as hard links, is counted but not evicted,
 * since that would free nothing. Two agents that evict at once may evict too much, which costs a fetch.
 */
export class Room {
  readonly #options: RoomOptions;
  /** What this agent may add before it has to count. */
  #left = 0;
  #counting: Promise<void> | undefined;
  #used: number | undefined;

  constructor(options: RoomOptions) {
    this.#options = options;
  }

  /** Takes room for a content, and makes room first if there is none. Returns false if it is too large to be kept at all. */
  async take(size: number): Promise<boolean> {
    const bytes = bytesOnDisk(size);
    if (bytes > this.#most) return false;
    while (this.#left < bytes) await this.count(bytes);
    this.#left -= bytes;
    return true;
  }

  /** Bytes that were in the cache when they were last counted, and may be; undefined: they were not counted yet. */
  get use(): { readonly usedBytes: number; readonly maxBytes: number } | undefined {
    return this.#used === undefined ? undefined : { usedBytes: this.#used, maxBytes: this.#options.maxBytes };
  }

  /** Gives back what was taken for a content. */
  giveBack(size: number): void {
    this.#left += bytesOnDisk(size);
  }

  /** Counts, and evicts if there is no room for so many bytes. Calls that come meanwhile share one count. */
  count(bytes: number): Promise<void> {
    this.#counting ??= this.#count(bytes).finally(() => {
      this.#counting = undefined;
    });
    return this.#counting;
  }

  /** Evicts whatever the bound says, because the disk is full. */
  async free(size: number): Promise<void> {
    const ages = new Ages(this.#options.now());
    for await (const entry of allEntries(this.#options.dir)) if (!entry.inUse) ages.add(entry);
    await this.#evict(ages, bytesOnDisk(size) + this.#margin);
  }

  get #margin(): number {
    return this.#options.maxBytes * MARGIN;
  }

  get #most(): number {
    return this.#options.maxBytes - this.#margin;
  }

  async #count(bytes: number): Promise<void> {
    const { dir, agents, now } = this.#options;
    const ages = new Ages(now());
    let total = 0;
    for await (const entry of allEntries(dir)) {
      total += entry.bytes;
      if (!entry.inUse) ages.add(entry);
    }
    const names = (await orNothing(readdir(agents))) ?? [];
    for (const name of names) total += await bytesIn(join(agents, name, "incoming"));
    const tooMany = total + bytes - this.#most;
    if (tooMany > 0) await this.#evict(ages, tooMany);
    this.#used = total - Math.max(0, tooMany);
    // Half of its share: an agent that starts after this count has a share as well.
    this.#left = bytes + this.#margin / Math.max(1, names.length) / 2;
  }

  async #evict(ages: Ages, bytes: number): Promise<void> {
    const cut = ages.cut(bytes);
    let left = cut.bytes;
    for await (const { path, usedAt, inUse, bytes: own } of allEntries(this.#options.dir)) {
      const step = ages.stepOf(usedAt);
      if (inUse || step < cut.step || (step === cut.step && left <= 0)) continue;
      await rm(path, { force: true });
      if (step === cut.step) left -= own;
    }
  }
}

/** Bytes of files that are not in the cache yet. They have their full size from the beginning. */
async function bytesIn(incoming: string): Promise<number> {
  let total = 0;
  for (const name of (await orNothing(readdir(incoming))) ?? []) {
    const stats = await orNothing(stat(join(incoming, name)));
    if (stats?.nlink === 1) total += bytesOnDisk(stats.size);
  }
  return total;
}

/** Ages from a millisecond on in steps of about two per cent: some 1,300 of them span a thousand years. */
const STEPS_PER_DOUBLING = 32;

/** How many bytes were last used how long ago, to about two per cent: any number of files takes the same memory. */
export class Ages {
  readonly #now: number;
  readonly #bytes: number[] = [];

  constructor(now: number) {
    this.#now = now;
  }

  add({ usedAt, bytes }: { usedAt: number; bytes: number }): void {
    const step = this.stepOf(usedAt);
    this.#bytes[step] = (this.#bytes[step] ?? 0) + bytes;
  }

  /** Grows with the age. What was used in the future, by a clock that was wrong, counts as used now. */
  stepOf(usedAt: number): number {
    return Math.floor(Math.log2(1 + Math.max(0, this.#now - usedAt)) * STEPS_PER_DOUBLING);
  }

  /** What has to go, oldest first, to free so many bytes: all that is older than `step`, and `bytes` of that step. */
  cut(bytes: number): { readonly step: number; readonly bytes: number } {
    let left = bytes;
    for (let step = this.#bytes.length - 1; step >= 0; step -= 1) {
      const here = this.#bytes[step] ?? 0;
      if (here >= left) return { step, bytes: left };
      left -= here;
    }
    return { step: -1, bytes: 0 };
  }
}
