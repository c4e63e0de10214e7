/** Runs `act` over items, at most `lanes` at once. The first failure stops the rest and is thrown. */
export async function inParallel<T>(
  items: Iterable<T> | AsyncIterable<T>,
  { lanes, act }: { lanes: number; act: (item: T) => Promise<void> },
): Promise<void> {
  const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  let failed = false;
  const lane = async (): Promise<void> => {
    while (!failed) {
      const next = await iterator.next();
      if (next.done) return;
      await act(next.value);
    }
  };
  const running = Array.from({ length: lanes }, () =>
    lane().catch((error: unknown) => {
      failed = true;
      throw error;
    }),
  );
  // All lanes are let out before the failure goes on, so that nothing runs behind the caller's back.
  const settled = await Promise.allSettled(running);
  const broken = settled.find((result) => result.status === "rejected");
  if (broken) throw broken.reason;
}

/** Pieces of at most `size` items. */
export function* pages<T>(items: readonly T[], size: number): Generator<readonly T[]> {
  for (let start = 0; start < items.length; start += size) yield items.slice(start, start + size);
}
