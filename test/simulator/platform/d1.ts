import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import type { Remote } from "./remote.ts";

interface Result {
  readonly success: true;
  readonly results: unknown[];
  readonly meta: { readonly changes: number };
}

/** D1: one writer at a time, each statement or batch in one moment. */
export class SimulatedD1 {
  readonly #db = new DatabaseSync(":memory:");
  readonly #remote: Remote;

  constructor(remote: Remote, schema: readonly string[]) {
    this.#remote = remote;
    for (const text of schema) this.#db.exec(text);
  }

  prepare(text: string): Statement {
    return new Statement({
      text,
      values: [],
      run: (statement) => this.#remote.ask(() => this.#run(statement)),
    });
  }

  async batch(statements: readonly Statement[]): Promise<Result[]> {
    return await this.#remote.ask(() => {
      this.#db.exec("BEGIN");
      try {
        const results = statements.map((statement) => this.#run(statement));
        this.#db.exec("COMMIT");
        return results;
      } catch (error) {
        this.#db.exec("ROLLBACK");
        throw error;
      }
    });
  }

  /** The simulation is over. */
  close(): void {
    this.#db.close();
  }

  /** For whoever looks at the rows from outside. */
  read<T extends object>(text: string): T[] {
    return this.#db.prepare(text).all() as T[];
  }

  #run({ text, values }: Pick<Statement, "text" | "values">): Result {
    const changes = () => (this.#db.prepare("SELECT total_changes() AS n").get() as { n: number }).n;
    const before = changes();
    const results = this.#db.prepare(text).all(...values);
    return { success: true, results, meta: { changes: changes() - before } };
  }
}

interface StatementOptions {
  readonly text: string;
  readonly values: readonly SQLInputValue[];
  readonly run: (statement: Statement) => Promise<Result>;
}

class Statement {
  readonly text: string;
  readonly values: readonly SQLInputValue[];
  readonly #run: StatementOptions["run"];

  constructor({ text, values, run }: StatementOptions) {
    this.text = text;
    this.values = values;
    this.#run = run;
  }

  bind(...values: SQLInputValue[]): Statement {
    return new Statement({ text: this.text, values, run: this.#run });
  }

  async all(): Promise<Result> {
    return await this.#run(this);
  }

  async run(): Promise<Result> {
    return await this.#run(this);
  }

  async first(): Promise<unknown> {
    return (await this.#run(this)).results[0] ?? null;
  }
}
