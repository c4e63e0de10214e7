/** A store that took no byte and gave no answer for too long. */
class Stalled extends Error {
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
