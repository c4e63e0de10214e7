import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { vi } from "vitest";
import { R2BlobStore } from "../../../../worker/blobs/stores.ts";
import { Ledger as BranchLedger } from "../../../../worker/branch/ledger/ledger.ts";
import { Sql } from "../../../../worker/objects/sql.ts";
import { Ledger as PipelineLedger } from "../../../../worker/pipeline/ledger/ledger.ts";

/** What everything says that meets a crash. */
const DEAD = "the test has let it die";

/** The clock of the test's own requests: the objects' one is ahead of it. */
export const realNow: () => number = Date.now;

/** So far the clock is ahead at first that no alarm ever rings by itself: the test rings them. */
const AHEAD_MS = 10 * 365 * 24 * 60 * 60 * 1000;

/** How long effects may take that were under way at a death: a store of the test takes milliseconds. */
const LAST_EFFECTS_MS = 1000;

export type AnyStub = DurableObjectStub<undefined>;

/** A death before the effect of this number, counted from 1: of everything, or, after that effect, of the object that had it. */
export interface Crash {
  readonly effect: number;
  readonly of: "gateway" | "object";
}

export interface CrashEnd {
  /** Whether the effect was come to. */
  readonly died: boolean;
  /** Whether the work was told that it is done: then it is, whatever died after that. */
  readonly acknowledged: boolean;
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

/**
 * Whatever the gateway and its objects do that lasts: a transaction of an object, a statement outside of one, a blob
 * that is put or deleted, a write to D1. All of it passes through here, so that a test can let everything die between
 * any two of them. The clock of the objects is the test's too.
 */
export class Effects {
  #offsetMs = AHEAD_MS;
  #crash: Crash | undefined;
  #count = 0;
  #depth = 0;
  #isDead = false;
  /** The ledger of an object that died alone. */
  #corpse: unknown;
  readonly #underWay = new Set<Promise<unknown>>();

  readonly #restore: (() => void)[] = [];

  /** From now on, until its end. Objects that were made before keep the clock that they had. */
  constructor() {
    vi.spyOn(Date, "now").mockImplementation(() => realNow() + this.#offsetMs);
    vi.spyOn(console, "warn").mockImplementation(() => {});
    for (const ledger of [BranchLedger.prototype, PipelineLedger.prototype]) {
      this.#around(ledger, "transaction", (self, work) => this.#inTransaction(self, () => work()));
    }
    this.#around(Sql.prototype, "execute", (_, work, [text]) =>
      this.#depth > 0 || !WRITES.test(String(text)) ? work() : this.#inTransaction(undefined, () => work()),
    );
    this.#around(R2BlobStore.prototype, "put", (_, work) => this.#outside(() => work()));
    this.#around(R2BlobStore.prototype, "delete", async (_, work, [names]) => {
      // A crash may come between any two of them.
      for (const name of names as readonly string[]) await this.#outside(() => work([name]));
    });
    const statement = Object.getPrototypeOf(env.DB.prepare("SELECT 1"));
    this.#around(statement, "run", (_, work) => this.#outside(() => work()));
    this.#around(Object.getPrototypeOf(env.DB), "batch", (_, work) => this.#outside(() => work()));
  }

  /** Everything is again as it was before. */
  end(): void {
    for (const restore of this.#restore.reverse()) restore();
  }

  /** Time passes, for all objects. */
  pass(ms: number): void {
    this.#offsetMs += ms;
  }

  /** Does `work`, which dies at the crash if it comes to it; then everything that had died starts anew. */
  async crash(
    crash: Crash,
    work: () => Promise<unknown>,
    objects: () => readonly AnyStub[],
  ): Promise<CrashEnd> {
    this.#crash = crash;
    this.#count = 0;
    let isDone = false;
    let acknowledged = false;
    const done = work()
      .then(
        () => {
          acknowledged = true;
        },
        (error: unknown) => {
          if (!this.#died) throw error;
        },
      )
      .finally(() => {
        isDone = true;
      });
    // A promise that is resolved in an object's call would die with it.
    while (!isDone && !this.#died) await scheduler.wait(1);
    this.#crash = undefined;
    if (!this.#died) {
      await done;
      return { died: false, acknowledged };
    }
    // An object that dies takes with it whoever waits for it.
    for (const object of objects()) await abort(object);
    await done;
    // What an object had begun in a store may still happen there, but who would tell of it may have died with the object.
    await Promise.race([Promise.allSettled(this.#underWay), scheduler.wait(LAST_EFFECTS_MS)]);
    this.#underWay.clear();
    this.#isDead = false;
    this.#corpse = undefined;
    for (const index of objects().keys()) await answered(() => objects()[index]);
    return { died: true, acknowledged };
  }

  get #died(): boolean {
    return this.#isDead || this.#corpse !== undefined;
  }

  /** `work` calls the method as it was, with the same arguments unless there are others. */
  #around(
    of: object,
    method: string,
    effect: (self: unknown, work: (...others: unknown[]) => unknown, args: unknown[]) => unknown,
  ): void {
    const methods = of as Record<string, Method>;
    const original = methods[method] as Method;
    methods[method] = function (this: unknown, ...args) {
      return effect(this, (...others) => original.apply(this, others.length > 0 ? others : args), args);
    };
    this.#restore.push(() => {
      methods[method] = original;
    });
  }

  /** An effect of an object; `owner` is its ledger. */
  #inTransaction(owner: unknown, work: () => unknown): unknown {
    if (this.#depth > 0) return work();
    this.#meetDeath(owner);
    const result = this.#deeper(work);
    const { effect, of } = this.#crash ?? {};
    if (effect === undefined || of !== "object" || owner === undefined || this.#count < effect) return result;
    // What else the same turn writes, such as an alarm, is written with it or not at all.
    this.#crash = undefined;
    queueMicrotask(() => {
      this.#corpse = owner;
    });
    return result;
  }

  #deeper<T>(work: () => T): T {
    this.#depth++;
    try {
      return work();
    } finally {
      this.#depth--;
    }
  }

  /** An effect in the blob store or in D1. */
  async #outside<T>(work: () => T): Promise<Awaited<T>> {
    this.#meetDeath(undefined);
    const result = Promise.resolve(work());
    this.#underWay.add(result);
    try {
      return await result;
    } finally {
      this.#underWay.delete(result);
    }
  }

  #meetDeath(owner: unknown): void {
    if (this.#isDead || (owner !== undefined && owner === this.#corpse)) throw new Error(DEAD);
    this.#count++;
    if (this.#crash?.of !== "gateway" || this.#count < this.#crash.effect) return;
    this.#isDead = true;
    this.#die();
  }

  #die(): never {
    this.#crash = undefined;
    throw new Error(DEAD);
  }
}

