import { expect, test } from "vitest";
import { type Database, Databases } from "./platform/database.ts";

const FIRST = "CREATE TABLE family (word TEXT)";
const SECOND = `
  CREATE TABLE clock (number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER);
  INSERT INTO clock (at) VALUES (5);
  CREATE INDEX by_at ON clock (at)`;

function makeTables(database: Database): void {
  database.begin();
  database.script(FIRST);
  database.script(SECOND);
  database.commit();
}

/** One that somebody filled and gave back. */
function usedBefore(databases: Databases): Database {
  const database = databases.take();
  makeTables(database);
  database.run("INSERT INTO family VALUES (?)", ["old".repeat(10_000)]);
  database.run("INSERT INTO clock (at) VALUES (6), (7)", []);
  databases.giveBack(database);
  const again = databases.take();
  expect(again).toBe(database);
  return again;
}

const CLOCK = "SELECT number, at FROM clock";
const rowsOf = (database: Database, text: string) => database.run(text, []).rows.map((row) => ({ ...row }));

test("a database that somebody had before has no tables, until they are made as before: then they are as new ones", () => {
  const fresh = new Databases().take();
  const used = usedBefore(new Databases());
  expect(used.bytes).toBe(fresh.bytes);
  for (const database of [fresh, used]) {
    expect(rowsOf(database, "SELECT name FROM sqlite_master")).toEqual([]);
    expect(database.has("clock")).toBe(false);
  }
  for (const database of [fresh, used]) {
    makeTables(database);
    expect(database.has("clock")).toBe(true);
    expect(rowsOf(database, "SELECT * FROM family")).toEqual([]);
    database.run("INSERT INTO clock (at) VALUES (9)", []);
    expect(rowsOf(database, CLOCK)).toEqual([
      { number: 1, at: 5 },
      { number: 2, at: 9 },
    ]);
  }
  expect(used.bytes).toBe(fresh.bytes);
  expect(rowsOf(used, "SELECT name FROM sqlite_master")).toEqual(
    rowsOf(fresh, "SELECT name FROM sqlite_master"),
  );
});

test("a table that is not made yet can't be asked, also if somebody made it before", () => {
  for (const isInTransaction of [false, true]) {
    const used = usedBefore(new Databases());
    if (isInTransaction) used.begin();
    expect(() => used.run(CLOCK, [])).toThrow("no such table: clock");
    used.rollback();
    makeTables(used);
    expect(rowsOf(used, CLOCK)).toEqual([{ number: 1, at: 5 }]);
  }
});

test("tables whose making is undone are not there, and can be made again", () => {
  for (const database of [new Databases().take(), usedBefore(new Databases())]) {
    database.begin();
    database.save();
    database.script(FIRST);
    database.script(SECOND);
    expect(database.undo()).toBe(true);
    expect(database.has("clock")).toBe(false);
    database.script(FIRST);
    database.rollback();
    expect(database.has("family")).toBe(false);
    makeTables(database);
    expect(rowsOf(database, CLOCK)).toEqual([{ number: 1, at: 5 }]);
  }
});

test("other tables than before can be made, and nobody else gets that database", () => {
  const databases = new Databases();
  const used = usedBefore(databases);
  used.script("CREATE TABLE clock (other TEXT)");
  used.run("INSERT INTO clock VALUES ('noon')", []);
  expect(rowsOf(used, "SELECT * FROM clock")).toEqual([{ other: "noon" }]);
  databases.giveBack(used);
  expect(databases.take()).not.toBe(used);
});

test("a database to which a table was added later is had by nobody else", () => {
  const databases = new Databases();
  const database = databases.take();
  makeTables(database);
  database.script("CREATE TABLE later (a)");
  databases.giveBack(database);
  expect(databases.take()).not.toBe(database);
});

test("a look at rows answers what is there, whatever was written, undone or rolled back since the last look", () => {
  const database = new Databases().take();
  makeTables(database);
  const look = () => database.look("SELECT at FROM clock ORDER BY at", []).map(({ at }) => at);
  const first = database.look("SELECT at FROM clock ORDER BY at", []);
  database.run("INSERT INTO family VALUES ('new')", []);
  expect(database.look("SELECT at FROM clock ORDER BY at", [])).toBe(first);
  database.begin();
  database.run("INSERT INTO clock (at) VALUES (?)", [6]);
  expect(look()).toEqual([5, 6]);
  database.save();
  database.run("UPDATE clock SET at = at + 1", []);
  expect(look()).toEqual([6, 7]);
  database.undo();
  expect(look()).toEqual([5, 6]);
  database.rollback();
  expect(look()).toEqual([5]);
  database.run("DELETE FROM clock", []);
  expect(look()).toEqual([]);
  expect(database.look("SELECT at FROM clock WHERE at > ?", [1])).toEqual([]);
  database.run("INSERT INTO clock (at) SELECT 3", []);
  expect(database.look("SELECT at FROM clock WHERE at > ?", [1])).toHaveLength(1);
  expect(database.look("SELECT at FROM clock WHERE at > ?", [5])).toEqual([]);
});
