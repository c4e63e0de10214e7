import { vi } from "vitest";
import { Loop } from "../../../worker/objects/loop.ts";
import { Transactions } from "../../../worker/objects/transaction.ts";
import { KILL } from "../pipeline/kill.ts";

/** Where in the life of a loop its object dies. */
export interface Death {
  /** What the object is called in the log. */
  readonly object: string;
  readonly loop: string;
  readonly when: "before" | "after";
  /** The step, from 1. */
  readonly step: number;
}

export const DEATHS = [
  { at: "before its first step", when: "before", step: 1 },
  { at: "after its first step", when: "after", step: 1 },
  { at: "between its first and its second step", when: "before", step: 2 },
] as const;

/** Kills an object once at a step of one of its loops. `abort` is called in the object. */
export function killAt({ object, loop, when, step }: Death, abort: () => void) {
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
export function swallow(loop: string, { lost, alone }: { lost: Place | undefined; alone: boolean }) {
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
  return frames.map(([, name = ""]) => name).find((name) => !name.endsWith(".wake")) ?? stack;
}
