import { setTimeout } from "node:timers/promises";
import type { Figure } from "./figure.ts";

/** One kind of call that must always be answered soon. */
export interface Probe {
  readonly what: string;
  call(): Promise<unknown>;
}

/** How long the calls of one probe took; milliseconds. */
export interface Waits {
  readonly what: string;
  readonly count: number;
  readonly longest: number;
}

/** Makes each of the calls in turn, again and again without a pause, for as long as `work` takes. */
export async function probeDuring<T>(
  probes: readonly Probe[],
  work: () => Promise<T>,
): Promise<{ result: T; waits: Waits[] }> {
  const over = new AbortController();
  const probing = probeUntil(probes, over.signal);
  // Probes that fail end the work; those that are told to stop do not.
  const failed = probing.then(() => new Promise<never>(() => {}));
  try {
    const result = await Promise.race([work(), failed]);
    over.abort();
    return { result, waits: await probing };
  } finally {
    over.abort();
    await Promise.allSettled([probing]);
  }
}

async function probeUntil(probes: readonly Probe[], over: AbortSignal): Promise<Waits[]> {
  const counts = probes.map(() => 0);
  const longest = probes.map(() => 0);
  while (!over.aborted) {
    for (const [i, { call }] of probes.entries()) {
      const startedAt = performance.now();
      await call();
      counts[i] = (counts[i] ?? 0) + 1;
      longest[i] = Math.max(longest[i] ?? 0, performance.now() - startedAt);
    }
  }
  return probes.map(({ what }, i) => ({ what, count: counts[i] ?? 0, longest: longest[i] ?? 0 }));
}

/** Those of the same probes at two times, as those of one time. */
export function joinWaits(before: readonly Waits[], more: readonly Waits[]): Waits[] {
  return more.map(({ what, count, longest }, i) => ({
    what,
    count: count + (before[i]?.count ?? 0),
    longest: Math.max(longest, before[i]?.longest ?? 0),
  }));
}

/**
 * The longest waits while `work` goes on, and after that those of as long a time without it: a machine with two cores and
 * a disk of others makes everybody wait now and then, whatever the gateway does.
 */
export async function waitsBeside(
  probes: readonly Probe[],
  work: () => Promise<unknown>,
  { atMostMs }: { atMostMs: number },
): Promise<Figure[]> {
  const { waits, alone } = await waitsWithAndWithout(probes, work);
  return [...waitFigures(waits, { atMostMs }), ...waitsWithout(alone)];
}

/** How much longer the longest waits are while `work` goes on than in as long a time after it, without it. */
export async function waitsLonger(
  probes: readonly Probe[],
  work: () => Promise<unknown>,
  { atMostMs }: { atMostMs: number },
): Promise<Figure[]> {
  const { waits, alone } = await waitsWithAndWithout(probes, work);
  return waits.map(({ what, count, longest }, i) => ({
    what: `longest of ${count}: ${what}`,
    unit: "ms",
    against: "without that",
    pairs: [{ ours: longest, other: alone[i]?.longest ?? 0 }],
    compare: "difference",
    target: { atMost: atMostMs },
  }));
}

async function waitsWithAndWithout(
  probes: readonly Probe[],
  work: () => Promise<unknown>,
): Promise<{ waits: Waits[]; alone: Waits[] }> {
  const startedAt = performance.now();
  const { waits } = await probeDuring(probes, work);
  const millis = performance.now() - startedAt;
  const { waits: alone } = await probeDuring(probes, () => setTimeout(millis));
  return { waits, alone };
}

/** The same calls while nothing of what is measured goes on: nothing is held to them. */
export function waitsWithout(waits: readonly Waits[]): Figure[] {
  return waitFigures(waits, { atMostMs: 0 }).map((figure) => ({
    ...figure,
    what: `${figure.what}, without that`,
    target: null,
  }));
}

/** The longest wait of each probe as a line of the report. */
export function waitFigures(waits: readonly Waits[], { atMostMs }: { atMostMs: number }): Figure[] {
  return waits.map(({ what, count, longest }) => ({
    what: `longest of ${count}: ${what}`,
    unit: "ms",
    values: [longest],
    compare: "nothing",
    target: { atMost: atMostMs },
  }));
}
