import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { MIGRATIONS } from "../../../worker/branch/ledger/migrations.ts";
import { migrate } from "../../../worker/objects/migrations.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { transaction } from "../objects/transaction.ts";
import { branchOf, freshBranch, freshBucket, listed, put } from "./support.ts";

/** Rows that an object of each earlier version may hold, by version: one entry more with each migration. */
const ROWS: readonly (readonly string[])[] = [
  [
    "INSERT INTO generations (gen, uid, created_at) VALUES (1, 'uid', 5)",
    "INSERT INTO commits (gen, seq, id, kind, created_at, births, deaths) VALUES (1, 1, 'c', 0, 6, 1, 0)",
    `INSERT INTO files (gen, path, born, kind, digest, size) VALUES (1, 'a', 1, 0, zeroblob(32), 3)`,
    "INSERT INTO contents (digest, size, gen, refs, kind, body) VALUES (zeroblob(32), 3, 1, 2, 0, x'010203')",
    "INSERT INTO uploads (id, gen, due) VALUES ('x.y.u', 1, 7)",
    "INSERT INTO holds (upload, digest, size) VALUES ('x.y.u', zeroblob(32), 3)",
    "INSERT INTO condemned (blob, due) VALUES ('b', 8)",
    "INSERT INTO address (one, bucket) VALUES (1, 'x.y')",
  ],
  [
    "INSERT INTO uploads (id, gen, due, ttl, multipart) VALUES ('x.y.m', 1, 9, 9, 1)",
    "INSERT INTO multiparts (upload, gen, path, initiated_at) VALUES ('x.y.m', 1, 'big', 5)",
    "INSERT INTO parts (upload, number, digest, size, modified_at) VALUES ('x.y.m', 1, zeroblob(32), 3, 5)",
    "INSERT INTO holds (upload, digest, size) VALUES ('x.y.m', zeroblob(32), 3)",
  ],
  [
    "INSERT INTO sessions (number, id, gen, state, opened_at, written_at, ttl, due, operations) VALUES (1, 's', 1, 0, 5, 5, 9, 9, 1)",
    "INSERT INTO staged (session, gone, path) VALUES (1, 1, 'a')",
  ],
  ["INSERT INTO staged (session, gone, path, judged) VALUES (1, 1, 'b', 0)"],
  ["UPDATE contents SET named = 0, life = 7"],
  [`INSERT INTO lineages (gen, seq, lineage) VALUES (1, 1, '{"u":1}')`],
  ["INSERT INTO authors (number, key_id) VALUES (1, 'k')", "UPDATE commits SET author = 1"],
  [
    "INSERT INTO tags (gen, name, commit_id, created_at) VALUES (1, 'v1', 'c', 7)",
    "INSERT INTO tag_news (name, version) VALUES ('v1', 1)",
    "UPDATE tag_clock SET version = 1",
  ],
  ["INSERT INTO uploads (id, gen, lease, due, lost) VALUES ('x.y.l', 1, 'l', 9, 1)"],
  ["INSERT INTO settings (gen, revision, public, cors) VALUES (1, 1, 1, NULL)"],
  ["UPDATE settings SET writer = NULL"],
  [
    "INSERT INTO forks (uid, gen, parent, commit_id, state, created_at, copied, files, total) VALUES ('uid', 1, 'm.p', 'c', 2, 5, 'a', 1, 1)",
    "INSERT INTO roots (fork, bucket, gen, seq, made_at) VALUES ('f', 'm.f', 1, 1, 5)",
  ],
  [
    "UPDATE settings SET lifecycle = NULL",
    "UPDATE files SET renewed = 7",
    "INSERT INTO rounds (gen, rule, action, due) VALUES (1, 'r', 0, 9)",
  ],
  [
    `UPDATE settings SET keep = '{"commits":5}'`,
    "INSERT INTO horizons (gen, floor, marked, died_from, died_path, alive_path) VALUES (1, 1, 1, 2, '', '')",
    "INSERT INTO starts (uid, commit_id, gen, seq, holds) VALUES ('u', 'c', 1, 1, 1)",
    "UPDATE sessions SET base = 1",
  ],
  [
    "INSERT INTO sweeps (uid, due, removes, phase, folder, listed, content, doomed, pages, seen, found, found_bytes) VALUES ('uid', 9e15, 1, 0, 0, '', 0, '', 0, 0, 0, 0)",
    "INSERT INTO orphans (blob) VALUES ('b')",
  ],
  ["UPDATE settings SET last_modified = 'file'"],
  [
    "UPDATE files SET unmarked = NULL",
    "INSERT INTO erasures (number, gen, path, version, born, died, digest, size) VALUES (1, 1, 'e', 1, 1, 2, 'd', 3)",
    "INSERT INTO erasures_heard (uid, number) VALUES ('u', 0)",
    "UPDATE erasure_clock SET number = 1",
  ],
  [
    "INSERT INTO exports (id, gen, seq, due) VALUES ('e', 1, 1, 9)",
    `INSERT INTO imports (uid, gen, archive, state, upload, created_at, head, floor, settings, seq, tag, path, born, commits, tags, files)
     VALUES ('i', 1000001, 'a', 2, 'x.y.i', 5, 1, 0, '{}', 1, '', '', 0, 1, 0, 0)`,
  ],
  ["INSERT INTO ended (upload, gen) VALUES ('x.y.e', 1)"],
  ["UPDATE condemned SET tries = 3"],
  ["UPDATE generations SET parent = NULL"],
  ["UPDATE starts SET stopped = 1, pipeline = 'p'"],
  ["UPDATE sweeps SET tries = 2"],
  ["INSERT INTO untagged (gen, seq, due, name) VALUES (1, 1, 5, 'v1')"],
  ["INSERT INTO rewrite (one) VALUES (1)"],
  [
    "INSERT INTO give_backs (gen, number, digest, size) VALUES (1, 1, zeroblob(32), 3)",
    "UPDATE give_back_clock SET number = 1",
    "UPDATE roots SET given = 1",
  ],
  ["UPDATE imports SET made_at = 6, made_by = 'k'"],
  ["UPDATE rewrite SET until = 7, paid = 1"],
  ["INSERT INTO erased_contents (content) VALUES ('d-3')"],
  ["INSERT INTO pin_asks (fork, due, wait) VALUES ('f', 9e15, 1)"],
  ["UPDATE settings SET empty_only = 1"],
  ["UPDATE files SET bytes_at = 5", "UPDATE staged SET bytes_at = NULL", "UPDATE rounds SET retagged = 1"],
];

