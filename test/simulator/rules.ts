import { expect } from "vitest";

/** An object on a platform: a branch at rest, which has no alarm, and to which tables of a test can be added. */
export interface TestedObject {
  /** Does something where the object is, as one call of it by a stub of its own. Rejects if the instance ends before. */
  inside<T>(work: Inside<T>): Promise<T>;
  /** A stub for several calls. */
  stub(): Pick<TestedObject, "inside">;
  /** A call of the object's own, as others call it: its arguments are copied, and a function among them is one to call back. */
  call(name: string, args: readonly unknown[]): Promise<unknown>;
}

/** A call that an object has for the time of a test, beside its own. */
type TestCall = (state: DurableObjectState, ...args: never[]) => unknown;
const TEST_CALL = "call of a test";

/** Gives the object's class one more call while something is done. */
async function withCall(object: TestedObject, call: TestCall, work: () => Promise<unknown>): Promise<void> {
  interface Called {
    readonly ctx: DurableObjectState;
    call(name: string, args: readonly unknown[]): Promise<unknown>;
  }
  const type = await object.inside((_, instance) => {
    // The class itself: what tests run in may put others before it.
    let found = instance as object;
    while (!Object.hasOwn(found, "call")) found = Object.getPrototypeOf(found);
    return { is: () => found as Called };
  });
  const own = type.is().call;
  type.is().call = async function (this: Called, name, args) {
    return name === TEST_CALL ? await call(this.ctx, ...(args as never[])) : await own.call(this, name, args);
  };
  try {
    await work();
  } finally {
    type.is().call = own;
  }
}

type Inside<T> = (state: DurableObjectState, instance: { alarm?(): unknown }) => T | Promise<T>;

