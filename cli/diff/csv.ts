import { setImmediate } from "node:timers/promises";
import papa from "papaparse";
import { CliError } from "../output/failure.ts";
import { printJson, printLine, printOutput, showSize } from "../output/output.ts";
import type { ChangedFile, FileSide } from "./changed-file.ts";
import { rowsOf } from "./rows.ts";
import { SortedLines } from "./sorted-lines.ts";

/** Bytes of each side of a file that is compared by rows. */
const MAX_CSV_BYTES = 1024 * 1024 * 1024;
/** Rows that are compared before signals and the network have their turn. */
const TURN = 5000;

export interface CsvOptions {
  /** Columns that say which row is which; empty: a row is itself alone. */
  readonly keys: readonly string[];
  /** Counts alone, and no rows. */
  readonly stat: boolean;
  readonly json: boolean;
}

/** How many rows differ in a file. */
interface Counts {
  added: number;
  removed: number;
  changed: number;
  /** Keys that several rows of one side have. */
  repeatedKeys: number;
}

/**
 * Prints how a CSV file differs by rows, whatever their order. Both sides are sorted on disk by key and merged, so that memory is bounded
 * by the runs of `SortedLines`. Columns are told apart by their names: those that one side alone has are told, and rows are compared by the
 * others. Rows of a key that several have are compared whole: none of them is "changed". Throws a CliError for what is no CSV, has no such
 * column, or is too large.
 */
export async function printCsvDiff(file: ChangedFile, options: CsvOptions): Promise<void> {
  const separator = /\.(tsv|tab)$/i.test(file.path) ? "\t" : ",";
  for (const side of [file.before, file.after]) {
    if (!side || side.size <= MAX_CSV_BYTES) continue;
    const most = showSize(MAX_CSV_BYTES);
    throw new CliError(`it has ${showSize(side.size)}: files of at most ${most} are compared by rows`, {
      code: "TooLarge",
    });
  }
  const before = await Table.open(file.before, separator);
  try {
    const after = await Table.open(file.after, separator);
    try {
      await compare(file, { before, after, options });
    } finally {
      await after.close();
    }
  } finally {
    await before.close();
  }
}

async function compare(
  { path }: ChangedFile,
  { before, after, options }: { before: Table; after: Table; options: CsvOptions },
): Promise<void> {
  const columns = columnsOf(before, after, options.keys);
  const printer = new Printer(path, columns, options);
  // Both at once, as either connection would not wait for long.
  await Promise.all([before.sort(columns.before), after.sort(columns.after)]);
  printer.begin();
  const counts: Counts = { added: 0, removed: 0, changed: 0, repeatedKeys: 0 };
  let compared = 0;
  for (const change of merge(before.sorted.read(), after.sorted.read(), counts)) {
    if (change) printer.row(change);
    if (++compared % TURN === 0) await setImmediate();
  }
  printer.end(counts);
}

/** Where the columns of one side are in its rows. */
interface Places {
  readonly key: readonly number[];
  /** Those that both sides have, in the same order for both. */
  readonly common: readonly number[];
  readonly own: readonly number[];
}

interface Columns {
  readonly key: readonly string[];
  readonly common: readonly string[];
  readonly ownBefore: readonly string[];
  readonly ownAfter: readonly string[];
  readonly before: Places;
  readonly after: Places;
}

function columnsOf(before: Table, after: Table, keys: readonly string[]): Columns {
  // A side that is not there has the columns of the other.
  const left = before.header ?? after.header ?? [];
  const right = after.header ?? left;
  for (const [side, header] of [
    ["earlier", left],
    ["later", right],
  ] as const) {
    const missing = keys.filter((key) => !header.includes(key));
    if (missing.length === 0) continue;
    const there = header.map((name) => JSON.stringify(name)).join(", ");
    const columns = missing.map((name) => JSON.stringify(name)).join(", ");
    throw new CliError(`the ${side} side has no column ${columns}: there are ${there || "none"}`, {
      code: "NoSuchColumn",
    });
  }
  const [leftNames, rightNames] = [told(left), told(right)];
  const common = leftNames.filter((name) => rightNames.includes(name));
  if (common.length === 0 && before.header && after.header) {
    throw new CliError("no column is in both: its first row is taken for the names of the columns", {
      code: "NoSuchColumn",
    });
  }
  const own = (names: readonly string[], others: readonly string[]) =>
    names.filter((name) => !others.includes(name));
  const places = (names: readonly string[], others: readonly string[]): Places => ({
    key: keys.map((key) => names.indexOf(key)),
    common: common.map((name) => names.indexOf(name)),
    own: own(names, others).map((name) => names.indexOf(name)),
  });
  return {
    ...{ key: keys, common, ownBefore: own(leftNames, rightNames), ownAfter: own(rightNames, leftNames) },
    before: places(leftNames, rightNames),
    after: places(rightNames, leftNames),
  };
}