describe("migrations", () => {
  test("each version that ever was has rows to migrate from", () => {
    expect(ROWS).toHaveLength(MIGRATIONS.length);
  });

  test.each(
    ROWS.map((_, index) => ({ version: index + 1 })),
  )("an object of version $version with rows comes to the newest version and works", async ({ version }) => {
    const branch = branchOf(freshBucket());
    await runInDurableObject(branch, (_, { storage }) => {
      const sql = new Sql(storage.sql);
      for (let at = 1; at <= version; at++) {
        transaction(storage, (tx) => migrate(tx, sql, MIGRATIONS.slice(0, at)));
        for (const row of ROWS[at - 1] ?? []) storage.sql.exec(row);
      }
    });
    expect(await branch.status()).toEqual({
      ok: true,
      uid: "uid",
      createdAt: 5,
      modifiedAt: 6,
      head: "c",
      claimedBy: null,
    });
    await put(branch, "b");
    expect(await listed(branch)).toEqual(["a", "b"]);
    expect(await branch.read({ path: "a" })).toMatchObject({
      size: 3,
      commit: "c",
      modifiedAt: expect.any(Number),
    });
    expect(await branch.renewUpload({ upload: "x.y.u" })).toMatchObject({ ok: true });
    await branch.abortUpload({ upload: "x.y.u" });
    await branch.abortUpload({ upload: "x.y.m" });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      expect(sql.exec("SELECT count(*) AS n FROM holds").one()).toEqual({ n: 0 });
      expect(sql.exec("SELECT blob FROM condemned").toArray()).toEqual([{ blob: "b" }]);
    });
  });

  test("a later migration is applied once, to what is there", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    await runInDurableObject(branch, (_, { storage }) => {
      const sql = new Sql(storage.sql);
      const longer = [...MIGRATIONS, "ALTER TABLE files ADD COLUMN later INTEGER"];
      for (let times = 0; times < 2; times++) transaction(storage, (tx) => migrate(tx, sql, longer));
      expect(storage.sql.exec("SELECT path, later FROM files").toArray()).toEqual([
        { path: "a", later: null },
      ]);
    });
  });
});
