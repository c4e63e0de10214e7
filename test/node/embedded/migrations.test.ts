import { cpSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Miniflare } from "miniflare";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { applyMigrations, type Database, isMigrated } from "../../../embedded/data/migrations.ts";
import { startRuntime } from "../../../embedded/workerd/runtime.ts";
import { workerdEnvironment } from "../../../embedded/workerd/workerd.ts";
import { ROOT, scratchHome } from "../../support/dev-server.ts";
import { mustRun } from "../../support/processes.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

const MIGRATIONS = join(ROOT, "migrations");
// The one of wrangler.toml.
const DATABASE_ID = "00000000-0000-0000-0000-000000000000";
const log = { debug() {}, info() {}, warn() {}, error() {} };

let runtime: Miniflare | undefined;

async function openDatabase(stateDir: string): Promise<Database> {
  runtime = await startRuntime({
    code: "export default {};",
    stateDir,
    workerdEnv: workerdEnvironment(scratchFolder()),
    compatibilityDate: "2026-10-20",
    compatibilityFlags: [],
    bindings: { DB: { type: "d1", id: DATABASE_ID } },
    objectClasses: [],
    log,
  });
  return runtime.getD1Database("DB");
}

async function names(database: Database, type: "table"): Promise<string[]> {
  const { results } = await database
    .prepare("SELECT name FROM sqlite_master WHERE type = ? ORDER BY name")
    .bind(type)
    .all<{ name: string }>();
  return results.map(({ name }) => name);
}

afterEach(async () => {
  await runtime?.dispose();
  runtime = undefined;
});

describe("migrations", () => {
  let database: Database;
  let folder: string;

  beforeEach(async () => {
    database = await openDatabase(scratchFolder());
    folder = scratchFolder();
    cpSync(MIGRATIONS, folder, { recursive: true });
  });

  test("are applied once, in the order of their names", async () => {
    const applied = await applyMigrations(database, folder);
    expect(applied).toEqual([...applied].sort());
    expect(applied).toContain("0001_version_1.sql");
    expect(await names(database, "table")).toContain("branches");
    expect(await applyMigrations(database, folder)).toEqual([]);
  });

  test("that are new are applied alone", async () => {
    await applyMigrations(database, folder);
    writeFileSync(join(folder, "9001_more.sql"), "CREATE TABLE more (id INTEGER); -- and no more\n");
    expect(await applyMigrations(database, folder)).toEqual(["9001_more.sql"]);
    expect(await names(database, "table")).toContain("more");
  });

  test("that fail in the middle leave nothing, and can be applied when they are mended", async () => {
    const file = join(folder, "9001_broken.sql");
    writeFileSync(file, "CREATE TABLE half (id INTEGER);\nCREATE TABLE half (id INTEGER);\n");
    const failure = await applyMigrations(database, folder).catch((error: unknown) => error);
    expect(String(failure)).toContain("half");
    expect(await names(database, "table")).not.toContain("half");
    writeFileSync(file, "CREATE TABLE half (id INTEGER);\nCREATE TABLE whole (id INTEGER);\n");
    expect(await applyMigrations(database, folder)).toEqual(["9001_broken.sql"]);
  });
});

describe("the file of a database", () => {
  test("tells whether migrations are missing, once the runtime has ended", async () => {
    const stateDir = scratchFolder();
    const folder = scratchFolder();
    cpSync(MIGRATIONS, folder, { recursive: true });
    const asked = { stateDir, database: DATABASE_ID, folder };
    expect(isMigrated(asked)).toBe(false);
    const database = await openDatabase(stateDir);
    await database.prepare("SELECT 1").run();
    await runtime?.dispose();
    expect(isMigrated(asked)).toBe(false);
    await applyMigrations(await openDatabase(stateDir), folder);
    await runtime?.dispose();
    expect(isMigrated(asked)).toBe(true);
    expect(isMigrated({ ...asked, database: "another" })).toBe(false);
    writeFileSync(join(folder, "9001_more.sql"), "CREATE TABLE more (id INTEGER);");
    expect(isMigrated(asked)).toBe(false);
  });

  test("that is damaged is named, with what to do", async () => {
    const stateDir = scratchFolder();
    await applyMigrations(await openDatabase(stateDir), MIGRATIONS);
    await runtime?.dispose();
    const asked = { stateDir, database: DATABASE_ID, folder: MIGRATIONS };
    expect(isMigrated(asked)).toBe(true);
    const folder = join(stateDir, "d1/miniflare-D1DatabaseObject");
    for (const file of readdirSync(folder)) writeFileSync(join(folder, file), "damaged");
    expect(() => isMigrated(asked)).toThrow(
      /the catalogue is damaged: \S+\.sqlite: file is not a database; move \S+\/d1 away and start again, then 'sluice admin rebuild'/,
    );
  });
});

describe("the books of migrations", () => {
  function wrangler(persistTo: string): Promise<string> {
    const apply = ["d1", "migrations", "apply", "DB", "--local", "--persist-to", persistTo];
    return mustRun([join(ROOT, "node_modules/.bin/wrangler"), ...apply], {
      cwd: ROOT,
      env: { HOME: scratchHome, CI: "1", WRANGLER_SEND_METRICS: "false", WRANGLER_HIDE_BANNER: "true" },
    });
  }

  test("that wrangler kept are understood here", REST, async () => {
    const persistTo = scratchFolder();
    await wrangler(persistTo);
    const database = await openDatabase(join(persistTo, "v3"));
    expect(await applyMigrations(database, MIGRATIONS)).toEqual([]);
  });

  test("that are kept here are understood by wrangler", REST, async () => {
    const persistTo = scratchFolder();
    await applyMigrations(await openDatabase(join(persistTo, "v3")), MIGRATIONS);
    await runtime?.dispose();
    expect(await wrangler(persistTo)).toContain("No migrations to apply");
  });
});
