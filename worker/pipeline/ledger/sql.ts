export type SqlValue = string | number | null;

/** The object's SQLite through a bound tagged template: whatever stands in `${}` is a parameter, never text. */
export class Sql {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  all<Row>(strings: TemplateStringsArray, ...values: SqlValue[]): Row[] {
    // The caller names the columns of its own SELECT; the platform types every row as a record of values.
    return this.#sql.exec(textOf(strings), ...values).toArray() as unknown as Row[];
  }

  first<Row>(strings: TemplateStringsArray, ...values: SqlValue[]): Row | undefined {
    return this.all<Row>(strings, ...values)[0];
  }

  run(strings: TemplateStringsArray, ...values: SqlValue[]): void {
    this.#sql.exec(textOf(strings), ...values).toArray();
  }

  /** A query put together from our own literals; its values are bound. */
  query<Row>(text: string, values: readonly SqlValue[]): Row[] {
    return this.#sql.exec(text, ...values).toArray() as unknown as Row[];
  }

  /** Statements without parameters, from our own source text. */
  script(text: string): void {
    this.#sql.exec(text);
  }
}

const texts = new WeakMap<TemplateStringsArray, string>();

function textOf(strings: TemplateStringsArray): string {
  let text = texts.get(strings);
  if (text === undefined) {
    text = strings.join("?");
    texts.set(strings, text);
  }
  return text;
}
