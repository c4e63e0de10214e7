import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { openKeptLog, readKeptLog } from "../../../embedded/data/kept-log.ts";
import type { RewriteStep } from "../../../embedded/scrub/rewrite.ts";
import { type ScrubOptions, scrub } from "../../../embedded/scrub/scrub.ts";
import { foundIn } from "../../support/found-in.ts";
import { scratchFolder } from "../../support/scratch.ts";

const NOW = 1_800_000_000_000;
const SECRET = "what-nobody-may-find";

/** A folder of state with the database of one object, which owes a rewrite, and the catalogue. */
function state({ until = NOW + 1000, paid = 0 } = {}): { stateDir: string; file: string; catalogue: string } {
  const stateDir = join(scratchFolder(), "state");
  const file = join(stateDir, "do", "sluice-Branch", `${"a".repeat(64)}.sqlite`);
  const catalogue = join(stateDir, "d1", "miniflare-D1DatabaseObject", `${"b".repeat(64)}.sqlite`);
  for (const path of [file, catalogue]) mkdirSync(dirname(path), { recursive: true });
  withDatabase(file, (database) => {
    fill(database);
    database.prepare("INSERT INTO rewrite (one, until, paid) VALUES (1, ?, ?)").run(until, paid);
  });
  withDatabase(catalogue, fill);
  writeFileSync(join(dirname(file), "metadata.sqlite"), "the runtime's own");
  return { stateDir, file, catalogue };
}

/** Tables of each kind, with what was deleted from them. */
function fill(database: DatabaseSync): void {
  database.exec(`
    PRAGMA page_size = 8192;
    PRAGMA journal_mode = WAL;
    PRAGMA user_version = 7;
    PRAGMA application_id = 9;
    CREATE TABLE rewrite (one INTEGER PRIMARY KEY CHECK (one = 1), until INTEGER NOT NULL, paid INTEGER NOT NULL);
    CREATE TABLE _cf_METADATA (key INTEGER PRIMARY KEY, value BLOB);
    CREATE TABLE _cf_KV (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
    CREATE TABLE contents (digest BLOB NOT NULL, "rowid" INTEGER, body BLOB NOT NULL);
    CREATE UNIQUE INDEX contents_by_digest ON contents (digest);
    CREATE INDEX contents_none ON contents (digest) WHERE body = x'';
    CREATE TABLE plain (text TEXT);
    CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT);
    CREATE TABLE files (gen INTEGER, path TEXT, PRIMARY KEY (gen, path)) WITHOUT ROWID;
    CREATE TRIGGER told AFTER DELETE ON plain BEGIN UPDATE _cf_KV SET value = x'01'; END;
    CREATE VIEW seen AS SELECT text FROM plain;
    INSERT INTO _cf_METADATA VALUES (1, 5);
    INSERT INTO _cf_KV VALUES ('k', x'02');
  `);
  database.exec("BEGIN");
  for (let n = 1; n <= 60; n++) {
    const text = n % 3 === 0 ? `${SECRET}-${n}`.padEnd(2000, SECRET) : `kept-${n}`.padEnd(2000, "k");
    database
      .prepare("INSERT INTO contents VALUES (?, ?, ?)")
      .run(Buffer.from(String(n)), -n, Buffer.from(text));
    for (const table of ["plain", "counted"])
      database.prepare(`INSERT INTO ${table} (text) VALUES (?)`).run(text);
    database.prepare("INSERT INTO files VALUES (1, ?)").run(text);
  }
  database.exec(`
    DELETE FROM contents WHERE CAST(body AS TEXT) LIKE '${SECRET}%';
    DELETE FROM plain WHERE text LIKE '${SECRET}%';
    DELETE FROM counted WHERE text LIKE '${SECRET}%';
    DELETE FROM files WHERE path LIKE '${SECRET}%';
    COMMIT;
    ANALYZE;
  `);
}

function withDatabase<T>(file: string, work: (database: DatabaseSync) => T): T {
  const database = new DatabaseSync(file);
  try {
    return work(database);
  } finally {
    database.close();
  }
}

