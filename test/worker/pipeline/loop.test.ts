import { expect, test, vi } from "vitest";
import { Loop } from "../../../worker/pipeline/engine/loop.ts";

test("work whose next try can't be written down comes to rest, and is tried at the next wake", async () => {
  const told = vi.spyOn(console, "warn").mockImplementation(() => {});
  const tries: number[] = [];
  const loop = new Loop(
    async () => {
      tries.push(tries.length);
      if (tries.length === 1) throw new Error("the store is away");
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
