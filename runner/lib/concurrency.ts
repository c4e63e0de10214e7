/**
 * Works through items, at most `limit` at a time. After a failure it begins no more. Throws the failure once all that had
 * begun has ended, so that nothing runs behind the caller's back.
 */
export async function forEachLimited<T>(
  items: Iterable<T> | AsyncIterable<T>,
  { limit, work }: { limit: number; work: (item: T) => Promise<void> },
): Promise<void> {
  const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  let failed = false;
  const lane = async () => {
    while (!failed) {
      const next = await iterator.next();
      if (next.done) return;
      await work(next.value);
    }
  };
  const fail = (error: unknown): never => {
    failed = true;
    throw error;
  };
  const ended = await Promise.allSettled(Array.from({ length: limit }, () => lane().catch(fail)));
  const broken = ended.find((result) => result.status === "rejected");
  if (broken) throw broken.reason;
}

/** Does `work`. Calls `onAbort` if `signal` is aborted before it has ended, or was aborted before it began. */
export async function listening<T>(
  { signal, onAbort }: { readonly signal: AbortSignal; readonly onAbort: () => void },
  work: () => Promise<T>,
): Promise<T> {
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await work();
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** The promise's result, or the signal's reason as soon as it is aborted. What the promise does goes on. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  return await listening({ signal, onAbort }, () => Promise.race([promise, aborted]));
}

/** Does `work` with a signal that is aborted `graceMs` after `signal` is. */
export async function withGrace<T>(
  { signal, graceMs }: { signal: AbortSignal; graceMs: number },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const onAbort = () => {
    timer = setTimeout(() => late.abort(signal.reason), graceMs);
  };
  return await listening({ signal, onAbort }, () => work(late.signal)).finally(() => clearTimeout(timer));
}

/** Work that did not say for too long that it goes on. */
export class Stalled extends Error {
  override readonly name = "Stalled";
}

/** What one piece of work gets: a signal that stops it, and the means to say that it goes on. */
export interface Progress {
  /** Aborted with `stop`, or when nothing went on for too long. */
  readonly signal: AbortSignal;
  /** Something went on. */
  alive(): void;
}

/** Does `work`, which is stopped when it has not said for `stallMs` that it goes on. */
export async function whileItGoesOn<T>(
  { stop, stallMs }: { readonly stop: AbortSignal; readonly stallMs: number },
  work: (progress: Progress) => Promise<T>,
): Promise<T> {
  const stalled = new AbortController();
  const timer = setTimeout(() => {
    stalled.abort(new Stalled(`nothing went on for ${Math.round(stallMs / 1000)} s`));
  }, stallMs);
  try {
    return await work({
      signal: AbortSignal.any([stop, stalled.signal]),
      alive: () => void timer.refresh(),
    });
  } catch (error) {
    // What stopped work throws says less than why it was stopped.
    throw stalled.signal.aborted ? stalled.signal.reason : error;
  } finally {
    clearTimeout(timer);
  }
}
