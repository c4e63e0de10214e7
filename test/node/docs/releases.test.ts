import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { MIGRATIONS as BRANCH } from "../../../worker/branch/ledger/migrations.ts";
import { MIGRATIONS as FLEET } from "../../../worker/fleet/migrations.ts";
import { MIGRATIONS as PIPELINE } from "../../../worker/pipeline/ledger/migrations.ts";
import { ROOT } from "../../support/dev-server.ts";

/** The first migration of each kind makes the tables; from the second on, there is a release before. */
const FIRST = { Branch: 1, Pipeline: 1, Fleet: 1, D1: 1 };

/**
 * What in a migration the release before could not live with: it goes on reading and writing the tables after a
 * rollback, by the names that it knows and without the columns that it does not.
 */
function faultsOf(migration: string): string[] {
  const statements = statementsIn(migration);
  const made = new Set(statements.flatMap((text) => /^CREATE TABLE (\w+)/i.exec(text)?.[1] ?? []));
  return statements.filter((text) => !isAdditive(text, made));
}

/** `made`: the tables of the same migration, which no earlier release knows. */
function isAdditive(statement: string, made: ReadonlySet<string>): boolean {
  if (/^DROP (TABLE|VIEW|TRIGGER)\b/i.test(statement)) return false;
  if (/^CREATE (TEMP |TEMPORARY )?TRIGGER\b/i.test(statement)) return false;
  // An earlier release writes rows that such an index would refuse.
  const [, indexed] = /^CREATE UNIQUE INDEX \w+ ON (\w+)/i.exec(statement) ?? [];
  if (indexed !== undefined) return made.has(indexed);
  const [, change] = /^ALTER TABLE \w+ (.*)$/is.exec(statement) ?? [];
  if (change === undefined) return true;
  if (!/^ADD\b/i.test(change)) return false;
  return /\bDEFAULT\b/i.test(change) || !/\b(NOT NULL|PRIMARY KEY|UNIQUE)\b/i.test(change);
}

/** Without comments, on one line each. */
function statementsIn(migration: string): string[] {
  return migration
    .replace(/--[^\n]*/g, "")
    .split(";")
    .map((text) => text.replace(/\s+/g, " ").trim())
    .filter((text) => text !== "");
}

function filesOf(folder: string): string[] {
  return readdirSync(join(ROOT, folder))
    .sort()
    .map((file) => readFileSync(join(ROOT, folder, file), "utf8"));
}

const KINDS = { Branch: BRANCH, Pipeline: PIPELINE, Fleet: FLEET, D1: filesOf("migrations") };

describe("a release that is rolled back", () => {
  test.each(
    Object.entries(FIRST),
  )("finds all that it knows in the tables of %s: migrations only add", (kind, before) => {
    const migrations = KINDS[kind as keyof typeof KINDS];
    expect(migrations.length).toBeGreaterThanOrEqual(before);
    expect(migrations.slice(before).flatMap(faultsOf)).toEqual([]);
  });

  test("finds every index that a statement names: none goes while a source file names it", () => {
    const dropped = Object.entries(KINDS).flatMap(([kind, migrations]) =>
      migrations
        .slice(FIRST[kind as keyof typeof KINDS])
        .flatMap(statementsIn)
        .flatMap((text) => /^DROP INDEX (?:IF EXISTS )?(\w+)/i.exec(text)?.[1] ?? []),
    );
    const sources = readdirSync(join(ROOT, "worker"), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .map((file) => readFileSync(join(ROOT, "worker", file), "utf8"));
    const named = dropped.filter((index) => sources.some((text) => text.includes(`INDEXED BY ${index}`)));
    expect(named).toEqual([]);
  });

  test.each([
    ["DROP TABLE files"],
    ["ALTER TABLE files DROP COLUMN size"],
    ["ALTER TABLE files RENAME TO old_files"],
    ["ALTER TABLE files RENAME COLUMN size TO bytes"],
    ["ALTER TABLE files ADD COLUMN owner TEXT NOT NULL"],
    ["-- why\n  alter table files\n  add owner TEXT not null;"],
    ["ALTER TABLE files ADD COLUMN owner TEXT UNIQUE"],
    ["CREATE UNIQUE INDEX one_a_path ON files (path)"],
    ["CREATE TRIGGER watch AFTER INSERT ON files BEGIN SELECT 1"],
  ])("could not live with %j", (statement) => {
    expect(faultsOf(statement)).toHaveLength(1);
  });

  test.each([
    ["CREATE TABLE owners (id TEXT PRIMARY KEY); CREATE UNIQUE INDEX owners_by_id ON owners (id);"],
    [
      "ALTER TABLE files ADD COLUMN owner TEXT; -- null: nobody's, which is NOT NULL\nCREATE INDEX o ON files (owner)",
    ],
    ["ALTER TABLE files ADD COLUMN owner TEXT NOT NULL DEFAULT ''"],
    ["DROP INDEX files_by_age"],
  ])("lives with %j", (statement) => {
    expect(faultsOf(statement)).toEqual([]);
  });
});
