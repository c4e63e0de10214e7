import { setTimeout as pause } from "node:timers/promises";
import { isAway } from "./client.ts";

/** Pauses between two tries, and how long it is tried. */
const FIRST_PAUSE_MS = 200;
const LAST_PAUSE_MS = 5_000;
const GIVE_UP_MS = 10 * 60_000;

/**
 * Asks again for as long as the gateway is away, such as while it starts anew, and at most for ten minutes. `lost` is told
 * once when it went away.
 */
export async function patiently<T>(
  ask: () => Promise<T>,
  { lost, deadline = Number.POSITIVE_INFINITY }: { lost: (error: unknown) => void; deadline?: number },
): Promise<T> {
  const end = Math.min(Date.now() + GIVE_UP_MS, deadline);
  for (let pauseMs = FIRST_PAUSE_MS, tries = 0; ; pauseMs = Math.min(pauseMs * 2, LAST_PAUSE_MS), tries++) {
    try {
      return await ask();
    } catch (error) {
      if (!isAway(error) || Date.now() >= end) throw error;
      if (tries === 0) lost(error);
    }
    // At random, so that many who wait do not come back at once.
    await pause(pauseMs * (0.5 + Math.random() / 2));
  }
}
