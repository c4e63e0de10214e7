import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { expect, test } from "vitest";
import { Sql } from "../../worker/objects/sql.ts";

test("a statement is compiled once, also if its limit is a parameter", () => {
  const { sql, compiled } = counted();
  sql.script("CREATE TABLE things (n INTEGER PRIMARY KEY)");
  sql.run`INSERT INTO things (n) VALUES (1), (2), (3)`;
  const first = (limit: number) => sql.all<{ n: number }>`SELECT n FROM things ORDER BY n LIMIT ${limit}`;
  const last = (limit: number) =>
    sql.query<{ n: number }>("SELECT n FROM (SELECT n FROM things ORDER BY n DESC LIMIT ?1) LIMIT ?1", [
      limit,
    ]);
  expect([first(2), last(1)]).toEqual([[{ n: 1 }, { n: 2 }], [{ n: 3 }]]);
  const before = compiled();
  expect([first(1), first(3).length, last(2).length, last(0), first(-1).length]).toEqual([
    [{ n: 1 }],
    ...[3, 2, [], 3],
  ]);
  expect(compiled()).toBe(before);
});

/** A database that keeps its statements by their text, as the platform does, and counts what SQLite asks while it compiles. */
function counted(): { readonly sql: Sql; readonly compiled: () => number } {
  const database = new DatabaseSync(":memory:");
  let asked = 0;
  database.setAuthorizer(() => {
    asked++;
    return 0;
  });
  const statements = new Map<string, StatementSync>();
  const exec = (text: string, ...values: SQLInputValue[]) => {
    const statement = statements.get(text) ?? database.prepare(text);
    statements.set(text, statement);
    const rows = statement.all(...values).map((row) => ({ ...row }));
    return { toArray: () => rows, rowsWritten: 0 };
  };
  return { sql: new Sql({ exec } as unknown as ConstructorParameters<typeof Sql>[0]), compiled: () => asked };
}
