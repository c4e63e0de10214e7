import { AsyncResource } from "node:async_hooks";
import { type Actor, actorNow } from "./world.ts";

/*
 * The clock, the timers and the random numbers that simulated code sees. They are replaced once; code that is no part of a
 * simulation gets the real ones, by the context that it runs in.
 */

const real = {
  now: Date.now,
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  setInterval: globalThis.setInterval,
  clearInterval: globalThis.clearInterval,
  getRandomValues: crypto.getRandomValues.bind(crypto),
  randomUUID: crypto.randomUUID.bind(crypto),
  random: Math.random,
  error: console.error,
} as const;

/** A timer of a simulation. */
class Timer {
  isCleared = false;
}

function startTimer(
  actor: Actor,
  { ms, work, again }: { ms: number; work: () => void; again: boolean },
): Timer {
  const timer = new Timer();
  const wait = () =>
    actor.world.after(ms, () => {
      if (timer.isCleared || !actor.isAlive) return;
      if (again) wait();
      work();
    });
  wait();
  return timer;
}

function timerOf(again: boolean) {
  return (work: (...args: unknown[]) => void, ms = 0, ...args: unknown[]): unknown => {
    const actor = actorNow();
    if (!actor) return (again ? real.setInterval : real.setTimeout)(work, ms, ...args);
    return startTimer(actor, { ms, work: AsyncResource.bind(() => work(...args)), again });
  };
}

function clear(timer: unknown): void {
  if (timer instanceof Timer) timer.isCleared = true;
  else real.clearTimeout(timer as Parameters<typeof clearTimeout>[0]);
}

/** Waits for a time of the simulation. */
export function pause(actor: Actor, ms: number): Promise<void> {
  return new Promise((resolve) => {
    actor.world.after(ms, () => {
      if (actor.isAlive) resolve();
    });
  });
}

const scheduler = {
  wait: (ms: number): Promise<void> => {
    const actor = actorNow();
    return actor ? pause(actor, ms) : new Promise((resolve) => void real.setTimeout(resolve, ms));
  },
};

function randomBytes(actor: Actor, length: number): Uint8Array {
  return actor.world.random.bytes(length);
}

const replaced = {
  getRandomValues<T extends ArrayBufferView>(into: T): T {
    const actor = actorNow();
    if (!actor) return real.getRandomValues(into as never);
    new Uint8Array(into.buffer, into.byteOffset, into.byteLength).set(randomBytes(actor, into.byteLength));
    return into;
  },
  randomUUID(): string {
    const actor = actorNow();
    if (!actor) return real.randomUUID();
    const hex = Buffer.from(randomBytes(actor, 16)).toString("hex");
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
  },
};

/** To be called once, before a simulation begins. */
export function replaceGlobals(): void {
  Date.now = () => {
    const actor = actorNow();
    return actor ? Math.floor(actor.world.clock) : real.now();
  };
  console.error = (...what: unknown[]) => {
    const actor = actorNow();
    if (actor) actor.world.errors.push(what);
    else real.error(...what);
  };
  Math.random = () => actorNow()?.world.random.next() ?? real.random();
  Object.assign(globalThis, {
    setTimeout: timerOf(false),
    setInterval: timerOf(true),
    clearTimeout: clear,
    clearInterval: clear,
    scheduler,
  });
  for (const [name, value] of Object.entries(replaced))
    Object.defineProperty(crypto, name, { value, configurable: true });
}
