import { createHash, createHmac } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { familyOf, OTHER_FAMILY } from "../../protocol/family.ts";
import { HostError } from "../host-error.ts";
import { withDatabase } from "./database.ts";

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
 * Applies the `*.sql` files of a folder that the database has not seen, in the order of their names. Returns which.
 * Each is one transaction together with its entry in the books: a crash leaves it applied or not, never half.
 */
export async function applyMigrations(database: Database, folder: string): Promise<string[]> {
  await database.prepare(BOOKKEEPING).run();
  const { results } = await database.prepare("SELECT name FROM d1_migrations").all<{ name: string }>();
  const applied = new Set(results.map(({ name }) => name));
  const pending = migrationsIn(folder).filter((file) => !applied.has(file));
  for (const file of pending) {
    await database.batch([
      database.prepare(statementsOf(readFileSync(join(folder, file), "utf8"))),
      database.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(file),
    ]);
  }
  return pending;
}

/**
 * Whether a database has all migrations of a folder, as its own file in the state of a runtime says, which must not be
 * running. False also if the file can't be read: applying them then says why. Throws a HostError if it is damaged, which
 * the runtime would not name.
 */
export function isMigrated({
  stateDir,
  database,
  folder,
}: {
  stateDir: string;
  database: string;
  folder: string;
}): boolean {
  const file = join(stateDir, "d1", D1_OBJECTS, `${objectId(D1_OBJECTS, database)}.sqlite`);
  try {
    const names = withDatabase(file, { readOnly: true }, (books) =>
      books.prepare("SELECT name FROM d1_migrations").all(),
    );
    const applied = new Set(names.map(({ name }) => name));
    return migrationsIn(folder).every((migration) => applied.has(migration));
  } catch (error) {
    if (isDamage(error)) {
      throw new HostError(
        `the catalogue is damaged: ${file}: ${error.message}; move ${join(stateDir, "d1")} away and start again, then 'sluice admin rebuild' makes all of it again but the access keys, which 'sluice key import' brings back`,
      );
    }
    return false;
  }
}

/** Whether SQLite says that a file is none of its own, or no good one: SQLITE_CORRUPT, SQLITE_NOTADB. */
function isDamage(error: unknown): error is Error {
  if (!(error instanceof Error && "errcode" in error && typeof error.errcode === "number")) return false;
  return [11, 26].includes(error.errcode & 0xff);
}

function migrationsIn(folder: string): string[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith(".sql"))
    .sort();
}

/** Miniflare's class of the objects that are its D1 databases. */
export const D1_OBJECTS = "miniflare-D1DatabaseObject";

/** The id that workerd gives to the object of a name. */
function objectId(uniqueKey: string, name: string): string {
  const key = createHash("sha256").update(uniqueKey).digest();
  const half = (of: string | Buffer): Buffer => createHmac("sha256", key).update(of).digest().subarray(0, 16);
  const ofName = half(name);
  return Buffer.concat([ofName, half(ofName)]).toString("hex");
}

// D1 takes any number of statements in one, but stumbles over a comment after the last of them.
function statementsOf(sql: string): string {
  return sql.replace(/;(\s*--[^\n]*)+\s*$/, ";");
}

/**
 * Throws a HostError if databases in the state of a runtime, which must not be running, have tables of another family. D1 is
 * looked at, and one object of each class, since all of a folder were written by the same code; if D1 was moved away, the objects
 * tell. Writes to none of them. One that can't be read is left to whoever opens it next, who says why.
 */
export function refuseOtherFamily(stateDir: string, folders: readonly string[]): void {
  for (const folder of folders.map((name) => join(stateDir, name)).filter((name) => existsSync(name))) {
    // Miniflare's own notes are beside the objects. One that was only asked for has no tables.
    const files = readdirSync(folder).filter(
      (name) => name.endsWith(".sqlite") && name !== "metadata.sqlite",
    );
    for (const file of files) {
      const family = familyIn(join(folder, file));
      if (family === "other") throw new HostError(`${stateDir}: ${OTHER_FAMILY}`);
      if (family === "ours") break;
    }
  }
}

function familyIn(file: string): ReturnType<typeof familyOf> {
  try {
    return withDatabase(file, { readOnly: true }, (database) => {
      const names = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
      const word = () => String(database.prepare("SELECT word FROM family").get()?.word);
      return familyOf(
        names.map(({ name }) => String(name)),
        word,
      );
    });
  } catch {
    return "none";
  }
}
