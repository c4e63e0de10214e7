import { FAMILY, familyOf, OTHER_FAMILY } from "../../protocol/family.ts";
import type { Sql } from "./sql.ts";
import type { Tx } from "./transaction.ts";

/**
 * Whether the object was ever written to: probing a name must leave no trace. Throws if its tables are of another family, before
 * anything is written.
 */
export function hasTables(sql: Sql): boolean {
  const tables = sql.all<{ name: string }>`SELECT name FROM sqlite_master WHERE type = 'table'`;
  const family = familyOf(
    tables.map(({ name }) => name),
    () => sql.first<{ word: string }>`SELECT word FROM family`?.word,
  );
  if (family === "other") throw new Error(OTHER_FAMILY);
  return family === "ours";
}

/**
 * Brings the tables to the form that all of `migrations` make. The list is append-only: an entry is never edited once
 * it was released, since objects remember how many of them they have been through.
 *
 * That number never goes down. After a rollback the release before runs on tables that know more migrations than it
 * does: it leaves them and the number as they are. Otherwise the newer release would make its tables a second time when
 * it comes back, which fails for ever.
 */
export function migrate(_: Tx, sql: Sql, migrations: readonly string[]): void {
  sql.script(
    "CREATE TABLE IF NOT EXISTS family (one INTEGER PRIMARY KEY CHECK (one = 1), word TEXT NOT NULL, migrations INTEGER NOT NULL)",
  );
  const been = sql.first<{ migrations: number }>`SELECT migrations FROM family`?.migrations ?? 0;
  if (been >= migrations.length) return;
  for (const migration of migrations.slice(been)) sql.script(migration);
  sql.run`INSERT OR REPLACE INTO family (one, word, migrations) VALUES (1, ${FAMILY}, ${migrations.length})`;
}
