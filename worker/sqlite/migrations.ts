import type { Sql } from "./sql.ts";
import type { Tx } from "./transaction.ts";

/** Whether the object was ever written to: probing a name must leave no trace. */
export function hasTables(sql: Sql): boolean {
  return sql.has`SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'`;
}

/**
 * Brings the tables to the form that all of `migrations` make. The list is append-only: an entry is never edited once
 * it was released, since objects remember how many of them they have been through.
 */
export function migrate(_: Tx, sql: Sql, migrations: readonly string[]): void {
  // Older pipelines have this table without the column `one`.
  sql.script("CREATE TABLE IF NOT EXISTS schema_version (one INTEGER PRIMARY KEY, version INTEGER NOT NULL)");
  const version = sql.first<{ version: number }>`SELECT version FROM schema_version`?.version;
  if (version === migrations.length) return;
  for (const migration of migrations.slice(version ?? 0)) sql.script(migration);
  if (version === undefined) sql.run`INSERT INTO schema_version (version) VALUES (${migrations.length})`;
  else sql.run`UPDATE schema_version SET version = ${migrations.length}`;
}
