import type { SQLInputValue } from "node:sqlite";
import type { Database, Databases } from "./database.ts";
import type { Remote } from "./remote.ts";

interface Result {
  readonly success: true;
  readonly results: unknown[];
  readonly meta: { readonly changes: number };
}

interface D1Options {
  readonly remote: Remote;
  readonly databases: Databases;
  readonly schema: readonly string[];
}

/** D1: one writer at a time, each statement or batch in one moment. */
export class SimulatedD1 {
  readonly #db: Database;
  readonly #databases: Databases;
  readonly #remote: Remote;

  constructor({ remote, databases, schema }: D1Options) {
    this.#remote = remote;
    this.#databases = databases;
    this.#db = databases.take();
    this.#db.begin();
    for (const text of schema) this.#db.script(text);
    this.#db.commit();
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
      this.#db.begin();
      try {
        const results = statements.map((statement) => this.#run(statement));
        this.#db.commit();
        return results;
      } catch (error) {
        this.#db.rollback();
        throw error;
      }
    });
  }

  /** The simulation is over. */
  close(): void {
    this.#databases.giveBack(this.#db);
  }

  /** For whoever looks at the rows from outside. */
  read<T extends object>(text: string): T[] {
    return [...this.#db.look(text, [])] as T[];
  }

  #run({ text, values }: Pick<Statement, "text" | "values">): Result {
    const { rows, changes } = this.#db.run(text, values);
    return { success: true, results: rows, meta: { changes } };
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