const WRITES = /^\s*(INSERT|UPDATE|DELETE|REPLACE)/i;

/** Instances that were killed: a call that comes soon after may still reach one. */
const killed = new WeakSet<object>();

/** What the object has in memory is gone, what it has written down is not. */
async function abort(object: AnyStub): Promise<void> {
  try {
    await runInDurableObject(object, (instance, state) => {
      killed.add(instance);
      state.abort(DEAD);
    });
  } catch (error) {
    if (!(error instanceof Error && error.message.includes(DEAD))) throw error;
  }
}

/** Tries until an object that was killed answers. */
const TRIES = 200;

/** Calls an object, which was killed, until it answers: by a new stub each time, since one that met the death is broken. */
async function answered(object: () => AnyStub | undefined): Promise<void> {
  for (let tries = 1; ; tries++) {
    const stub = object();
    if (!stub) return;
    try {
      if (!(await runInDurableObject(stub, (instance) => killed.has(instance)))) return;
      if (tries === TRIES) throw new Error("an object that was killed lives on");
    } catch (error) {
      if (tries === TRIES || !(error instanceof Error && error.message.includes(DEAD))) throw error;
    }
    await scheduler.wait(1);
  }
}

/** More than any work rings in the time that a test lets pass. */
const MOST_RINGS = 5000;
/** Alarms whose work died: as on the platform, they ring again. */
const missed = new Map<string, number>();

/** Time passes, and each alarm of these objects rings when it is due. */
export async function passTime(effects: Effects, ms: number, objects: readonly AnyStub[]): Promise<void> {
  for (const object of objects) {
    const at = missed.get(`${object.id}`);
    if (at === undefined) continue;
    await runInDurableObject(object, async (_, { storage }) => {
      if ((await storage.getAlarm()) === null) await storage.setAlarm(at);
    });
    missed.delete(`${object.id}`);
  }
  const end = Date.now() + ms;
  for (let rings = 0; ; rings++) {
    if (rings > MOST_RINGS) throw new Error("an alarm rings for ever");
    let next: { at: number; object: AnyStub } | undefined;
    for (const object of objects) {
      const at = await alarmOf(object);
      if (at !== null && at <= end && (!next || at < next.at)) next = { at, object };
    }
    if (!next) break;
    effects.pass(Math.max(0, next.at - Date.now()));
    missed.set(`${next.object.id}`, next.at);
    await runDurableObjectAlarm(next.object);
    missed.delete(`${next.object.id}`);
  }
  effects.pass(Math.max(0, end - Date.now()));
}

export function alarmOf(object: AnyStub): Promise<number | null> {
  return runInDurableObject(object, (_, { storage }) => storage.getAlarm());
}
