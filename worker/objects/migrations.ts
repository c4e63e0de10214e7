import type { Sql } from "./sql.ts";
import type { Tx } from "./transaction.ts";

/** Whether the object was ever written to: probing a name must leave no trace. */
export function hasTables(sql: Sql): boolean {
  return sql.has`SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'`;
}

/**
 * Brings the tables to the form that all of `migrations` make. The list is append-only: an entry is never edited once
 * it was released, since objects remember how many of them they have been through.
 *
 * That number never goes down. After a rollback the release before runs on tables that know more migrations than it
 * does: it leaves them and the number as they are. Otherwise the newer release would make its tables a second time when
 * it comes back, which fails for ever. Releases before that rule write their own, lower number into `schema_version`, so
 * the number that counts is kept where they do not look.
 */
export function migrate(_: Tx, sql: Sql, migrations: readonly string[]): void {
  // Older pipelines have this table without the column `one`.
  sql.script("CREATE TABLE IF NOT EXISTS schema_version (one INTEGER PRIMARY KEY, version INTEGER NOT NULL)");
  sql.script(
    "CREATE TABLE IF NOT EXISTS schema_reached (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL)",
  );
  const version = sql.first<{ version: number }>`SELECT version FROM schema_version`?.version;
  const reached = sql.first<{ version: number }>`SELECT version FROM schema_reached`?.version;
  const been = Math.max(version ?? 0, reached ?? 0);
  const now = Math.max(been, migrations.length);
  for (const migration of migrations.slice(been)) sql.script(migration);
  if (version === undefined) sql.run`INSERT INTO schema_version (version) VALUES (${now})`;
  else if (version !== now) sql.run`UPDATE schema_version SET version = ${now}`;
  if (reached !== now) sql.run`INSERT OR REPLACE INTO schema_reached (one, version) VALUES (1, ${now})`;
}