/** What the objects are built on: each rule is asked of workerd and of the simulation. */
export const RULES: Readonly<Record<string, (object: TestedObject) => Promise<void>>> = {
  async "bytes come out of SQL as an ArrayBuffer, numbers, texts and nulls as they went in"(object) {
    const row = await object.inside(({ storage: { sql } }) => {
      sql.exec("CREATE TABLE t (bytes BLOB, whole INTEGER, fraction REAL, text TEXT, none TEXT)");
      sql.exec("INSERT INTO t VALUES (?, ?, ?, ?, ?)", new Uint8Array([1, 2]), 2 ** 40, 0.5, "ä", null);
      const one = sql.exec("SELECT * FROM t").one();
      return {
        ...one,
        isBuffer: one.bytes instanceof ArrayBuffer,
        bytes: [...new Uint8Array(one.bytes as ArrayBuffer)],
      };
    });
    expect(row).toEqual({
      bytes: [1, 2],
      isBuffer: true,
      whole: 2 ** 40,
      fraction: 0.5,
      text: "ä",
      none: null,
    });
  },

  async "a numbered parameter may stand in several places, and in any order"(object) {
    const row = await object.inside(({ storage: { sql } }) =>
      sql.exec("SELECT ?2 AS b, ?1 AS a, ?2 AS c", 1, 2).one(),
    );
    expect(row).toEqual({ a: 1, b: 2, c: 2 });
  },

  async "a statement says whether it wrote"(object) {
    const written = await object.inside(({ storage: { sql } }) => {
      sql.exec("CREATE TABLE t (a INTEGER PRIMARY KEY)");
      const texts = [
        "INSERT INTO t VALUES (1), (2)",
        "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING",
        "SELECT * FROM t",
        "UPDATE t SET a = 3 WHERE a = 4",
        "DELETE FROM t WHERE a = 2",
      ];
      return texts.map((text) => sql.exec(text).rowsWritten > 0);
    });
    expect(written).toEqual([true, false, false, false, true]);
  },

  async "a statement that breaks a constraint throws, names it, and changes nothing"(object) {
    const [message, rows] = await object.inside(({ storage: { sql } }) => {
      sql.exec("CREATE TABLE t (a INTEGER PRIMARY KEY)");
      sql.exec("INSERT INTO t VALUES (2)");
      const error = thrownBy(() => sql.exec("INSERT INTO t VALUES (1), (2)"));
      return [String(error), sql.exec("SELECT a FROM t").toArray()];
    });
    expect(message).toContain("UNIQUE constraint failed: t.a");
    expect(rows).toEqual([{ a: 2 }]);
  },

  async "a transaction that throws is undone, and one in it alone if that is caught"(object) {
    const rows = await object.inside(({ storage }) => {
      const { sql } = storage;
      sql.exec("CREATE TABLE t (a)");
      storage.transactionSync(() => {
        sql.exec("INSERT INTO t VALUES ('outer')");
        thrownBy(() =>
          storage.transactionSync(() => {
            sql.exec("INSERT INTO t VALUES ('inner')");
            throw new Error("undo this");
          }),
        );
      });
      thrownBy(() =>
        storage.transactionSync(() => {
          sql.exec("DELETE FROM t");
          throw new Error("undo this, too");
        }),
      );
      return sql.exec("SELECT a FROM t").toArray();
    });
    expect(rows).toEqual([{ a: "outer" }]);
  },

  async "writes of one turn are one: an instance that ends in it has written none"(object) {
    await object.inside(({ storage }) => {
      storage.sql.exec("CREATE TABLE t (a)");
      return storage.sync();
    });
    await ends(object, (state) => {
      state.storage.sql.exec("INSERT INTO t VALUES (1)");
      state.storage.sql.exec("INSERT INTO t VALUES (2)");
      state.abort("it ends");
    });
    expect(await rowsOf(object)).toEqual([]);
  },

  async "what was synced is there when the instance has ended"(object) {
    await ends(object, async (state) => {
      state.storage.sql.exec("CREATE TABLE t (a)");
      state.storage.sql.exec("INSERT INTO t VALUES (1)");
      await state.storage.sync();
      state.abort("it ends");
    });
    expect(await rowsOf(object)).toEqual([{ a: 1 }]);
  },

  async "an answer says what is durable: it is still there if the instance ends right after"(object) {
    await object.inside(({ storage: { sql } }) => {
      sql.exec("CREATE TABLE t (a)");
      sql.exec("INSERT INTO t VALUES (1)");
    });
    await ends(object, (state) => state.abort("it ends"));
    expect(await rowsOf(object)).toEqual([{ a: 1 }]);
  },

  async "when an instance ends, its calls under way fail, and the next call finds another one"(object) {
    let isUnderWay = false;
    const waiting = object.inside(() => {
      isUnderWay = true;
      return new Promise(() => {});
    });
    const failed = expect(waiting).rejects.toThrow("it ends");
    while (!isUnderWay) await object.inside(() => {});
    await ends(object, (state) => state.abort("it ends"));
    await failed;
    expect(await object.inside(() => "up")).toBe("up");
  },

  async "an alarm is part of what is written: a transaction that is undone sets none"(object) {
    const alarm = await object.inside(async ({ storage }) => {
      storage.sql.exec("CREATE TABLE t (a)");
      thrownBy(() =>
        storage.transactionSync(() => {
          void storage.setAlarm(Date.now() + DAY_MS);
          throw new Error("undo this");
        }),
      );
      return await storage.getAlarm();
    });
    expect(alarm).toBe(null);
  },

  async "an alarm that is set in a turn which ends the instance is not set"(object) {
    await object.inside(({ storage: { sql } }) => void sql.exec("CREATE TABLE t (a)"));
    await ends(object, (state) => {
      void state.storage.setAlarm(Date.now() + DAY_MS);
      state.abort("it ends");
    });
    expect(await object.inside(({ storage }) => storage.getAlarm())).toBe(null);
  },

  async "there is one alarm: the last that was set, or none once it is deleted"(object) {
    const now = await object.inside(() => Date.now());
    const set = (at: number) => object.inside(({ storage }) => storage.setAlarm(at));
    const get = () => object.inside(({ storage }) => storage.getAlarm());
    await set(now + DAY_MS);
    await set(now + 2 * DAY_MS);
    expect(await get()).toBe(now + 2 * DAY_MS);
    await object.inside(({ storage }) => storage.deleteAlarm());
    expect(await get()).toBe(null);
  },

  async "calls of one stub arrive in the order in which they were made"(object) {
    const stub = object.stub();
    const arrived: number[] = [];
    const numbers = Array.from({ length: 20 }, (_, number) => number);
    await Promise.all(numbers.map((number) => stub.inside(() => void arrived.push(number))));
    expect(arrived).toEqual(numbers);
  },

  async "a function among the arguments of a call is called where it is from, and its answer comes back"(
    object,
  ) {
    const asked: number[] = [];
    const double = (value: number): number => {
      asked.push(value);
      return 2 * value;
    };
    const sum = async (_: DurableObjectState, back: typeof double) => (await back(1)) + (await back(2));
    await withCall(object, sum, async () => {
      expect(await object.call(TEST_CALL, [double])).toBe(6);
    });
    expect(asked).toEqual([1, 2]);
  },

  async "an error of a function that is called back is one where it was called"(object) {
    const fails = () => {
      throw new Error("the function fails");
    };
    const caught = async (_: DurableObjectState, back: () => unknown) => {
      try {
        await back();
      } catch (error) {
        return String(error);
      }
      return "nothing failed";
    };
    await withCall(object, caught, async () => {
      expect(await object.call(TEST_CALL, [fails])).toContain("the function fails");
    });
  },

  async "an alarm rings when it is due, and is gone when its handler has done its work"(object) {
    let rang = 0;
    await object.inside(({ storage }, instance) => {
      instance.alarm = () => void rang++;
      return storage.setAlarm(Date.now() + 20);
    });
    await until(object, () => rang > 0);
    await until(object, async ({ storage }) => (await storage.getAlarm()) === null);
    expect(rang).toBe(1);
  },

  async "an alarm that its handler sets for the time for which it was set already rings again"(object) {
    let rang = 0;
    await object.inside(({ storage }, instance) => {
      const at = Date.now() + 20;
      instance.alarm = () => (++rang === 1 ? storage.setAlarm(at) : undefined);
      return storage.setAlarm(at);
    });
    await until(object, () => rang > 1);
    await until(object, async ({ storage }) => (await storage.getAlarm()) === null);
    expect(rang).toBe(2);
  },

  async "an alarm whose handler fails rings again"(object) {
    let rang = 0;
    await object.inside(({ storage }, instance) => {
      instance.alarm = () => {
        rang++;
        if (rang === 1) throw new Error("the handler fails");
      };
      return storage.setAlarm(Date.now() + 20);
    });
    await until(object, () => rang > 1);
    expect(await object.inside(({ storage }) => storage.getAlarm())).toBe(null);
  },

  async "an alarm rings again if the instance ends while its handler is at work"(object) {
    let rang = 0;
    await object.inside((state, instance) => {
      instance.alarm = () => {
        rang++;
        state.abort("it ends");
      };
      return state.storage.setAlarm(Date.now() + 20);
    });
    await until(object, () => rang > 0);
    await object.inside((_, instance) => {
      instance.alarm = () => void rang++;
    });
    await until(object, () => rang > 1);
    expect(await object.inside(({ storage }) => storage.getAlarm())).toBe(null);
  },
};

