const AT_ONCE = 8;

/** Some at a time, so that the check of many neither crawls nor floods. */
export async function inTurns<T>(items: readonly T[], check: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const worker = async (): Promise<void> => {
    for (const item of queue) await check(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
