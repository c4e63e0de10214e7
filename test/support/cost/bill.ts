/** What Cloudflare charges for, beside CPU, by the names of the columns of docs/cost.md. */
export interface Bill {
  /** Of the Worker, those of its entrypoint for blobs among them. */
  readonly requests: number;
  /** Of objects: calls, and alarms that ring. */
  readonly calls: number;
  /** Of objects and of D1, as are the rows written. Setting an alarm writes one. */
  readonly rowsRead: number;
  readonly rowsWritten: number;
  /** Operations of R2. */
  readonly classA: number;
  readonly classB: number;
  /** They cost nothing but their rows. */
  readonly d1Queries: number;
}

/** A bill of some time, in which objects may be kept from sleeping. */
export interface TimedBill extends Bill {
  /** Summed up over objects: how long each of them could not sleep since a call of it was under way. */
  readonly secondsAtWork: number;
}

/** The columns of each table of the page, in their order. */
const COLUMNS: Record<keyof TimedBill, string> = {
  requests: "requests",
  calls: "calls of objects",
  secondsAtWork: "seconds of objects at work",
  rowsRead: "rows read",
  rowsWritten: "rows written",
  classA: "R2 class A",
  classB: "R2 class B",
  d1Queries: "D1 queries",
};

/** What a table's rows say, by their names. */
export type Rows<Cells> = Readonly<Record<string, Cells>>;

interface Row<Cells> {
  readonly cells: Cells;
  /** Its last cell, as it stands there. */
  readonly dollars: string;
}

/** The table of a page whose first column is called so: its cells by the names of rows and columns. */
export function tableOf(page: string, first: string): Rows<Readonly<Record<string, string>>> {
  const lines = page.split("\n");
  const head = lines.findIndex((line) => line.startsWith(`| ${first} |`));
  if (head < 0) throw new Error(`the page has no table '${first}'`);
  const end = lines.findIndex((line, index) => index > head && !line.startsWith("|"));
  const [names = [], , ...rows] = lines.slice(head, end).map(cellsOf);
  return Object.fromEntries(
    rows.map(([name = "", ...cells]) => [
      name.replaceAll(/[`*]/g, ""),
      Object.fromEntries(cells.map((cell, index) => [names[index + 1] ?? "", cell])),
    ]),
  );
}

function cellsOf(line: string): string[] {
  return line
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());
}

/** The bills that a table of the page shows, and what it says that they cost. */
export function billsOf(page: string, first: string): Rows<Row<Bill>> {
  return rowsOf(page, first, (cells) => billIn(cells));
}

/** The same of a table of bills of an hour. */
export function timedBillsOf(page: string, first: string): Rows<Row<TimedBill>> {
  return rowsOf(page, first, (cells) => ({
    ...billIn(cells),
    secondsAtWork: numberIn(cells, "secondsAtWork"),
  }));
}

type Cells = Readonly<Record<string, string>>;

function rowsOf<T>(page: string, first: string, read: (cells: Cells) => T): Rows<Row<T>> {
  const rows = Object.entries(tableOf(page, first));
  return Object.fromEntries(
    rows.map(([name, cells]) => [name, { cells: read(cells), dollars: Object.values(cells).at(-1) ?? "" }]),
  );
}

function billIn(cells: Cells): Bill {
  const number = (column: keyof Bill) => numberIn(cells, column);
  return {
    requests: number("requests"),
    calls: number("calls"),
    rowsRead: number("rowsRead"),
    rowsWritten: number("rowsWritten"),
    classA: number("classA"),
    classB: number("classB"),
    d1Queries: number("d1Queries"),
  };
}

function numberIn(cells: Cells, column: keyof TimedBill): number {
  return numberOf(cells[COLUMNS[column]] ?? "");
}

/** A number as the page writes it: `1,234.5`. NaN: it is none. */
function numberOf(text: string): number {
  return text === "" ? Number.NaN : Number(text.replaceAll(",", ""));
}

export type Priced = Exclude<keyof TimedBill, "d1Queries"> | "logLines";

export interface Price {
  /** For a million. */
  readonly dollars: number;
  /** A month, in the plan. */
  readonly included: number;
}

/** What the rows of the page's table of prices are of. */
const PRICED: Readonly<Record<Exclude<Priced, "secondsAtWork">, string>> = {
  requests: "requests to the Worker",
  calls: "calls of objects, and their alarms",
  rowsRead: "rows read, of objects and of D1",
  rowsWritten: "rows written, of objects and of D1",
  classA: "R2 class A",
  classB: "R2 class B",
  logLines: "lines of the log",
};
const GB_SECONDS = "GB-seconds of objects that are at work";
/** What an object is charged as while it is at work, whatever it needs. */
export const OBJECT_GB = 0.128;

/** The prices that the page has. */
export function pricesOf(page: string): Readonly<Record<Priced, Price>> {
  const rows = tableOf(page, "what");
  const priceOf = (name: string): Price => {
    const { "dollars a million": dollars = "", "included a month": included = "" } = rows[name] ?? {};
    const [, count = "", millions] = /^([0-9.,]+)( million| billion)?/.exec(included) ?? [];
    const unit = millions === " billion" ? 1e9 : millions === " million" ? 1e6 : 1;
    const price = { dollars: numberOf(dollars), included: numberOf(count) * unit };
    if (Number.isNaN(price.dollars + price.included)) throw new Error(`the page has no price of '${name}'`);
    return price;
  };
  const perSecond = priceOf(GB_SECONDS);
  const priced = Object.entries(PRICED).map(([key, name]) => [key, priceOf(name)]);
  return {
    ...(Object.fromEntries(priced) as Record<keyof typeof PRICED, Price>),
    secondsAtWork: {
      dollars: perSecond.dollars * OBJECT_GB,
      included: perSecond.included / OBJECT_GB,
    },
  };
}

/** Dollars of a bill above what the plan includes; without what is left out. */
export function dollarsOf(
  bill: Partial<Record<Priced, number>>,
  prices: Readonly<Record<Priced, Price>>,
): number {
  const parts = Object.entries(bill) as [Priced, number][];
  return parts.reduce((sum, [of, count]) => sum + ((prices[of]?.dollars ?? 0) * count) / 1e6, 0);
}