/** All that a database is: its rows with their numbers, its schema, its properties. */
function contentOf(file: string): unknown {
  return withDatabase(file, (database) => {
    const all = (sql: string) => database.prepare(sql).all();
    return {
      rows: {
        contents: all('SELECT _rowid_ AS n, digest, "rowid" AS other, body FROM contents ORDER BY n'),
        plain: all("SELECT rowid AS n, text FROM plain ORDER BY n"),
        counted: all("SELECT id, text FROM counted ORDER BY id"),
        files: all("SELECT gen, path FROM files ORDER BY path"),
        metadata: all("SELECT * FROM _cf_METADATA"),
        kv: all("SELECT * FROM _cf_KV"),
        sequence: all("SELECT name, seq FROM sqlite_sequence ORDER BY name"),
        stat: all("SELECT tbl, idx, stat FROM sqlite_stat1 ORDER BY tbl, idx"),
      },
      schema: all("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"),
      properties: [
        "page_size",
        "user_version",
        "application_id",
        "encoding",
        "auto_vacuum",
        "journal_mode",
      ].map((name) => all(`PRAGMA ${name}`)[0]),
    };
  });
}

function debtOf(file: string): unknown {
  return withDatabase(file, (database) => database.prepare("SELECT until, paid FROM rewrite").get());
}

/** VACUUM as its documentation allows it to be: rows without an INTEGER PRIMARY KEY get other numbers. */
function renumbering(database: DatabaseSync, copy: string): void {
  database.exec(`VACUUM INTO '${copy}'`);
  withDatabase(copy, (made) =>
    made.exec("UPDATE plain SET rowid = rowid + 1000; UPDATE contents SET _rowid_ = _rowid_ + 1000"),
  );
}

const STEPS: readonly RewriteStep[] = [
  "log gone",
  "copied",
  "compared",
  "settled",
  "flushed",
  "renamed",
  "durable",
];

