import { env, runInDurableObject } from "cloudflare:test";
import { Blobs } from "../../../worker/blobs/near/entrypoint.ts";
import { Branch } from "../../../worker/branch/branch.ts";
import { Fleet } from "../../../worker/fleet/fleet.ts";
import gateway from "../../../worker/index.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { Pipeline } from "../../../worker/pipeline/pipeline.ts";
import type { Bill, TimedBill } from "../../support/cost/bill.ts";
import { UNKEPT } from "../branch/unkept.ts";

// biome-ignore lint/suspicious/noExplicitAny: it stands in for methods of every kind.
type Any = any;
type Method = (...args: Any[]) => Any;

/** When a call of an object began and ended; milliseconds. */
interface Span {
  readonly object: string;
  readonly from: number;
  to: number;
}

/** What is charged for until `work` is done. */
export async function billOf(work: () => Promise<unknown>): Promise<Bill> {
  return await metered(async (sofar) => {
    await work();
    const { secondsAtWork: _, ...bill } = sofar();
    return bill;
  });
}

/**
 * Counts everything that is charged for while `work` goes on, wherever it is done: gateway and objects share an isolate here. What
 * tests do inside of objects is not counted, if they have their stubs from before.
 */
export async function metered<T>(work: (sofar: () => TimedBill) => Promise<T>): Promise<T> {
  const storage = await storagePrototype();
  const meter = new Meter();
  try {
    meter.count("requests", gateway, ["fetch"]);
    meter.count("requests", Blobs.prototype, ["fetch"]);
    meter.count("calls", Branch.prototype, ["alarm"]);
    meter.count("calls", Pipeline.prototype, ["alarm"]);
    meter.count("calls", Fleet.prototype, ["alarm"]);
    meter.count("classA", Object.getPrototypeOf(env.BLOBS), ["put", "list", "createMultipartUpload"]);
    meter.count("classB", Object.getPrototypeOf(env.BLOBS), ["get", "head"]);
    meter.count("rowsWritten", storage, ["setAlarm"]);
    meter.countCalls();
    meter.countStatements();
    meter.countQueries();
    return await work(() => meter.bill());
  } finally {
    meter.end();
  }
}

/** What storages of objects have their methods from. */
async function storagePrototype(): Promise<object> {
  const stub = env.BRANCH.getByName("master.cost-meter");
  return await runInDurableObject(stub, (_, { storage }) => Object.getPrototypeOf(storage));
}

let isPaused = false;

/** Does something in one turn that is charged to nobody, such as a look at rows. */
export function uncounted<T>(look: () => T): T {
  isPaused = true;
  try {
    return look();
  } finally {
    isPaused = false;
  }
}

class Meter {
  readonly #counts = {
    requests: 0,
    calls: 0,
    rowsRead: 0,
    rowsWritten: 0,
    classA: 0,
    classB: 0,
    d1Queries: 0,
  };
  readonly #spans: Span[] = [];
  /** Of the newest statement: it has all its rows once another is executed. */
  #newest: Pick<SqlStorageCursor<never>, "rowsRead" | "rowsWritten"> = { rowsRead: 0, rowsWritten: 0 };
  readonly #undo: (() => void)[] = [];

  /** Counts calls of methods. */
  count(what: keyof Bill, of: object, names: readonly string[]): void {
    for (const name of names)
      this.#replace(of, name, (real, self, args) => {
        this.#counts[what] += 1;
        return real.apply(self, args);
      });
  }

  /** Counts calls of objects of all classes. */
  countCalls(): void {
    this.#replace(Object.getPrototypeOf(env.BRANCH), "getByName", (real, self, args) => {
      const [object] = args as [string];
      return new Proxy(real.apply(self, args), {
        get: (stub, call) => {
          if (call === "id" || call === "name" || call === "then") return stub[call];
          return (...given: unknown[]) => this.#called(object, () => stub[call](...given));
        },
      });
    });
  }

  /** Counts the rows of statements in objects. What the tests themselves ask after each transaction is charged to nobody. */
  countStatements(): void {
    this.#replace(Sql.prototype, "execute", (real, self, args) => {
      const cursor = real.apply(self, args);
      if (args[0] === UNKEPT || isPaused) return cursor;
      this.#addRows();
      this.#newest = cursor;
      return cursor;
    });
  }

  /** A cursor is not kept for longer than it takes: a job of many datums executes millions of statements. */
  #addRows(): void {
    this.#counts.rowsRead += this.#newest.rowsRead;
    this.#counts.rowsWritten += this.#newest.rowsWritten;
    this.#newest = { rowsRead: 0, rowsWritten: 0 };
  }

  /** Counts queries of D1 and their rows. */
  countQueries(): void {
    const add = ({ meta }: D1Result): void => {
      this.#counts.rowsRead += meta.rows_read;
      this.#counts.rowsWritten += meta.rows_written;
    };
    const statements = Object.getPrototypeOf(env.DB.prepare("SELECT 1"));
    for (const name of ["all", "run"])
      this.#replace(statements, name, async (real, self, args) => {
        this.#counts.d1Queries += 1;
        const result = await real.apply(self, args);
        add(result);
        return result;
      });
    // Its answer does not say how many rows it took.
    this.#replace(statements, "first", async (_, self) => {
      const { results } = await self.all();
      return results[0] ?? null;
    });
    this.#replace(Object.getPrototypeOf(env.DB), "batch", async (real, self, args) => {
      this.#counts.d1Queries += 1;
      const results: D1Result[] = await real.apply(self, args);
      for (const result of results) add(result);
      return results;
    });
  }

  bill(): TimedBill {
    this.#addRows();
    return { ...this.#counts, secondsAtWork: secondsOf(this.#spans) };
  }

  end(): void {
    for (const undo of this.#undo.splice(0)) undo();
  }

  async #called<T>(object: string, call: () => Promise<T>): Promise<T> {
    this.#counts.calls += 1;
    const span = { object, from: Date.now(), to: Number.POSITIVE_INFINITY };
    this.#spans.push(span);
    try {
      return await call();
    } finally {
      span.to = Date.now();
    }
  }

  #replace(of: object, name: string, by: (real: Method, self: Any, args: unknown[]) => unknown): void {
    const methods = of as Record<string, Method>;
    const real = methods[name];
    if (!real) throw new Error(`there is no method ${name}`);
    methods[name] = function (this: unknown, ...args: unknown[]) {
      return by(real, this, args);
    };
    this.#undo.push(() => {
      methods[name] = real;
    });
  }
}

/** How long calls were under way, those of one object together. One that has not ended goes on until now. */
function secondsOf(spans: readonly Span[]): number {
  const now = Date.now();
  let ms = 0;
  const ends = new Map<string, number>();
  for (const { object, from, to } of spans.toSorted((a, b) => a.from - b.from)) {
    const end = Math.min(to, now);
    const since = Math.max(from, ends.get(object) ?? 0);
    if (end <= since) continue;
    ms += end - since;
    ends.set(object, end);
  }
  return ms / 1000;
}

/** What each of several bills has at least: an alarm that rings in between adds to one of them. */
export function least([first, ...others]: readonly Bill[]): Bill {
  if (!first) throw new Error("there are no bills");
  const least = { ...first };
  for (const bill of others)
    for (const name of Object.keys(least) as (keyof Bill)[]) least[name] = Math.min(least[name], bill[name]);
  return least;
}
