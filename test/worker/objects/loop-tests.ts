import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { LoopStanding } from "../../../worker/objects/loop.ts";
import { Loop } from "../../../worker/objects/loop.ts";
import { Transactions } from "../../../worker/objects/transaction.ts";
import { KILL, killed } from "../pipeline/kill.ts";

/** Where in the life of a loop its object dies. */
interface Death {
  /** What the object is called in the log. */
  readonly object: string;
  readonly loop: string;
  readonly when: "before" | "after";
  /** The step, from 1. */
  readonly step: number;
}

const DEATHS = [
  { at: "before its first step", when: "before", step: 1 },
  { at: "after its first step", when: "after", step: 1 },
  { at: "between its first and its second step", when: "before", step: 2 },
] as const;

/** Kills an object once at a step of one of its loops. `abort` is called in the object. */
function killAt({ object, loop, when, step }: Death, abort: () => void) {
  const { takeStep } = Loop.prototype;
  let seen = 0;
  let isKilled = false;
  const kill = (): never => {
    isKilled = true;
    abort();
    throw new Error(KILL);
  };
  const spy = vi.spyOn(Loop.prototype, "takeStep").mockImplementation(async function (this: Loop) {
    const isIt = this.object === object && this.name === loop && ++seen === step;
    if (isIt && when === "before") kill();
    const next = await takeStep.call(this);
    return isIt ? kill() : next;
  });
  return { isKilled: () => isKilled, end: () => spy.mockRestore() };
}

/** A method that wakes a loop, such as `Outbox.ring`. */
type Place = string;

/**
 * Hears of each wake of a loop, and swallows those of one place: the runtime never learns of them. `alone`: nor of those of
 * other loops, whose alarm would come in time for this one, too.
 */
function swallow(loop: string, { lost, alone }: { lost: Place | undefined; alone: boolean }) {
  const { wake } = Transactions.prototype;
  const places = new Set<Place>();
  const spy = vi.spyOn(Transactions.prototype, "wake").mockImplementation(function (
    this: Transactions,
    woken,
    at,
  ) {
    if (woken !== loop) {
      if (!alone) wake.call(this, woken, at);
      return;
    }
    const place = placeOf(new Error().stack ?? "");
    places.add(place);
    if (place !== lost) wake.call(this, woken, at);
  });
  return { places, end: () => spy.mockRestore() };
}