/**
 * Rules that are asked of the simulation alone: what tests of workerd run in takes the end of an object amid such a call for an
 * error that nobody handles.
 */
export const SIMULATED_RULES: typeof RULES = {
  async "a function is called back only once what the object wrote before is durable"(object) {
    await object.inside(({ storage }) => {
      storage.sql.exec("CREATE TABLE t (a)");
      return storage.sync();
    });
    const told: unknown[][] = [];
    const tell = async () => {
      await ends(object, (state) => state.abort("it ends"));
      told.push(await rowsOf(object));
    };
    const writes = async ({ storage }: DurableObjectState, back: () => unknown) => {
      storage.sql.exec("INSERT INTO t VALUES (1)");
      await back();
    };
    await withCall(object, writes, async () => {
      await expect(object.call(TEST_CALL, [tell])).rejects.toThrow("it ends");
      while (told.length === 0) await object.inside(() => scheduler.wait(10)).catch(() => {});
    });
    expect(told).toEqual([[{ a: 1 }]]);
  },
};

/** Rules that take minutes of a real clock. */
export const SLOW_RULES: typeof RULES = {
  async "an alarm whose handler fails again and again is tried six times more, and then is no more"(object) {
    let rang = 0;
    await object.inside(({ storage }, instance) => {
      instance.alarm = () => {
        rang++;
        throw new Error("the handler fails");
      };
      return storage.setAlarm(Date.now() + 20);
    });
    const isOver: Inside<boolean> = async ({ storage }) => rang > 6 && (await storage.getAlarm()) === null;
    await until(object, isOver, { everyMs: 1_000 });
    expect(rang).toBe(7);
    await object.inside((_, instance) => {
      instance.alarm = () => void rang++;
    });
    await object.inside(() => scheduler.wait(5_000));
    expect(rang).toBe(7);
  },
};

/** Lets time pass where the object is until something is so. An instance that ends meanwhile is followed by another. */
async function until(
  object: TestedObject,
  isSo: Inside<boolean>,
  { everyMs }: { everyMs: number } = { everyMs: 50 },
): Promise<void> {
  const look: Inside<boolean> = async (state, instance) => {
    await scheduler.wait(everyMs);
    return await isSo(state, instance);
  };
  while (!(await object.inside(look).catch(() => false)));
}

const DAY_MS = 24 * 60 * 60 * 1000;

function thrownBy(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

async function ends(object: TestedObject, work: Inside<unknown>): Promise<void> {
  await expect(object.inside(work)).rejects.toThrow("it ends");
}

function rowsOf(object: TestedObject): Promise<unknown[]> {
  return object.inside(({ storage: { sql } }) => sql.exec("SELECT a FROM t").toArray());
}