describe("a scrub", () => {
  test("leaves nothing of deleted rows in the file of an object that owes it, and in the catalogue, and all else as it was", () => {
    const { stateDir, file, catalogue } = state();
    expect(foundIn(stateDir, [SECRET])[SECRET]).toHaveLength(2);
    const before = [file, catalogue].map(contentOf);
    const { rewritten, bytesBefore, bytesAfter, failed } = scrub({ stateDir, extent: "due", now: NOW });
    expect({ rewritten, failed }).toEqual({ rewritten: 2, failed: [] });
    expect(bytesAfter).toBeLessThan(bytesBefore);
    expect(foundIn(stateDir, [SECRET])).toEqual({});
    expect([file, catalogue].map(contentOf)).toEqual(before);
    expect(readdirSync(dirname(file)).sort()).toEqual([`${"a".repeat(64)}.sqlite`, "metadata.sqlite"]);
  });

  test("removes the log that the folder keeps, whose lines may name what was erased, and leaves it if nothing was", () => {
    const owes = state();
    const dataDir = dirname(owes.stateDir);
    openKeptLog(dataDir).write(`{"msg":"could not read ${SECRET}"}\n`);
    scrub({ stateDir: owes.stateDir, extent: "due", now: NOW });
    expect(readKeptLog(dataDir)).toEqual([]);
    openKeptLog(dataDir).write("{}\n");
    scrub({ stateDir: owes.stateDir, extent: "due", now: NOW });
    expect(readKeptLog(dataDir)).toEqual(["{}"]);
  });

  test("finds what is in the log of a runtime that was killed alone, and leaves no log", () => {
    const { stateDir, file } = state();
    const killed = `${file}.killed`;
    withDatabase(file, (database) => {
      database.exec("PRAGMA journal_mode = WAL; UPDATE plain SET text = 'in the log' WHERE rowid = 1");
      for (const ending of ["", "-wal"]) copyFileSync(file + ending, killed + ending);
    });
    for (const ending of ["", "-wal"]) copyFileSync(killed + ending, file + ending);
    scrub({ stateDir, extent: "due", now: NOW });
    expect(existsSync(`${file}-wal`)).toBe(false);
    const text = withDatabase(file, (database) =>
      database.prepare("SELECT text FROM plain WHERE rowid = 1").get(),
    );
    expect(text).toEqual({ text: "in the log" });
  });

  test("finds a debt that is in the log of a runtime that was killed alone", () => {
    const { stateDir, file } = state({ paid: 1 });
    const killed = `${file}.killed`;
    withDatabase(file, (database) => {
      database.exec("PRAGMA journal_mode = WAL; UPDATE rewrite SET paid = 0");
      for (const ending of ["", "-wal", "-shm"]) copyFileSync(file + ending, killed + ending);
    });
    expect(scrub({ stateDir, extent: "due", now: NOW }).rewritten).toBe(2);
    withDatabase(file, (database) => database.exec("UPDATE rewrite SET paid = 1"));
    for (const ending of ["", "-wal", "-shm"]) renameSync(killed + ending, file + ending);
    expect(scrub({ stateDir, extent: "due", now: NOW }).rewritten).toBe(2);
    expect(foundIn(stateDir, [SECRET])).toEqual({});
  });

  test("keeps the numbers of rows also if VACUUM gives them others", () => {
    const { stateDir, file } = state();
    const before = contentOf(file);
    const { failed } = scrub({ stateDir, extent: "due", now: NOW, vacuum: renumbering });
    expect(failed).toEqual([]);
    expect(contentOf(file)).toEqual(before);
    expect(foundIn(stateDir, [SECRET])).toEqual({});
  });

  test("pays at once, and once more when nothing is remembered any more; then nothing is owed", () => {
    const { stateDir, file } = state({ until: NOW + 10 });
    const at = (now: number, extent: ScrubOptions["extent"] = "due") =>
      scrub({ stateDir, extent, now }).rewritten;
    expect(at(NOW)).toBe(2);
    expect(debtOf(file)).toEqual({ until: NOW + 10, paid: 1 });
    expect(at(NOW + 9)).toBe(0);
    expect(at(NOW + 9, "owed")).toBe(2);
    expect(at(NOW + 10)).toBe(2);
    expect(debtOf(file)).toBeUndefined();
    expect(at(NOW + 11, "owed")).toBe(0);
    expect(at(NOW + 11, "all")).toBe(2);
  });

  test("leaves a file as it is, with its debt, that somebody else has open, and says so", () => {
    const { stateDir, file } = state();
    withDatabase(file, (database) => {
      database.exec("PRAGMA journal_mode = WAL; BEGIN; SELECT * FROM plain");
      database.prepare("SELECT text FROM plain").get();
      const { rewritten, failed } = scrub({ stateDir, extent: "due", now: NOW });
      expect({ rewritten, failed }).toMatchObject({
        rewritten: 1,
        failed: [
          {
            file: expect.stringMatching(/^do.sluice-Branch.a+\.sqlite$/),
            message: "its log does not go: it is in use",
          },
        ],
      });
    });
    expect(debtOf(file)).toEqual({ until: NOW + 1000, paid: 0 });
    expect(readdirSync(dirname(file)).filter((name) => name.includes("scrub"))).toEqual([]);
  });

  test("keeps who may read a file", () => {
    const { stateDir, file } = state();
    const { mode } = statSync(file);
    scrub({ stateDir, extent: "due", now: NOW });
    expect(statSync(file).mode).toBe(mode);
  });

  test.each(
    STEPS,
  )("that is killed when it is at '%s' loses nothing, and the next one finishes it", (step) => {
    const { stateDir, file, catalogue } = state();
    const before = [file, catalogue].map(contentOf);
    const [of] = [step === "log gone" ? catalogue : file];
    const { signal } = spawnSync(process.execPath, [
      "--input-type=module",
      "-e",
      killedAt({ stateDir, step, of }),
    ]);
    expect(signal).toBe("SIGKILL");
    expect([file, catalogue].map(contentOf)).toEqual(before);
    const isPaid = ["renamed", "durable"].includes(step);
    expect(debtOf(file)).toMatchObject({ paid: isPaid ? 1 : 0 });
    expect(scrub({ stateDir, extent: "due", now: NOW }).rewritten).toBe(isPaid ? 0 : 2);
    expect(foundIn(stateDir, [SECRET])).toEqual({});
    expect(readdirSync(dirname(file)).filter((name) => name.includes("scrub"))).toEqual([]);
    expect([file, catalogue].map(contentOf)).toEqual(before);
  });
});

/** A program that scrubs, and dies at a step of one file. */
function killedAt({ stateDir, step, of }: { stateDir: string; step: RewriteStep; of: string }): string {
  const module = join(import.meta.dirname, "../../../embedded/scrub/scrub.ts");
  return `
    import { scrub } from ${JSON.stringify(module)};
    const at = ${JSON.stringify({ step, of })};
    const onStep = (step, file) => { if (step === at.step && file === at.of) process.kill(process.pid, "SIGKILL"); };
    scrub({ stateDir: ${JSON.stringify(stateDir)}, extent: "due", now: ${NOW}, onStep });`;
}
