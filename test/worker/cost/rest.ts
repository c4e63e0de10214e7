import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { expect, vi } from "vitest";
import type { Faceted } from "../../../worker/objects/facets.ts";
import type { LoopStanding } from "../../../worker/objects/loop.ts";
import { uncounted } from "./meter.ts";

/** More than it takes until what a request leaves behind is done. */
const WITHIN_MS = 60 * 60_000;

/** How an object stands: when its alarm rings, and when its loops have something to do. */
interface Standing {
  readonly alarm: number | null;
  readonly isAtWork: boolean;
  readonly due: number;
}

/**
 * Lets alarms ring and time pass, by the clock that the test has set, until none of these objects has anything left to do within
 * an hour. They must be stubs from before anything is counted.
 */
export async function comeToRest(objects: readonly DurableObjectStub<undefined>[]): Promise<void> {
  const end = Date.now() + WITHIN_MS;
  const rests = async (): Promise<boolean> => {
    const all = await Promise.all(objects.map(async (object) => ({ object, ...(await standingOf(object)) })));
    const ringing = all.filter(({ alarm }) => alarm !== null && alarm <= Date.now());
    for (const { object } of ringing) await runDurableObjectAlarm(object);
    if (ringing.length > 0 || all.some(({ isAtWork }) => isAtWork)) return false;
    const next = Math.min(...all.map(({ due, alarm }) => Math.min(due, alarm ?? Number.POSITIVE_INFINITY)));
    if (next > end) return true;
    vi.setSystemTime(Math.max(next, Date.now()));
    return false;
  };
  await expect.poll(rests, { interval: 5 }).toBe(true);
}

async function standingOf(object: DurableObjectStub<undefined>): Promise<Standing> {
  return await runInDurableObject(object, async (instance, { storage }) => {
    const told = uncounted(() => (instance as unknown as Faceted).call("admin.loops", []));
    const { loops } = ((await told) ?? { loops: [] }) as { loops: readonly LoopStanding[] };
    const due = loops.map(({ due }) => due ?? Number.POSITIVE_INFINITY);
    return {
      alarm: await storage.getAlarm(),
      isAtWork: loops.some(({ state, due }) => state === "running" || (due ?? Infinity) <= Date.now()),
      due: Math.min(...due),
    };
  });
}