/** Names of columns, each once: the second `x` of a header is `x (2)`. */
function told(header: readonly string[]): string[] {
  const seen = new Map<string, number>();
  return header.map((name) => {
    const count = (seen.get(name) ?? 0) + 1;
    seen.set(name, count);
    return count === 1 ? name : `${name} (${count})`;
  });
}

/** One side of a file: its header, and its rows on disk. */
class Table {
  readonly header: readonly string[] | undefined;
  readonly sorted = new SortedLines();
  readonly #batches: AsyncGenerator<string[][]> | undefined;
  readonly #first: readonly string[][];

  private constructor(
    batches: AsyncGenerator<string[][]> | undefined,
    [header, ...first]: readonly string[][],
  ) {
    this.#batches = batches;
    this.#first = first;
    this.header = header;
  }

  /** Reads the header. An absent side has neither header nor rows. */
  static async open(side: FileSide | null, separator: string): Promise<Table> {
    if (!side) return new Table(undefined, []);
    const batches = rowsOf(side.read(), { separator });
    const { value } = await batches.next();
    return new Table(batches, value ?? []);
  }

  /** Sorts all rows by their key, then by the columns that both sides have. */
  async sort(places: Places): Promise<void> {
    this.#add(this.#first, places);
    for await (const rows of this.#batches ?? []) this.#add(rows, places);
  }

  async close(): Promise<void> {
    await this.#batches?.return(undefined);
    this.sorted.close();
  }

  #add(rows: readonly string[][], places: Places): void {
    for (const row of rows) this.sorted.add(lineOf(row, places));
  }
}

/** JSON escapes tabs and line ends, so that they can stand between; and a tab comes before all that it leaves as it is. */
function lineOf(row: readonly string[], { key, common, own }: Places): string {
  const of = (places: readonly number[]) => JSON.stringify(places.map((place) => row[place]));
  // Without a key, all that both sides have is the key.
  return key.length === 0 ? `${of(common)}\t\t${of(own)}` : `${of(key)}\t${of(common)}\t${of(own)}`;
}

/** A row of a side. All but `key` are JSON still: most rows are the same on both sides, and nobody reads them. */
interface Row {
  readonly key: string;
  readonly common: string;
  readonly own: string;
}

type RowChange =
  | { readonly kind: "added" | "removed"; readonly row: Row }
  | { readonly kind: "changed"; readonly before: Row; readonly after: Row };

/** Rows of one side, of which the next two can be looked at. */
class Cursor {
  row: Row | undefined;
  next: Row | undefined;
  readonly #lines: Generator<string, undefined>;

  constructor(lines: Generator<string, undefined>) {
    this.#lines = lines;
    this.advance();
    this.advance();
  }

  advance(): void {
    this.row = this.next;
    const { done, value } = this.#lines.next();
    this.next = done ? undefined : rowOf(value);
  }

  /** Whether this row and the next one have this key. Rows without a key are themselves alone. */
  repeats(key: string): boolean {
    const { row, next } = this;
    return row !== undefined && row.common !== "" && row.key === key && next?.key === key;
  }
}

function rowOf(line: string): Row {
  const first = line.indexOf("\t");
  const second = line.indexOf("\t", first + 1);
  return { key: line.slice(0, first), common: line.slice(first + 1, second), own: line.slice(second + 1) };
}

/** What two sorted sides have differently; undefined for a row that is the same. Counts what it gives. */
function* merge(
  lines: Generator<string, undefined>,
  otherLines: Generator<string, undefined>,
  counts: Counts,
): Generator<RowChange | undefined, undefined> {
  const before = new Cursor(lines);
  const after = new Cursor(otherLines);
  /** The last key of several rows. */
  let repeated: string | undefined;
  for (;;) {
    const [left, right] = [before.row, after.row];
    const key = leastKey(left, right);
    if (key === undefined) return;
    if (key !== repeated && [before, after].some((side) => side.repeats(key))) {
      repeated = key;
      counts.repeatedKeys++;
    }
    const change = changeOf(left, right, key === repeated);
    if (change?.kind !== "added") before.advance();
    if (change?.kind !== "removed") after.advance();
    if (change) counts[change.kind]++;
    yield change;
  }
}

