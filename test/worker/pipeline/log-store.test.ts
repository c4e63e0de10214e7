import { env, runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { migrate } from "../../../worker/objects/migrations.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { MIGRATIONS } from "../../../worker/pipeline/ledger/migrations.ts";
import {
  type KeptChunk,
  type LogLimits,
  LogStore,
  type Printer,
} from "../../../worker/pipeline/logs/log-store.ts";
import { transaction } from "../objects/transaction.ts";

const NOW = 1_000_000;
const ROOMY: LogLimits = { datumBytes: 1e9, pipelineBytes: 1e9 };

const printer = (more: Partial<Printer> = {}): Printer => ({
  job: 1,
  datum: "d",
  node: "n",
  lease: "l",
  since: 0,
  ...more,
});

/** A line of each age; the text tells the age. */
const lines = (...ages: number[]): [number, string][] => ages.map((age) => [age, `${age} ago`]);

/** About a kibibyte in one line. */
const kib = (text: string): [number, string][] => [[0, text.padEnd(1024, ".")]];

interface Shown {
  readonly at: number;
  readonly dropped: number;
  readonly text: string;
}

/** All that is kept of a job or a datum of it, page by page. */
function shownBy(reader: LogStore, { job, datum }: { job: number; datum: string | undefined }): Shown[] {
  const found: Shown[] = [];
  for (let from = 0, more = true; more; ) {
    const page = reader.page(job, { datum, from });
    found.push(...page.chunks.flatMap(linesOf));
    from = (page.chunks.at(-1)?.seq ?? from) + 1;
    more = page.more;
  }
  return found;
}

function linesOf({ at, dropped, lines }: KeptChunk): Shown[] {
  if (lines.length === 0) return [{ at, dropped, text: "" }];
  return lines.map(([afterMs, text], index) => ({
    ...{ at: at + afterMs, text },
    dropped: index === 0 ? dropped : 0,
  }));
}

/** Works on the tables of an object of its own. */
async function withStore(
  name: string,
  limits: LogLimits,
  work: (tools: {
    store: LogStore;
    sql: Sql;
    shown: (job: number, datum?: string) => Shown[];
    add: (printer: Printer, seq: number, lines: [number, string][], dropped?: number) => void;
  }) => void,
): Promise<void> {
  await runInDurableObject(env.PIPELINE.getByName(name), (_, { storage }) => {
    const sql = new Sql(storage.sql);
    transaction(storage, (tx) => migrate(tx, sql, MIGRATIONS));
    const store = new LogStore(sql, limits);
    const reader = new LogStore(sql);
    work({
      store,
      sql,
      shown: (job, datum) => shownBy(reader, { job, datum }),
      add: (by, seq, printed, dropped = 0) =>
        transaction(storage, (tx) => store.add(tx, by, { seq, dropped, lines: printed, now: NOW })),
    });
  });
}

const texts = (found: readonly Shown[]): string[] => found.map(({ text }) => text.replace(/\.+$/, ""));

describe("what a lease printed", () => {
  it("is kept once, however often it is sent", () =>
    withStore("once", ROOMY, ({ add, shown }) => {
      add(printer(), 0, lines(20, 10));
      add(printer(), 0, lines(20, 10));
      add(printer(), 1, lines(5));
      add(printer(), 0, lines(20, 10));
      expect(texts(shown(1))).toEqual(["20 ago", "10 ago", "5 ago"]);
    }));

  it("is counted anew by each try, and follows what the try before printed", () =>
    withStore("tries", ROOMY, ({ add, shown }) => {
      add(printer({ lease: "first" }), 0, [[0, "one"]]);
      add(printer({ lease: "first" }), 1, [[0, "two"]]);
      add(printer({ lease: "second" }), 0, [[0, "three"]]);
      expect(texts(shown(1, "d"))).toEqual(["one", "two", "three"]);
    }));

  it("has the gateway's time less its age, never goes back, and is not older than its job", () =>
    withStore("times", ROOMY, ({ add, shown }) => {
      add(printer({ since: NOW - 1000 }), 0, lines(5000, 300, 400));
      add(printer({ since: NOW - 1000 }), 1, lines(900, 100));
      expect(shown(1).map(({ at }) => NOW - at)).toEqual([1000, 300, 300, 300, 100]);
    }));

  it("is in the order in which it came, whichever datum printed it, and each can be read alone", () =>
    withStore("order", ROOMY, ({ add, shown }) => {
      add(printer({ datum: "a", lease: "a" }), 0, [[0, "a1"]]);
      add(printer({ datum: "b", lease: "b" }), 0, [[0, "b1"]]);
      add(printer({ job: 2, datum: "a", lease: "c" }), 0, [[0, "other job"]]);
      add(printer({ datum: "a", lease: "a" }), 1, [[0, "a2"]]);
      expect(texts(shown(1))).toEqual(["a1", "b1", "a2"]);
      expect(texts(shown(1, "a"))).toEqual(["a1", "a2"]);
    }));

  it("lies in rows of bounded size, and is read in pages of bounded size", () =>
    withStore("rows", ROOMY, ({ add, shown, sql }) => {
      const many = Array.from({ length: 2000 }, (_, n): [number, string] => [
        0,
        `${n}`.padEnd(1000, "\u0001"),
      ]);
      add(printer(), 0, many);
      const [row] = sql.all<{ largest: number }>`SELECT max(bytes) AS largest FROM log_chunks`;
      expect(row?.largest).toBeLessThan(512 * 1024);
      expect(shown(1).map(({ text }) => Number.parseInt(text, 10))).toEqual(many.map((_, n) => n));
      const first = new LogStore(sql).page(1, { datum: undefined, from: 0 });
      expect(first.more).toBe(true);
      expect(first.chunks.length).toBeLessThan(4);
    }));
});

describe("where a datum prints more than is kept", () => {
  it("its oldest lines go, and before the first that is left it says how many", () =>
    withStore("bound", { ...ROOMY, datumBytes: 4000 }, ({ add, shown, sql }) => {
      for (let seq = 0; seq < 10; seq++) add(printer(), seq, kib(`line ${seq}`), seq === 1 ? 7 : 0);
      add(printer({ datum: "e", lease: "e" }), 0, kib("another's"));
      expect(texts(shown(1, "d"))).toEqual(["line 7", "line 8", "line 9"]);
      // Seven lines that were kept once, and seven that never came.
      expect(shown(1, "d").map(({ dropped }) => dropped)).toEqual([14, 0, 0]);
      expect(texts(shown(1, "e"))).toEqual(["another's"]);
      expect(sql.all`SELECT bytes FROM log_datums WHERE datum = 'd'`).toEqual(
        sql.all`SELECT sum(bytes) AS bytes FROM log_chunks WHERE datum = 'd'`,
      );
    }));

  it("what the runner left out at the end is told, too", () =>
    withStore("end", ROOMY, ({ add, shown }) => {
      add(printer(), 0, [[0, "last"]]);
      add(printer(), 1, [], 5);
      expect(shown(1)).toMatchObject([{ text: "last" }, { text: "", dropped: 5 }]);
    }));
});

describe("where a pipeline prints more than is kept", () => {
  it("the oldest goes, whichever job it is of, and the sums are kept", () =>
    withStore("whole", { ...ROOMY, pipelineBytes: 5000 }, ({ add, shown, store, sql }) => {
      for (let job = 1; job <= 3; job++)
        for (let seq = 0; seq < 3; seq++) add(printer({ job, lease: `${job}` }), seq, kib(`${job}.${seq}`));
      expect([1, 2, 3].map((job) => texts(shown(job)))).toEqual([[], ["2.2"], ["3.0", "3.1", "3.2"]]);
      expect(shown(2).map(({ dropped }) => dropped)).toEqual([2]);
      expect(new LogStore(sql).goneOf(1, "d")).toBe(3);
      // Of a datum that prints on, what went is told with what comes.
      add(printer({ job: 1, lease: "1" }), 3, kib("1.3"));
      expect(shown(1)).toMatchObject([{ dropped: 3 }]);
      const sums = () => [
        ...sql.all`SELECT bytes FROM log_store`,
        ...sql.all`SELECT sum(bytes) AS bytes FROM log_chunks`,
      ];
      const [kept, counted] = sums();
      expect(kept).toEqual(counted);
      while (store.trim(3, 1));
      expect([1, 2, 3].map((job) => texts(shown(job)).length)).toEqual([0, 0, 3]);
      expect(sql.all`SELECT job FROM log_datums`).toEqual([{ job: 3 }]);
      expect(sums()[0]).toEqual(sums()[1]);
    }));

  it("a number is never used twice, though the last row went", () =>
    withStore("numbers", ROOMY, ({ add, store, sql }) => {
      add(printer(), 0, [[0, "x"]]);
      while (store.trim(2, 10));
      add(printer({ job: 2, lease: "m" }), 0, [[0, "y"]]);
      expect(sql.all`SELECT seq FROM log_chunks`).toEqual([{ seq: 2 }]);
    }));
});
