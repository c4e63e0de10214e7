/** The middle value; of an even number of values, the mean of the middle two. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const [low, high] = [sorted[Math.floor((sorted.length - 1) / 2)], sorted[Math.floor(sorted.length / 2)]];
  if (low === undefined || high === undefined) throw new Error("there are no values");
  return (low + high) / 2;
}

/** The median of `count` measurements, one after the other. */
export async function medianOf(count: number, measure: () => Promise<number>): Promise<number> {
  const all: number[] = [];
  for (let i = 0; i < count; i++) all.push(await measure());
  return median(all);
}

/** The smallest value that so many percent of the values are not greater than. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const value = sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)];
  if (value === undefined) throw new Error("there are no values");
  return value;
}
