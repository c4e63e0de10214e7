import { jitteredBackoff, pause } from "./backoff.ts";

/**
 * What a failure says about trying again. `unreachable`: nobody answered, or somebody who stands before the gateway,
 * so it may be down for as long as it likes. `transient`: an answer, or bytes, that may be better next time. `final`:
 * it would be the same again.
 */
export type Failure = "unreachable" | "transient" | "final";

export interface RetryOptions {
  readonly signal: AbortSignal;
  readonly classify: (error: unknown) => Failure;
  /** How many transient failures in all are too many. Unreachable ones are not counted. */
  readonly maxTransient: number;
  readonly onRetry?: (error: unknown) => void;
  readonly minMs?: number;
  readonly maxMs?: number;
}

/** Does `work` until it succeeds, fails for good, or `signal` is aborted. Throws the last error. */
export async function retrying<T>(work: () => Promise<T>, options: RetryOptions): Promise<T> {
  const backoff = jitteredBackoff({ minMs: options.minMs ?? 100, maxMs: options.maxMs ?? 5000 });
  let transient = 0;
  for (;;) {
    options.signal.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      options.signal.throwIfAborted();
      const failure = options.classify(error);
      if (failure === "transient") transient += 1;
      if (failure === "final" || transient >= options.maxTransient) throw error;
      options.onRetry?.(error);
      await pause(backoff.next(), options.signal);
    }
  }
}
