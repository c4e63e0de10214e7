/** The middle value; between two, their mean. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The value below which `share` (0 to 1) of all lie; between two, on the line between them. */
export function quantile(values: readonly number[], share: number): number {
  if (values.length === 0) throw new Error("no values");
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const below = sorted[Math.floor(at)] as number;
  const above = sorted[Math.ceil(at)] as number;
  return below + (above - below) * (at - Math.floor(at));
}
