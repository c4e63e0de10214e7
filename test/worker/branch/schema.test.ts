import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { MIGRATIONS, migrate } from "../../../worker/branch/schema.ts";
import { Sql } from "../../../worker/branch/sql.ts";
import { branchOf, freshBranch, freshBucket, listed, put } from "./support.ts";

/** Rows that an object of each earlier version may hold, by version: one entry more with each migration. */
const ROWS: readonly (readonly string[])[] = [
  [
    "INSERT INTO generations (gen, uid, created_at) VALUES (1, 'uid', 5)",
    "INSERT INTO commits (gen, seq, id, kind, created_at, births, deaths) VALUES (1, 1, 'c', 0, 6, 1, 0)",
    `INSERT INTO files (gen, path, born, kind, digest, size) VALUES (1, 'a', 1, 0, zeroblob(32), 3)`,
    "INSERT INTO address (one, bucket) VALUES (1, 'x.y')",
  ],
];

describe("migrations", () => {
  test("each version that ever was has rows to migrate from", () => {
    expect(ROWS).toHaveLength(MIGRATIONS.length);
  });

  test.each(
    ROWS.map((rows, index) => ({ version: index + 1, rows })),
  )("an object of version $version with rows comes to the newest version and works", async ({
    version,
    rows,
  }) => {
    const branch = branchOf(freshBucket());
    await runInDurableObject(branch, (_, { storage }) => {
      const sql = new Sql(storage.sql);
      storage.transactionSync(() => migrate(sql, MIGRATIONS.slice(0, version)));
      for (const row of rows) storage.sql.exec(row);
    });
    expect(await branch.status()).toEqual({
      ok: true,
      uid: "uid",
      createdAt: 5,
      modifiedAt: 6,
      head: "c",
      writer: null,
    });
    await put(branch, "b");
    expect(await listed(branch)).toEqual(["a", "b"]);
  });

  test("a later migration is applied once, to what is there", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    await runInDurableObject(branch, (_, { storage }) => {
      const sql = new Sql(storage.sql);
      const longer = [...MIGRATIONS, "ALTER TABLE files ADD COLUMN later INTEGER"];
      for (let times = 0; times < 2; times++) storage.transactionSync(() => migrate(sql, longer));
      expect(storage.sql.exec("SELECT path, later FROM files").toArray()).toEqual([
        { path: "a", later: null },
      ]);
    });
  });
});
