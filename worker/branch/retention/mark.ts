import type { Sql } from "../../objects/sql.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { GenerationStore } from "../tree/generation-store.ts";
import type { HorizonStore } from "./horizon-store.ts";
import { IS_NAMED, IS_ROOT } from "./name-store.ts";

/** Most commits that one slice marks, or looks at again. */
const COMMITS = 500;

/** Of (?1 gen, ?2 first seq, ?3 seq to end before): those that something names are held. */
const holding = (named: string): string => `
  INSERT OR IGNORE INTO held (gen, seq)
  SELECT gen, seq FROM commits AS named
  WHERE gen = ?1 AND seq >= ?2 AND seq < ?3 AND kind = 0 AND ${named}`;
const HOLD = holding(IS_NAMED);
const HOLD_ROOTS = holding(IS_ROOT);

/** The same: the others are gone. What was said of them goes at once. */
const MARK = `
  UPDATE commits SET kind = 2, annotation = NULL, author = NULL
  WHERE gen = ?1 AND seq >= ?2 AND seq < ?3 AND kind = 0
    AND NOT EXISTS (SELECT 1 FROM held WHERE held.gen = commits.gen AND held.seq = commits.seq)`;

/** Of (?1 gen, ?2 horizon): a commit that is gone, and whose row nobody needs: no version, and no kept commit for its counts. */
const IS_LEFT = `
  kind = 2 AND seq + 1 < ?2
    AND NOT EXISTS (SELECT 1 FROM held WHERE held.gen = commits.gen AND held.seq = commits.seq + 1)
    AND NOT EXISTS (SELECT 1 FROM files INDEXED BY by_born WHERE files.gen = commits.gen AND born = commits.seq)
    AND NOT EXISTS (
      SELECT 1 FROM files INDEXED BY by_died WHERE files.gen = commits.gen AND died IS NOT NULL AND died = commits.seq
    )
    AND NOT EXISTS (SELECT 1 FROM revived WHERE revived.gen = commits.gen AND revived.version = commits.seq)`;

/** Also of (?3 first seq, ?4 seq to end before). */
const FORGET_RANGE = `DELETE FROM commits WHERE gen = ?1 AND seq >= ?3 AND seq < ?4 AND ${IS_LEFT}`;
/** Also of (?3 JSON of seqs). */
const FORGET_SOME = `
  DELETE FROM commits WHERE gen = ?1 AND seq IN (SELECT value FROM json_each(?3)) AND ${IS_LEFT}`;

/** Of (?1 gen, ?2 seq, ?3 limit): held commits after a seq, and whether something names them. */
const looking = (named: string): string => `
  SELECT held.seq AS seq, ${named} AS isNamed
  FROM held LEFT JOIN commits AS named ON named.gen = held.gen AND named.seq = held.seq
  WHERE held.gen = ?1 AND held.seq > ?2 ORDER BY held.seq LIMIT ?3`;
const LOOK = looking(IS_NAMED);
const LOOK_FOR_ROOTS = looking(IS_ROOT);

export interface MarkStores {
  readonly sql: Sql;
  readonly generations: GenerationStore;
  readonly horizons: HorizonStore;
}

/**
 * Marks some more of the commits below the horizon: as held, or as gone. Only then may rows of what is gone go. So a commit
 * that is not marked has all of its tree. Returns whether any were left to mark.
 */
export function markSlice(_: Tx, { sql, generations, horizons }: MarkStores, gen: number): boolean {
  const progress = horizons.get(gen);
  const { horizon, marked } = progress;
  if (marked >= horizon) return false;
  const isLive = generations.live()?.gen === gen;
  const end = Math.min(horizon, marked + COMMITS);
  sql.execute(isLive ? HOLD : HOLD_ROOTS, [gen, marked, end]);
  sql.execute(MARK, [gen, marked, end]);
  // The one before was left when it was the parent of the oldest commit that was kept.
  sql.execute(FORGET_RANGE, [gen, horizon, marked - 1, end]);
  horizons.save({ ...progress, marked: end });
  return true;
}

/** Removes the rows of those commits that are gone and that no version needs any more. */
export function forgetCommits(
  _: Tx,
  { sql, horizons }: Pick<MarkStores, "sql" | "horizons">,
  { gen, seqs }: { gen: number; seqs: Iterable<number> },
): void {
  sql.execute(FORGET_SOME, [gen, horizons.horizonOf(gen), JSON.stringify([...seqs])]);
}

/**
 * Lets go of held commits that nothing names any more, as far as one transaction should; what only they had is looked at
 * again. Returns the last one that it looked at, undefined if it looked at all; and whether it let go of any.
 */
export function unholdSlice(
  tx: Tx,
  { sql, generations, horizons }: MarkStores,
  { gen, after }: { gen: number; after: number },
): { readonly last: number | undefined; readonly released: boolean } {
  const isLive = generations.live()?.gen === gen;
  const looked = sql.query<{ seq: number; isNamed: 0 | 1 }>(isLive ? LOOK : LOOK_FOR_ROOTS, [
    gen,
    after,
    COMMITS,
  ]);
  const [first, ...others] = looked.filter(({ isNamed }) => !isNamed).map(({ seq }) => seq);
  if (first !== undefined) {
    const seqs = [first, ...others];
    for (const seq of seqs) {
      sql.run`DELETE FROM held WHERE gen = ${gen} AND seq = ${seq}`;
      sql.run`UPDATE commits SET kind = 2, annotation = NULL, author = NULL WHERE gen = ${gen} AND seq = ${seq} AND kind = 0`;
    }
    const progress = horizons.get(gen);
    // What a commit had and no longer is died after it.
    const back = progress.diedFrom > first + 1 ? { diedFrom: first + 1, diedPath: "" } : {};
    horizons.save({ ...progress, ...back, alivePath: "" });
    forgetCommits(tx, { sql, horizons }, { gen, seqs: seqs.flatMap((seq) => [seq - 1, seq]) });
  }
  const last = looked.length < COMMITS ? undefined : looked.at(-1)?.seq;
  return { last, released: first !== undefined };
}
