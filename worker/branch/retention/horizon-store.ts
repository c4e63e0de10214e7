import { BranchStore } from "../store.ts";

/** How far the freeing of a generation's history came; `free.ts` tells the steps. */
export interface HistoryGcProgress {
  readonly gen: number;
  /** Commits before this one are kept only if something names them. */
  readonly horizon: number;
  /** Commits before this one are marked: held, or gone. */
  readonly marked: number;
  /** The first dead row to look at next, by its death and its path. */
  readonly diedFrom: number;
  readonly diedPath: string;
  /** Of a deleted generation: the path after which rows that lived at its end are looked at next; null: they were. */
  readonly alivePath: string | null;
  readonly purged: 0 | 1;
}

/** Nothing was given back. */
const WHOLE = { horizon: 0, marked: 0, diedFrom: 0, diedPath: "", alivePath: "", purged: 0 } as const;

/** Most generations whose horizons are kept in memory. */
const MAX_KNOWN = 1000;

/** How much of each generation was given back, and the commits below that which are held. */
export class HorizonStore extends BranchStore {
  readonly #horizons = new Map<number, number>();
  /** The generations of which something is left, when there were so many. */
  #unpurged: { readonly newest: number; readonly gens: readonly number[] } | undefined;

  /** The horizon of a generation. Kept in memory, since each read of a commit asks. */
  horizonOf(gen: number): number {
    const known = this.#horizons.get(gen);
    if (known !== undefined) return known;
    const { horizon } = this.get(gen);
    if (this.#horizons.size >= MAX_KNOWN) this.#horizons.clear();
    this.#horizons.set(gen, horizon);
    return horizon;
  }

  get(gen: number): HistoryGcProgress {
    const row = this.sql.first<HistoryGcProgress>`
      SELECT gen, horizon, marked, diedFrom, diedPath, alivePath, purged
      FROM horizons WHERE gen = ${gen}`;
    return row ?? { gen, ...WHOLE };
  }

  save({ gen, horizon, marked, diedFrom, diedPath, alivePath, purged }: HistoryGcProgress): void {
    this.sql.run`
      INSERT OR REPLACE INTO horizons (gen, horizon, marked, diedFrom, diedPath, alivePath, purged)
      VALUES (${gen}, ${horizon}, ${marked}, ${diedFrom}, ${diedPath}, ${alivePath}, ${purged})`;
    this.#horizons.delete(gen);
    if (purged) this.#unpurged = undefined;
  }

  /** Whether any commit of a generation is held. */
  hasHeld(gen: number): boolean {
    return this.sql.has`SELECT 1 FROM held WHERE gen = ${gen} LIMIT 1`;
  }

  /** The generations of which something is left, the newest first. */
  unpurged(): readonly number[] {
    const newest = this.sql.number`SELECT gen FROM generations ORDER BY gen DESC LIMIT 1`;
    if (this.#unpurged?.newest === newest) return this.#unpurged.gens;
    const rows = this.sql.all<{ gen: number }>`
      SELECT generations.gen AS gen FROM generations LEFT JOIN horizons ON horizons.gen = generations.gen
      WHERE ifnull(purged, 0) = 0 ORDER BY generations.gen DESC`;
    this.#unpurged = { newest, gens: rows.map(({ gen }) => gen) };
    return this.#unpurged.gens;
  }

  /** What is in memory may not be what is written. */
  forget(): void {
    this.#horizons.clear();
    this.#unpurged = undefined;
  }
}
