import type { Sql } from "./sql.ts";
import type { Tx } from "./transaction.ts";

/**
 * Rows that are deleted stay in free pages of the database's file, where a tool that reads the file finds them. What is
 * erased must not stay there. An object can't write its file anew, so it writes down, with the deletion, that it *owes* that:
 * one row of the table `rewrite`. The host pays while workerd does not run (embedded/scrub/). On Cloudflare nobody does.
 *
 * Whatever removes the last row that names something erased owes anew, since the host may have paid in between. Rows that
 * only live for a day or two, such as those of finished open commits, completed uploads and scans of lifecycle rules, may
 * name it as well. For them the debt stands for `REMEMBERED_MS`: the host pays at once, and once more after that.
 */

/** Longer than any row lives that is forgotten by itself; milliseconds. */
const REMEMBERED_MS = 48 * 60 * 60 * 1000;

/** Writes down that the database is to be written anew. To be called in the transaction that removes something erased. */
export function oweRewrite(_: Tx, sql: Sql, now: number): void {
  const until = now + REMEMBERED_MS;
  sql.run`
    INSERT INTO rewrite (one, until, paid) VALUES (1, ${until}, 0)
    ON CONFLICT DO UPDATE SET until = max(until, excluded.until), paid = 0`;
}

/** Rows went that may have been of something erased: if a debt stands that was paid, it is to be paid again. */
export function renewRewrite(sql: Sql): void {
  sql.run`UPDATE rewrite SET paid = 0 WHERE paid = 1`;
}
