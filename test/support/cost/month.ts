import {
  type Bill,
  billsOf,
  type Price,
  type Priced,
  pricesOf,
  type TimedBill,
  tableOf,
  timedBillsOf,
} from "./bill.ts";

/** What somebody does in a month, by the rows of docs/cost.md. */
interface Month {
  /** How often each of these, by the names of the rows. */
  readonly times: Readonly<Record<string, number>>;
  /** So many of these all the time, by the name of the row. Absent: there is nothing but the requests. */
  readonly idle?: { readonly row: string; readonly times: number };
  /** What is kept in R2. */
  readonly gigabytes: number;
  /** Files that branches have: each takes some bytes of its object. */
  readonly files: number;
  /** The same with nothing but a bucket of R2: operations of class A and B. Absent: R2 has nothing like it. */
  readonly bare?: { readonly classA: number; readonly classB: number };
}

const MILLION = 1e6;
/** Of a month as Cloudflare's examples have it, 30 days. */
export const HOURS = 720;
const PLAN_DOLLARS = 5;
/** What a file takes in its branch's object, more than measured with 10 million small ones. */
const FILE_BYTES = 300;

const DATUM = "one of the 12,000 datums of a job, with its file";

/** 20 nodes and 100 pipelines: rows that D1 reads for each heartbeat are more, and cost next to nothing. */
const FLEET = { row: "2 nodes, and 10 pipelines of one worker each", times: 10 };

/** By what the page calls them. */
const MONTHS: Readonly<Record<string, Month>> = {
  "a team: 1 TB in files of 1 MiB, a million of them put in the month and as many read": {
    times: { "PutObject, 1 MiB": MILLION, "GetObject, 1 MiB": MILLION },
    gigabytes: 1000,
    files: MILLION,
    bare: { classA: MILLION, classB: MILLION },
  },
  "20 nodes and 100 pipelines of one worker each, which have nothing to do": {
    times: {},
    idle: FLEET,
    gigabytes: 0,
    files: 0,
  },
  "the same, and a million datums": {
    times: { [DATUM]: MILLION },
    idle: FLEET,
    gigabytes: 0,
    files: 2 * MILLION,
  },
  "a dataset: 1 TB in files of 1 MiB, read 1,000 times each by readers all over the world": {
    times: { "GetObject, 1 MiB": 1000 * MILLION },
    gigabytes: 1000,
    files: MILLION,
    bare: { classA: 0, classB: 1000 * MILLION },
  },
  "the same, nine reads of ten near the reader": {
    times: { "GetObject, 1 MiB": 100 * MILLION, "GetObject, 1 MiB, again": 900 * MILLION },
    gigabytes: 1000,
    files: MILLION,
    bare: { classA: 0, classB: 1000 * MILLION },
  },
};

/** The name of the table's first column. */
const FIRST = "a month";

/** The parts of a month's bill, by the columns of the table. */
const PARTS: Readonly<Record<string, readonly Priced[]>> = {
  requests: ["requests"],
  objects: ["calls", "secondsAtWork"],
  rows: ["rowsRead", "rowsWritten"],
  "R2 operations": ["classA", "classB"],
  log: ["logLines"],
};

/** The table of what months cost, as docs/cost.md has it, of what the page says of single requests, works and idle hours. */
export function monthTable(page: string): string {
  const head = [FIRST, "plan", ...Object.keys(PARTS), "storage", "in all", "R2 alone"];
  const rows = Object.entries(MONTHS).map(([name, month]) => [name, ...monthOf(page, month)]);
  return [head, head.map((_, index) => (index === 0 ? "---" : "---:")), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n");
}

function monthOf(page: string, month: Month): string[] {
  const prices = pricesOf(page);
  const used = usedIn(page, month);
  const parts = Object.values(PARTS).map((all) =>
    all.reduce((sum, of) => sum + charge(used[of], prices[of]), 0),
  );
  const kept = storageOf(page, month);
  const { bare } = month;
  const alone =
    bare &&
    charge(bare.classA, prices.classA) +
      charge(bare.classB, prices.classB) +
      storageOf(page, { ...month, files: 0 });
  const all = parts.reduce((sum, part) => sum + part, PLAN_DOLLARS + kept);
  return [...[PLAN_DOLLARS, ...parts, kept, all].map(dollars), alone === undefined ? "" : dollars(alone)];
}

function usedIn(page: string, { times, idle }: Month): Readonly<Record<Priced, number>> {
  const single = { ...billsOf(page, "one request"), ...billsOf(page, "with all that follows") };
  const hour = idle && cellsOf(timedBillsOf(page, "idle for an hour"), idle.row);
  const idled = (of: keyof TimedBill): number => (hour && idle ? hour[of] * idle.times * HOURS : 0);
  const sum = (of: keyof Bill): number =>
    Object.entries(times).reduce((sum, [name, count]) => sum + count * cellsOf(single, name)[of], idled(of));
  // The entrypoint for blobs writes no line.
  const lines = (name: string): number =>
    name in billsOf(page, "one request") ? 1 : cellsOf(single, name).requests;
  const counted = Object.entries(times).reduce((sum, [name, count]) => sum + count * lines(name), 0);
  return {
    ...{
      requests: sum("requests"),
      calls: sum("calls"),
      rowsRead: sum("rowsRead"),
      rowsWritten: sum("rowsWritten"),
    },
    ...{ classA: sum("classA"), classB: sum("classB") },
    secondsAtWork: idled("secondsAtWork"),
    logLines: counted + idled("requests"),
  };
}

function cellsOf<Cells>(rows: Readonly<Record<string, { readonly cells: Cells }>>, name: string): Cells {
  const row = rows[name];
  if (!row) throw new Error(`the page has no row '${name}'`);
  return row.cells;
}

/** What is above what the plan includes. */
function charge(count: number, { dollars, included }: Price): number {
  return (Math.max(0, count - included) * dollars) / MILLION;
}

function storageOf(page: string, { gigabytes, files }: Pick<Month, "gigabytes" | "files">): number {
  const rows = tableOf(page, "what is kept");
  const of = (name: string, count: number): number => {
    const { "dollars a GB and month": dollars, "GB included": included } = rows[name] ?? {};
    return Math.max(0, count - Number(included)) * Number(dollars);
  };
  return of("in R2", gigabytes) + of("in objects", (files * FILE_BYTES) / 1e9);
}

function dollars(sum: number): string {
  return sum.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

/** The page with the table as it is to be. */
export function withMonths(page: string): string {
  const lines = page.split("\n");
  const from = lines.findIndex((line) => line.startsWith(`| ${FIRST} |`));
  if (from < 0) throw new Error(`the page has no table '${FIRST}'`);
  const to = lines.findIndex((line, index) => index > from && !line.startsWith("|"));
  return [...lines.slice(0, from), monthTable(page), ...lines.slice(to)].join("\n");
}
