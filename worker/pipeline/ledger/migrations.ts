import type { Sql } from "./sql.ts";
import { SCHEMA_V1 } from "./v1.ts";
import { SCHEMA_V2 } from "./v2.ts";
import { SCHEMA_V3 } from "./v3.ts";
import { SCHEMA_V4 } from "./v4.ts";
import { SCHEMA_V5 } from "./v5.ts";

/**
 * The tables of a Pipeline object. `born`, `died` and `job` are numbers of its own jobs: something is there at job n
 * when `born <= n` and it has not died or `died > n`. Append only: an entry is never edited once it was released.
 */
export const MIGRATIONS: readonly string[] = [SCHEMA_V1, SCHEMA_V2, SCHEMA_V3, SCHEMA_V4, SCHEMA_V5];

/** Whether the object was ever created: probing a name must leave no trace. */
export function hasTables(sql: Sql): boolean {
  return (
    sql.first`SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'` !== undefined
  );
}

/** Brings the tables to the newest form. To be called in a transaction. */
export function migrate(sql: Sql, migrations: readonly string[] = MIGRATIONS): void {
  sql.script("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)");
  const row = sql.first<{ version: number }>`SELECT version FROM schema_version`;
  if (!row) sql.run`INSERT INTO schema_version (version) VALUES (0)`;
  for (const migration of migrations.slice(row?.version ?? 0)) sql.script(migration);
  sql.run`UPDATE schema_version SET version = ${migrations.length}`;
}
