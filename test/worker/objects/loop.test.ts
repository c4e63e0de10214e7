import { afterEach, expect, test, vi } from "vitest";
import { Engine } from "../../../worker/objects/engine.ts";
import { Loop, WATCH_MS } from "../../../worker/objects/loop.ts";

afterEach(() => {
  vi.useRealTimers();
});

/** A loop with a clock of its own. `rung`: the times by which it wants the alarm to ring. */
function loopOf(step: () => boolean | undefined, due: () => number | undefined = () => undefined) {
  const clock = { now: 1_000_000 };
  const rung: number[] = [];
  const told: { tries: number; retryMs: number }[] = [];
  const loop = new Loop(
    { name: "work", due, step },
    {
      object: () => "an object",
      now: () => clock.now,
      afterAnswers: false,
      ringBy: (at) => rung.push(at - clock.now),
      failed: ({ tries, retryMs }) => told.push({ tries, retryMs }),
    },
  );
  return { loop, clock, rung, told };
}

test("work whose next try can't be written down comes to rest, and is tried at the next wake", async () => {
  const told = vi.spyOn(console, "warn").mockImplementation(() => {});
  const tries: number[] = [];
  const { loop } = loopOf(
    () => {
      tries.push(tries.length);
      if (tries.length === 1) throw new Error("the store is away");
      return undefined;
    },
    () => {
      throw new Error("the store is away for alarms too");
    },
  );
  await loop.wake();
  expect(loop.resting).toBeUndefined();
  expect(told).toHaveBeenCalledTimes(1);
  await loop.wake();
  expect(tries).toEqual([0, 1]);
});

test("a loop that fails says with what, and waits longer each time, until it does not", async () => {
  let broken = true;
  const { loop, rung, told } = loopOf(
    () => {
      if (broken) throw new Error("the catalogue is away");
      return undefined;
    },
    () => (broken ? 0 : undefined),
  );
  await loop.wake();
  await loop.wake();
  expect(loop.standing).toMatchObject({ state: "failing", tries: 2, error: "Error: the catalogue is away" });
  expect(told).toEqual([
    { tries: 1, retryMs: 1000 },
    { tries: 2, retryMs: 2000 },
  ]);
  expect(rung).toEqual([1000, 2000]);
  for (let tries = 3; tries < 12; tries++) await loop.wake();
  expect(rung.at(-1)).toBe(60_000);
  broken = false;
  await loop.wake();
  expect(loop.standing).toEqual({ name: "work", state: "idle", due: null, tries: 0, error: null });
});

test("a step that goes on is called again, one that rests is called when it is due or woken", async () => {
  let left = 3;
  const { loop, clock, rung } = loopOf(
    () => {
      left = Math.max(left - 1, 0);
      return left > 0;
    },
    () => (left > 0 ? 0 : clock.now + 5000),
  );
  await loop.wake();
  expect(left).toBe(0);
  expect(rung).toEqual([5000]);
});

test("a loop that is due and can't go on is looked after in ten seconds, not at once again", async () => {
  let steps = 0;
  const { loop, rung, clock } = loopOf(
    () => {
      steps++;
      return undefined;
    },
    () => 0,
  );
  await loop.wake();
  expect([steps, rung, loop.next()]).toEqual([1, [10_000], clock.now + 10_000]);
});

test("a wake in the middle of a step is not lost", async () => {
  let steps = 0;
  const { loop } = loopOf(() => {
    if (steps++ === 0) void loop.wake();
    return undefined;
  });
  await loop.wake();
  expect(steps).toBe(2);
});

test("a loop that goes on lets others in after each of its steps", async () => {
  const order: string[] = [];
  let left = 5;
  const { loop } = loopOf(() => {
    order.push("step");
    left--;
    return left > 0;
  });
  const resting = loop.wake();
  while (left > 0) {
    order.push("other");
    await scheduler.wait(0);
  }
  await resting;
  expect(order.filter((each) => each === "step")).toHaveLength(5);
  expect(order.join()).not.toContain("step,step");
});

test("an alarm ends without work that hangs, and another one looks after that", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const now = 1_000_000;
  const alarms: number[] = [];
  const engine = new Engine({
    object: () => "an object",
    exists: () => true,
    now: () => now,
    storage: { setAlarm: async (at) => void alarms.push(Number(at) - now), deleteAlarm: async () => {} },
    loops: [{ name: "work", due: () => 0, step: () => new Promise<never>(() => {}) }],
  });
  let ended = false;
  void engine.alarm().then(() => {
    ended = true;
  });
  await vi.advanceTimersByTimeAsync(20_000);
  expect(ended).toBe(true);
  expect(alarms.at(-1)).toBe(WATCH_MS);
});
