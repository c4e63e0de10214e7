import { setTimeout as pause } from "node:timers/promises";

const PROBE_EVERY_MS = 50;

export interface Patience {
  /** When to give up; it only bounds a hang, no test depends on how fast something is. */
  readonly withinMs?: number;
}

/**
 * Asks until `probe` answers something other than undefined or false. An error in a probe counts as "not yet" and
 * is told if time runs out.
 */
export async function eventually<T>(
  what: string,
  probe: () => Promise<T | undefined | false> | T | undefined | false,
  { withinMs = 45_000 }: Patience = {},
): Promise<T> {
  const deadline = Date.now() + withinMs;
  let lastError: unknown;
  while (Date.now() < deadline) {
    try {
      const answer = await probe();
      if (answer !== undefined && answer !== false) return answer;
      lastError = undefined;
    } catch (error) {
      lastError = error;
    }
    await pause(PROBE_EVERY_MS);
  }
  throw new Error(`waited ${withinMs} ms in vain until ${what}`, { cause: lastError });
}