/** Who called `wake`: the first that does more than hand it on. */
function placeOf(stack: string): Place {
  const frames = [...stack.matchAll(/at (?:async )?([\w.#]+) \(.*\/worker\/(?:branch|pipeline)\//g)];
  return frames.map(([, name = ""]) => name).find((name) => !/\.wake$|#changed$/.test(name)) ?? stack;
}

/** Work for one loop of an object. */
export interface Work {
  /** The object's. */
  readonly name: string;
  /** Gives it to the loop. */
  begin(): Promise<unknown>;
  /** What whoever gave it does if no answer came, since the object died before the work was written down. */
  again?(): Promise<unknown>;
  /** It is to be done later: the statement by which that time has come. Absent: it is to be done at once. */
  readonly passes?: string;
  /** Whether the loop did it. */
  isDone(): Promise<boolean>;
}

export interface Scenario {
  readonly loop: string;
  readonly what: string;
  /**
   * The methods whose wake has the work done; none: whoever gives the work wakes the loop and waits for it, or several places
   * wake it in one transaction.
   */
  readonly wokenBy: readonly string[];
  /** Only the wake is tested: the work itself is that of another scenario, which has the object die. */
  readonly wakeOnly?: true;
  prepare(): Promise<Work>;
}

/** A kind of object, as its scenarios reach it: by name, since a stub is of no use when its object has died. */
export interface Kind {
  readonly kind: "branch" | "pipeline";
  stub(name: string): DurableObjectStub;
  loops(name: string): Promise<{ readonly loops: readonly LoopStanding[] } | null>;
  kill(name: string): Promise<void>;
}

const LONG = { timeout: 20_000 };

/** Tests of all loops of a kind of object: each has a scenario. */
export function testLoops(kindOptions: Kind, scenarios: readonly Scenario[]): void {
  const { kind, stub, kill } = kindOptions;
  const { standing, ring, rests, alarmFits } = lookAt(kindOptions);

  test(`every loop of a ${kind} has work here`, async () => {
    const { name } = (await scenarios[0]?.prepare()) ?? { name: "" };
    const all = (await standing(name)).map((loop) => loop.name).sort();
    expect([...new Set(scenarios.map(({ loop }) => loop))].sort()).toEqual(all);
  });

  describe.each(scenarios.filter(({ wakeOnly }) => !wakeOnly))(titleOf(kind), ({ loop, prepare }) => {
    test.each(DEATHS)("goes on if the object dies $at, and then the object rests", async ({ when, step }) => {
      vi.spyOn(console, "warn").mockImplementation(() => {});
      const { name, begin, again, passes, isDone } = await prepare();
      let abort = (): void => {};
      await runInDurableObject(stub(name), (_, state) => {
        abort = () => state.abort(KILL);
      });
      const death = killAt({ object: `${kind} ${name}`, loop, when, step }, () => abort());
      const work = async () => {
        await begin();
        if (passes !== undefined) await exec(stub(name), passes).then(() => ring(name));
      };
      await work().catch(unlessKilled);
      // A loop may be done before so many steps: then the object dies at rest.
      const stood = async () => death.isKilled() || ((await isDone()) && (await rests(name)));
      await expect.poll(() => stood().catch(unlessKilled), LONG).toBe(true);
      death.end();
      await kill(name);
      await again?.();
      const goesOn = async () => {
        await ring(name);
        return (await isDone()) && (await rests(name)) && (await alarmFits(name));
      };
      await expect.poll(() => goesOn().catch(unlessKilled), LONG).toBe(true);
    });
  });

  // Last: what any test has mocked ends there.
  testWakes(kindOptions, scenarios);
}

/** Tests that each of these scenarios needs the wakes of the places that it names. */
export function testWakes(kindOptions: Omit<Kind, "kill">, scenarios: readonly Scenario[]): void {
  const { isStill, isCovered, isSettled } = lookAt(kindOptions);

  afterEach(() => {
    vi.restoreAllMocks();
  });

  describe.each(scenarios)(titleOf(kindOptions.kind), ({ loop, wokenBy, prepare }) => {
    test("is woken by what gives it its work: if that wake is lost, it sleeps", async () => {
      const run = async (lost?: string) => {
        const { name, begin, passes, isDone } = await prepare();
        // What stands for other loops is done with: no alarm of theirs comes in between.
        await expect.poll(() => isSettled(name), LONG).toBe(true);
        const wakes = swallow(loop, { lost, alone: passes !== undefined });
        await begin();
        await expect.poll(() => isStill(name), LONG).toBe(true);
        wakes.end();
        const sleeps = passes === undefined ? !(await isDone()) : !(await isCovered(name, loop));
        return { places: [...wakes.places], sleeps };
      };
      const { places, sleeps } = await run();
      expect(sleeps).toBe(false);
      const found = [];
      for (const place of places) if ((await run(place)).sleeps) found.push(place);
      expect(found).toEqual(wokenBy);
    });
  });
}

/** What a scenario is called. */
function titleOf(kind: Kind["kind"]): string {
  return `the loop '$loop' of a ${kind}, when $what,`;
}

/** How the loops and the alarm of an object of this kind stand. */
function lookAt({ stub, loops }: Omit<Kind, "kill">) {
  const standing = async (name: string) => (await loops(name))?.loops ?? [];
  const alarmOf = (name: string) => runInDurableObject(stub(name), (_, { storage }) => storage.getAlarm());
  const ring = (name: string) => runDurableObjectAlarm(stub(name));

  /** Whether no loop is at work. */
  const isStill = async (name: string) => (await standing(name)).every(({ state }) => state !== "running");
  /** Whether no loop has anything to do now. */
  const rests = async (name: string) =>
    (await standing(name)).every(
      ({ state, due }) => state === "idle" || (state === "due" && (due ?? 0) > Date.now()),
    );
  /** An alarm stands if, and only if, a loop has something to do at some time. */
  const alarmFits = async (name: string) => {
    const isIdle = (await standing(name)).every(({ state }) => state === "idle");
    return isIdle === ((await alarmOf(name)) === null);
  };
  /** Whether an alarm stands by which a loop does its work in time. */
  const isCovered = async (name: string, loop: string) => {
    const due = (await standing(name)).find((each) => each.name === loop)?.due ?? null;
    const alarm = await alarmOf(name);
    return due !== null && alarm !== null && alarm <= due;
  };
  /** Whether what is due is done, and the alarm is that of what is due later. */
  const isSettled = async (name: string) => {
    await ring(name);
    return (await isStill(name)) && (await rests(name));
  };
  return { standing, ring, isStill, rests, alarmFits, isCovered, isSettled };
}

/** Runs statements where the object is. */
export function exec(stub: DurableObjectStub, text: string): Promise<unknown[]> {
  return runInDurableObject(stub, (_, { storage }) => storage.sql.exec(text).toArray());
}

/** What dies with its object is no fault. */
function unlessKilled(error: unknown): false {
  if (!killed(error)) throw error;
  return false;
}