function leastKey(left: Row | undefined, right: Row | undefined): string | undefined {
  if (!left || !right) return left?.key ?? right?.key;
  return left.key < right.key ? left.key : right.key;
}

/** What is to be said of the first of two rows, or of both. `isRepeated`: rows of this key are compared whole. */
function changeOf(left: Row | undefined, right: Row | undefined, isRepeated: boolean): RowChange | undefined {
  if (!right || (left && left.key < right.key)) return { kind: "removed", row: left as Row };
  if (!left || right.key < left.key) return { kind: "added", row: right };
  if (left.common === right.common) return undefined;
  if (!isRepeated) return { kind: "changed", before: left, after: right };
  return left.common < right.common ? { kind: "removed", row: left } : { kind: "added", row: right };
}

/** Writes down what differs, as it is found. */
class Printer {
  readonly #path: string;
  readonly #columns: Columns;
  readonly #options: CsvOptions;

  constructor(path: string, columns: Columns, options: CsvOptions) {
    this.#path = path;
    this.#columns = columns;
    this.#options = options;
  }

  begin(): void {
    if (this.#options.json || this.#options.stat) return;
    printLine(this.#path);
    for (const line of this.#columnLines()) printLine(line);
  }

  row(change: RowChange): void {
    const { json, stat } = this.#options;
    if (stat) return;
    if (json) printJson({ path: this.#path, change: change.kind, ...this.#sides(change) });
    else if (change.kind === "changed") printOutput("~ ", this.#changeText(change));
    else printOutput(change.kind === "added" ? "+ " : "- ", csvText(this.#fields(change.row)));
  }

  end(counts: Counts): void {
    const { json, stat } = this.#options;
    const { ownBefore, ownAfter } = this.#columns;
    if (json) {
      printJson({ path: this.#path, columns: { added: ownAfter, removed: ownBefore }, rows: counts });
      return;
    }
    const { added, removed, changed, repeatedKeys } = counts;
    const text = `${added} added, ${removed} removed${this.#columns.key.length > 0 ? `, ${changed} changed` : ""}`;
    printLine(stat ? `${this.#path}: ${text}` : text);
    if (stat) for (const line of this.#columnLines()) printLine(`  ${line}`);
    if (repeatedKeys > 0) {
      printLine(`${stat ? "  " : ""}keys of several rows, which are compared whole: ${repeatedKeys}`);
    }
  }

  #columnLines(): string[] {
    const { ownBefore, ownAfter } = this.#columns;
    return [
      ...(ownAfter.length > 0 ? [`columns added: ${csvText(ownAfter)}`] : []),
      ...(ownBefore.length > 0 ? [`columns removed: ${csvText(ownBefore)}`] : []),
    ];
  }

  /** A whole row: the columns of both sides, then those of its own side. */
  #fields({ common, key, own }: Row): string[] {
    return [...JSON.parse(common || key), ...JSON.parse(own)];
  }

  #named(row: Row, side: "before" | "after"): Record<string, string> {
    const { common, ownBefore, ownAfter } = this.#columns;
    const names = [...common, ...(side === "before" ? ownBefore : ownAfter)];
    return Object.fromEntries(this.#fields(row).map((value, index) => [names[index] ?? "", value]));
  }

  #sides(change: RowChange): object {
    if (change.kind === "changed") {
      return { before: this.#named(change.before, "before"), after: this.#named(change.after, "after") };
    }
    return change.kind === "added"
      ? { before: null, after: this.#named(change.row, "after") }
      : { before: this.#named(change.row, "before"), after: null };
  }

  #changeText({ before, after }: Extract<RowChange, { kind: "changed" }>): string {
    const key: string[] = JSON.parse(before.key);
    const [left, right]: [string[], string[]] = [JSON.parse(before.common), JSON.parse(after.common)];
    const changes = this.#columns.common.flatMap((name, index) => {
      const [was, is] = [left[index] ?? "", right[index] ?? ""];
      return was === is ? [] : [`${csvText([name])}: ${csvText([was])} -> ${csvText([is])}`];
    });
    return `${csvText(key)}  ${changes.join("; ")}`;
  }
}

/** Fields as a CSV file has them. */
function csvText(fields: readonly string[]): string {
  return papa.unparse([[...fields]]);
}
