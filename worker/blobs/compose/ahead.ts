/**
 * The same items, each asked for while the one before is in use. One that was fetched but not taken, because its taker
 * stopped or failed, goes to `discard`.
 */
export async function* ahead<T>(
  items: AsyncGenerator<T>,
  discard: (item: T) => Promise<unknown>,
): AsyncGenerator<T> {
  let next = items.next();
  try {
    for (let step = await next; !step.done; step = await next) {
      next = items.next();
      // Who takes the next one hears of it.
      next.catch(() => {});
      yield step.value;
    }
  } finally {
    const unused = await next.catch(() => undefined);
    if (unused && !unused.done) await discard(unused.value);
  }
}
