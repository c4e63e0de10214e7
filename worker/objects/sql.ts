export type SqlValue = string | number | null | Uint8Array;

/**
 * The object's SQLite through a bound tagged template: whatever stands in `${}` is a parameter, never text.
 *
 * A column is named as the field of the row that it is read into (`finishedAt`), a table in snake_case. So a row is what the
 * code takes, and no query renames by hand: `AS` names what has no name, such as a count, or tells two tables apart. `commit`
 * and `by` are words of SQL and stand in quotes.
 */
export class Sql {
  readonly #sql: Pick<SqlStorage, "exec">;
  /** Tells that a loop has something to do, at a time or now: see `Store`. */
  readonly wake: (loop: string, at?: number) => void;

  constructor(sql: Pick<SqlStorage, "exec">, wake: (loop: string, at?: number) => void = () => {}) {
    this.#sql = sql;
    this.wake = wake;
  }

  all<Row>(strings: TemplateStringsArray, ...values: SqlValue[]): Row[] {
    return this.query<Row>(textOf(strings), values);
  }

  first<Row>(strings: TemplateStringsArray, ...values: SqlValue[]): Row | undefined {
    return this.query<Row>(textOf(strings), values)[0];
  }

  /** The one number that is asked for, such as a count; 0 if there is none. */
  number(strings: TemplateStringsArray, ...values: SqlValue[]): number {
    const [row = {}] = this.query<Record<string, number | null>>(textOf(strings), values);
    return Object.values(row)[0] ?? 0;
  }

  /** The row of a query that always has one, such as a sum. Throws if it has none. */
  one<Row>(strings: TemplateStringsArray, ...values: SqlValue[]): Row {
    const [row] = this.query<Row>(textOf(strings), values);
    if (row === undefined) throw new Error(`the row that there always is is not there: ${textOf(strings)}`);
    return row;
  }

  /** Returns whether there is any row: that it finds, or that it returns of what it wrote. */
  has(strings: TemplateStringsArray, ...values: SqlValue[]): boolean {
    return this.query(textOf(strings), values).length > 0;
  }

  /** Returns whether anything was written. */
  run(strings: TemplateStringsArray, ...values: SqlValue[]): boolean {
    return this.execute(textOf(strings), values).rowsWritten > 0;
  }

  /** A query put together from our own literals, or of numbered parameters (`?1`) that use one value in several places. */
  query<Row>(text: string, values: readonly SqlValue[]): Row[] {
    // The caller names the columns of its own SELECT; the platform types every row as a record of values.
    return this.execute(text, values).toArray() as unknown as Row[];
  }

  /** Every statement with parameters goes through here. */
  execute(text: string, values: readonly SqlValue[]) {
    return this.#sql.exec(keptText(text), ...values);
  }

  /** Statements without parameters, from our own source text. */
  script(text: string): void {
    this.#sql.exec(text);
  }
}

const texts = new WeakMap<TemplateStringsArray, string>();

/** The same text for the same place in the source: the platform keeps prepared statements by their text. */
function textOf(strings: TemplateStringsArray): string {
  let text = texts.get(strings);
  if (text === undefined) {
    text = strings.join("?");
    texts.set(strings, text);
  }
  return text;
}

const keptTexts = new Map<string, string>();

/**
 * A statement as SQLite keeps it compiled. It plans with the value of a LIMIT that is a bare parameter, so that it would compile
 * the statement anew each time that one is bound, which takes longer than most of them run. A sign makes it any value.
 */
function keptText(text: string): string {
  let kept = keptTexts.get(text);
  if (kept === undefined) {
    kept = text.replace(/\bLIMIT \?/g, "LIMIT +?");
    keptTexts.set(text, kept);
  }
  return kept;
}
