import { z } from "zod";

const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 } as const;
type Unit = keyof typeof UNIT_MS;

const PART = /(\d+(?:\.\d+)?)(ms|s|m|h)/g;
const DURATION_PATTERN = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h))+$/;

/** Longest duration: the timers of the platforms count milliseconds in 31 bits, which is a little more. */
const MAX_DURATION_MS = 24 * 24 * UNIT_MS.h;

/**
 * Reads a length of time as Go and Pachyderm write it, "30s", "5m" or "1h30m", in whole milliseconds. Numbers have a
 * unit (h, m, s or ms), no sign and nothing between them; returns undefined for any other text.
 */
export function parseDuration(text: string): number | undefined {
  if (!DURATION_PATTERN.test(text)) return undefined;
  const millis = [...text.matchAll(PART)].reduce(
    (sum, [, amount, unit]) => sum + Number(amount) * UNIT_MS[unit as Unit],
    0,
  );
  return Math.round(millis);
}

/** A length of time that something may take: more than none, and no longer than the platforms can time. */
export const Duration = z
  .string()
  .regex(DURATION_PATTERN, {
    error: 'must be a length of time such as "30s", "5m" or "1h30m": numbers with the units h, m, s or ms',
    abort: true,
  })
  .refine((text) => (parseDuration(text) ?? 0) > 0, { error: "must be longer than nothing", abort: true })
  .refine((text) => (parseDuration(text) ?? 0) <= MAX_DURATION_MS, {
    error: "must be at most 576h (24 days)",
  });
