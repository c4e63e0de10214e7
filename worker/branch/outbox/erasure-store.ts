import type { ContentId } from "../../../protocol/content.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { Subscriber } from "../contract/pipelines.ts";
import { BranchStore } from "../store.ts";

/** A row of `files` that was erased, as pipelines are told of it. */
export interface ErasureRow extends ContentId {
  readonly number: number;
  readonly gen: number;
  readonly path: string;
  /** The commit that the version was named by. */
  readonly version: number;
  /** The row was in the commits from `born` up to `died`, which is not one of them. */
  readonly born: number;
  readonly died: number;
}

/** Of (?1 gen, ?2 JSON of rows). */
const ADD = `
  INSERT INTO erasures (number, gen, path, version, born, died, digest, size)
  SELECT clock.number + 1 + added.key, ?1, added.value ->> 0, added.value ->> 1, added.value ->> 2, added.value ->> 3,
    added.value ->> 4, added.value ->> 5
  FROM erasure_clock AS clock CROSS JOIN json_each(?2) AS added WHERE clock.one = 1`;

/**
 * What was erased and pipelines have not heard of yet: those that read the branch, and the one whose output it is. The rows
 * are numbered, and go when all have heard of them, so that the name of what was erased does not stay.
 */
export class ErasureStore extends BranchStore {
  /** Gives them the next numbers, in their order. */
  add(rows: readonly Omit<ErasureRow, "number" | "gen">[], gen: number): void {
    const added = rows.map(({ path, version, born, died, digest, size }) => [
      ...[path, version, born, died],
      ...[digest, size],
    ]);
    this.sql.execute(ADD, [gen, JSON.stringify(added)]);
    this.sql.run`UPDATE erasure_clock SET number = number + ${rows.length} WHERE one = 1`;
  }

  /** The number of the last one that there ever was; 0 if there was none. */
  get newest(): number {
    return this.sql.number`SELECT number FROM erasure_clock WHERE one = 1`;
  }

  /** Those after a number. */
  after(number: number, limit: number): ErasureRow[] {
    return this.sql.all<ErasureRow>`
      SELECT number, gen, path, version, born, died, digest, size FROM erasures
      WHERE number > ${number} ORDER BY number LIMIT ${limit}`;
  }

  /**
   * Forgets what all of these have heard of: those that read the branch, and the one that writes to it. Returns whether that
   * was anything.
   */
  forget(hearers: readonly string[]): boolean {
    const all = JSON.stringify(hearers);
    this.sql.run`DELETE FROM erasures_heard WHERE uid NOT IN (SELECT value FROM json_each(${all}))`;
    return this.sql.run`
      DELETE FROM erasures WHERE number <= ifnull((
        SELECT min(ifnull(heard.number, 0)) FROM json_each(${all}) AS hearer
        LEFT JOIN erasures_heard AS heard ON heard.uid = hearer.value), ${Number.MAX_SAFE_INTEGER})`;
  }

  /** A pipeline has heard of all up to a number. */
  heard(uid: string, number: number): void {
    this.sql.run`
      INSERT INTO erasures_heard (uid, number) VALUES (${uid}, ${number})
      ON CONFLICT DO UPDATE SET number = max(number, excluded.number)`;
  }
}

interface Hearing {
  readonly subscribers: { all(): readonly Subscriber[] };
  readonly claim: { get(): Subscriber | null };
}

/** Those that are to hear of erasures: who reads the branch, and who writes to it. */
export function hearersOf({ subscribers, claim }: Hearing): readonly Subscriber[] {
  const owner = claim.get();
  return [...subscribers.all(), ...(owner ? [owner] : [])];
}

/** Forgets what all have heard of. Call this when one of them has heard more, or is one no more. */
export function forgetErasures(
  tx: Tx,
  ledger: Hearing & { readonly erasures: ErasureStore; oweRewrite(tx: Tx, now: number): void },
  now: number,
): void {
  const hearers = hearersOf(ledger).map(({ uid }) => uid);
  if (ledger.erasures.forget(hearers)) ledger.oweRewrite(tx, now);
}
