import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { removeScratch, scratchFolder } from "./scratch.ts";
import { stillCopy } from "./still-copy.ts";

// What a data folder holds, as it lies there. Only `letTimePass` asks that no gateway runs on it: what is read is a copy, since
// an object that comes up fails if anybody else has its database open.

const OBJECTS = "state/do";
const BLOBS = "blobs";
/** Where workerd keeps when an object's alarm rings, in nanoseconds: in a table of all objects, and with each. */
const NS_PER_MS = 1_000_000n;

/** The databases of the objects of one class. */
function databases(data: string, kind: "Branch" | "Pipeline"): { folder: string; files: string[] } {
  const folder = join(data, OBJECTS, `sluice-${kind}`);
  if (!existsSync(folder)) return { folder, files: [] };
  const files = readdirSync(folder).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name));
  return { folder, files: files.map((name) => join(folder, name)) };
}

/**
 * Time passes for all that waits for a time: uploads, graces and leases run out, and alarms are due, as if the gateway had been
 * away for so long. Commits keep the times that they have.
 */
export function letTimePass(data: string, ms: number): void {
  const ns = BigInt(ms) * NS_PER_MS;
  for (const kind of ["Branch", "Pipeline"] as const) {
    const { folder, files } = databases(data, kind);
    for (const file of files) {
      withDatabase(file, (database) => {
        for (const [column, tables] of timesIn(database)) {
          for (const table of tables) {
            const later = `UPDATE ${table} SET ${column} = ${column} - ? WHERE ${column} IS NOT NULL`;
            database.prepare(later).run(BigInt(ms));
          }
        }
        if (tablesWith(database, "value").includes("_cf_METADATA")) {
          database.prepare("UPDATE _cf_METADATA SET value = value - ? WHERE key = 1 AND value > 0").run(ns);
        }
      });
    }
    const alarms = join(folder, "metadata.sqlite");
    if (!existsSync(alarms)) continue;
    withDatabase(alarms, (database) => {
      if (tablesWith(database, "scheduled_time").length === 0) return;
      database.prepare("UPDATE _cf_ALARM SET scheduled_time = scheduled_time - ?").run(ns);
    });
  }
}

/** Columns that say until when something lasts, with their tables. */
function timesIn(database: DatabaseSync): [column: string, tables: string[]][] {
  const slots = tablesWith(database, "until").filter((table) => table === "slots");
  return [
    ...["due", "leaseUntil"].map((column): [string, string[]] => [column, tablesWith(database, column)]),
    ["until", slots],
  ];
}

/** When the alarms of branches ring; milliseconds since 1970. */
export function alarmTimes(data: string): number[] {
  const alarms = join(databases(data, "Branch").folder, "metadata.sqlite");
  const times: number[] = [];
  readDatabase(alarms, (database) => {
    if (tablesWith(database, "scheduled_time").length === 0) return;
    const rows = database.prepare("SELECT scheduled_time / ? AS at FROM _cf_ALARM").all(NS_PER_MS);
    times.push(...rows.map(({ at }) => Number(at)));
  });
  return times;
}

/** What of branches waits for a time that has come, in words. */
export function overdue(data: string): string[] {
  const found: string[] = [];
  for (const file of databases(data, "Branch").files) {
    readDatabase(file, (database) => {
      for (const table of tablesWith(database, "due")) {
        const query = `SELECT count(*) AS n FROM ${table} WHERE due <= ?`;
        const n = Number(database.prepare(query).get(BigInt(Date.now()))?.n);
        if (n > 0) found.push(`${n} rows of ${table}`);
      }
    });
  }
  return [...found, ...alarmTimes(data).flatMap((at) => (at <= Date.now() ? ["an alarm"] : []))];
}

/** What contents name, held against the folder of blobs. */
export interface StoredState {
  /** Blobs that a content names and that are not there. */
  readonly missing: readonly string[];
  /** Blobs that are there and that no content names. */
  readonly orphans: readonly string[];
  /** How many blobs contents name, and rows of condemned ones. */
  readonly named: number;
  readonly condemned: number;
}

export function storedState(data: string): StoredState {
  const named = new Set<string>();
  let condemned = 0;
  for (const file of databases(data, "Branch").files) {
    readDatabase(file, (database) => {
      if (tablesWith(database, "refs").length === 0) return;
      const rows = database
        .prepare("SELECT kind, CAST(body AS TEXT) AS body FROM contents WHERE kind > 0")
        .all();
      for (const { kind, body } of rows) {
        for (const blob of blobsIn(data, { kind: Number(kind), body: String(body) })) named.add(blob);
      }
      condemned += Number(database.prepare("SELECT count(*) AS n FROM pending_deletions").get()?.n);
    });
  }
  const stored = storedBlobs(data);
  return {
    missing: [...named].filter((blob) => !stored.has(blob)),
    orphans: [...stored].filter((blob) => !named.has(blob)),
    named: named.size,
    condemned,
  };
}

function storedBlobs(data: string): Set<string> {
  const folder = join(data, BLOBS);
  if (!existsSync(join(folder, "b"))) return new Set();
  const entries = readdirSync(join(folder, "b"), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return new Set(files.map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1)));
}

interface Listed {
  readonly blob: string;
}

function blobsIn(data: string, { kind, body }: { kind: number; body: string }): string[] {
  if (kind === 1) return (JSON.parse(body) as Listed[]).map(({ blob }) => blob);
  const { blob } = JSON.parse(body) as Listed;
  const pages = listedIn(data, blob);
  return [blob, ...pages, ...pages.flatMap((page) => listedIn(data, page))];
}

function listedIn(data: string, blob: string): string[] {
  const file = join(data, BLOBS, blob);
  if (!existsSync(file)) return [];
  return (JSON.parse(readFileSync(file, "utf8")) as Listed[]).map((listed) => listed.blob);
}

function tablesWith(database: DatabaseSync, column: string): string[] {
  const rows = database
    .prepare(
      `SELECT name FROM sqlite_master WHERE type = 'table'
         AND EXISTS (SELECT 1 FROM pragma_table_info(sqlite_master.name) AS info WHERE info.name = ?)`,
    )
    .all(column);
  return rows.map(({ name }) => String(name));
}

/** Looks at a database as it is now, without opening it. */
function readDatabase(file: string, work: (database: DatabaseSync) => void): void {
  const folder = scratchFolder();
  try {
    withDatabase(stillCopy(file, folder), work);
  } finally {
    removeScratch(folder);
  }
}

function withDatabase(file: string, work: (database: DatabaseSync) => void): void {
  const database = new DatabaseSync(file);
  try {
    work(database);
  } finally {
    database.close();
  }
}

/** The tables of objects that have rows with one of some texts, after the class of the object. */
export function tablesNaming(data: string, texts: readonly string[]): string[] {
  const found: string[] = [];
  for (const kind of ["Branch", "Pipeline"] as const) {
    for (const file of databases(data, kind).files) {
      readDatabase(file, (database) => {
        const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
        for (const { name } of tables) {
          const columns = database.prepare("SELECT name FROM pragma_table_info(?)").all(String(name));
          const isIn = columns.map((column) => `instr(CAST("${column.name}" AS TEXT), ?1) > 0`);
          const has = database.prepare(`SELECT 1 FROM "${name}" WHERE ${isIn.join(" OR ")}`);
          if (texts.some((text) => has.get(text))) found.push(`${kind}.${name}`);
        }
      });
    }
  }
  return found.sort();
}
