type Value = string | number | null;

/** A part of a statement, and the values that are bound in it. */
interface Part {
  readonly text: string;
  readonly values: readonly Value[];
}

/** A part of a statement in which whatever stands in `${}` is bound, unless it is a part itself. */
export function part(strings: TemplateStringsArray, ...inner: readonly (Value | Part)[]): Part {
  const parts = inner.map((each) =>
    typeof each === "object" && each !== null ? each : { text: "?", values: [each] },
  );
  return {
    text: strings.map((text, index) => text + (parts[index]?.text ?? "")).join(""),
    values: parts.flatMap(({ values }) => values),
  };
}

/** Our own source text in a statement, such as a list of columns. */
export function raw(text: string): Part {
  return { text, values: [] };
}

type Statement = Parameters<typeof part>;

/** A table of the catalogue, asked by bound tagged templates. */
export abstract class Table {
  readonly #db: D1Database;

  constructor(db: D1Database) {
    this.#db = db;
  }

  protected statement(...statement: Statement): D1PreparedStatement {
    const { text, values } = part(...statement);
    return this.#db.prepare(text).bind(...values);
  }

  protected async all<Row>(...statement: Statement): Promise<Row[]> {
    return (await this.statement(...statement).all<Row>()).results;
  }

  protected async first<Row>(...statement: Statement): Promise<Row | null> {
    return await this.statement(...statement).first<Row>();
  }

  /** Returns how many rows were changed. */
  protected async run(...statement: Statement): Promise<number> {
    return (await this.statement(...statement).run()).meta.changes;
  }

  /** All of the statements at one moment, or none. */
  protected async batch<Row>(statements: D1PreparedStatement[]): Promise<D1Result<Row>[]> {
    return await this.#db.batch<Row>(statements);
  }
}
