import { setTimeout as delay } from "node:timers/promises";

export interface Backoff {
  /** Milliseconds to wait now; each call about doubles it, up to the most. */
  next(): number;
  /** Something went well: the next wait is short again. */
  reset(): void;
}

/** Waits that double from `minMs` to `maxMs`, each shortened by up to a half at random, so that a fleet does not come back in step. */
export function jitteredBackoff({ minMs, maxMs }: { minMs: number; maxMs: number }): Backoff {
  let step = minMs;
  return {
    next() {
      const wait = step * (0.5 + Math.random() / 2);
      step = Math.min(step * 2, maxMs);
      return Math.round(wait);
    },
    reset() {
      step = minMs;
    },
  };
}

/** `ms`, up to a fifth more or less at random: so that a fleet does not come in step. */
export function about(ms: number): number {
  return Math.round(ms * (0.8 + Math.random() * 0.4));
}

/** Waits `ms`, or until `signal` is aborted, whichever comes first; never fails. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await delay(ms, undefined, { signal }).catch(() => undefined);
}
