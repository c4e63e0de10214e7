import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** What migrating needs of D1. */
export interface Database {
  prepare(sql: string): Statement;
  batch(statements: Statement[]): Promise<unknown>;
}
interface Statement {
  bind(...values: unknown[]): Statement;
  run(): Promise<unknown>;
  all<Row>(): Promise<{ results: Row[] }>;
}

// The table and its shape are those of `wrangler d1 migrations apply`, so that both see what the other did.
const BOOKKEEPING = `CREATE TABLE IF NOT EXISTS d1_migrations (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT UNIQUE,
  applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
)`;

/**
 * Applies the `*.sql` files of a folder that the database has not seen, in the order of their names; answers which.
 * Each is one transaction together with its entry in the books: a crash leaves it applied or not, never half.
 */
export async function applyMigrations(database: Database, folder: string): Promise<string[]> {
  await database.prepare(BOOKKEEPING).run();
  const { results } = await database.prepare("SELECT name FROM d1_migrations").all<{ name: string }>();
  const applied = new Set(results.map(({ name }) => name));
  const pending = readdirSync(folder)
    .filter((file) => file.endsWith(".sql") && !applied.has(file))
    .sort();
  for (const file of pending) {
    await database.batch([
      database.prepare(statementsOf(readFileSync(join(folder, file), "utf8"))),
      database.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(file),
    ]);
  }
  return pending;
}

// D1 takes any number of statements in one, but stumbles over a comment after the last of them.
function statementsOf(sql: string): string {
  return sql.replace(/;(\s*--[^\n]*)+\s*$/, ";");
}
