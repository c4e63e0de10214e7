import { setTimeout as delay } from "node:timers/promises";
import { type Failure, failureOf } from "./client.ts";

export interface RetryOptions {
  readonly signal: AbortSignal;
  /** Absent: the failures are those of calls to the gateway. */
  readonly classify?: (error: unknown) => Failure;
  /** So many transient failures in all are too many. Unreachable ones are not counted. Absent: any number may come. */
  readonly maxTransient?: number;
  readonly onRetry?: (error: unknown) => void;
  readonly minMs?: number;
  readonly maxMs?: number;
}

/** Does `work` until it succeeds, fails for good, or `signal` is aborted. Throws the last error. */
export async function retrying<T>(work: () => Promise<T>, options: RetryOptions): Promise<T> {
  const { signal, classify = failureOf, maxTransient = Number.POSITIVE_INFINITY, onRetry } = options;
  const backoff = jitteredBackoff({ minMs: options.minMs ?? 100, maxMs: options.maxMs ?? 5000 });
  let transient = 0;
  for (;;) {
    signal.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      signal.throwIfAborted();
      const failure = classify(error);
      if (failure === "transient") transient += 1;
      if (failure === "final" || transient >= maxTransient) throw error;
      onRetry?.(error);
      await pause(backoff.next(), signal);
    }
  }
}

export interface Backoff {
  /** Milliseconds to wait now; each call about doubles it, up to the most. */
  next(): number;
  /** Something went well: the next wait is short again. */
  reset(): void;
}

/** Waits that double from `minMs` to `maxMs`, each shortened at random by up to a half: else a fleet would come back in step. */
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

/** `ms`, at random up to a fifth more or less: else a fleet would come in step. */
export function about(ms: number): number {
  return Math.round(ms * (0.8 + Math.random() * 0.4));
}

/** Waits `ms`, or until `signal` is aborted, whichever comes first; never fails. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await delay(ms, undefined, { signal }).catch(() => undefined);
}
