import type { Tx } from "../../objects/transaction.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { lowestMark } from "../retention/horizon.ts";

/** Most rows that one slice removes: what a transaction of some milliseconds takes. */
const ROWS = 1000;

/** Of (?1 gen, ?2 seq): whether anything told the feed of erasures at this commit or before. */
const HAS = `
  SELECT EXISTS (SELECT 1 FROM files INDEXED BY files_news WHERE version = 0 AND gen = ?1 AND born <= ?2) AS has`;

/** Also of (?3 limit): removes it. */
const FORGET = `
  DELETE FROM files WHERE gen = ?1 AND (path, born) IN (
    SELECT path, born FROM files INDEXED BY files_news
    WHERE version = 0 AND gen = ?1 AND born <= ?2 ORDER BY born LIMIT ?3)`;

type NewsStores = Pick<Ledger, "sql" | "subscribers">;
type ForgetsNews = NewsStores & Pick<Ledger, "oweRewrite">;

/** The commit of a generation up to which every subscriber has read: news of it and of those before are for nobody. */
export function readTo({ subscribers }: Pick<Ledger, "subscribers">, gen: number): number {
  return Math.min(lowestMark(subscribers.marks(), gen), Number.MAX_SAFE_INTEGER);
}

/**
 * Forgets some of what told the feed of erasures, as far as every subscriber has read: so that the name of what was erased
 * does not stay either. What is left is for another slice.
 */
export function forgetNews(tx: Tx, ledger: ForgetsNews, now: number): void {
  for (const gen of gensWithNews(ledger)) {
    const { rowsWritten } = ledger.sql.execute(FORGET, [gen, readTo(ledger, gen), ROWS]);
    if (rowsWritten > 0) ledger.oweRewrite(tx, now);
  }
}

/** Whether there is something that `forgetNews` would forget. */
export function hasOldNews(ledger: NewsStores): boolean {
  return gensWithNews(ledger).some((gen) => {
    const [row] = ledger.sql.query<{ has: 0 | 1 }>(HAS, [gen, readTo(ledger, gen)]);
    return row?.has === 1;
  });
}

/** The generations that have news: few ever do. */
function gensWithNews({ sql }: Pick<Ledger, "sql">): number[] {
  const gens: number[] = [];
  for (let last = 0; ; ) {
    const next = sql.first<{ gen: number }>`
      SELECT gen FROM files INDEXED BY files_news WHERE version = 0 AND gen > ${last} ORDER BY gen LIMIT 1`;
    if (!next) return gens;
    gens.push(next.gen);
    last = next.gen;
  }
}
