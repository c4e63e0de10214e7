import { type ReactNode, useSyncExternalStore } from "react";

/* Numbers, sizes, ids and times, as people read them. */

const COUNT = new Intl.NumberFormat(undefined);

/** A number with its thousands apart. */
export function countText(count: number): string {
  return COUNT.format(count);
}

/** `1 job`, `2 jobs` */
export function counted(count: number, one: string, many: string = `${one}s`): string {
  return `${countText(count)} ${count === 1 ? one : many}`;
}

/** How much of an id tells it from others to a person: its end. */
export function shortId(id: string): string {
  return id.length > 10 ? `…${id.slice(-6)}` : id;
}

const SIZES = ["KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** A number of bytes in the unit that fits it: `812 B`, `4.1 MiB`. */
export function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  let shown = bytes / 1024;
  let unit = 0;
  while (shown >= 1023.95 && unit < SIZES.length - 1) {
    shown /= 1024;
    unit++;
  }
  return `${shown < 10 ? shown.toFixed(1) : Math.round(shown)} ${SIZES[unit]}`;
}

/** By how much something grew or shrank: `+2.0 MiB`, `−1 B`, `±0 B`. */
export function signedSizeText(bytes: number): string {
  const sign = bytes > 0 ? "+" : bytes < 0 ? "−" : "±";
  return `${sign}${sizeText(Math.abs(bytes))}`;
}

const TICK_MS = 1000;

// One clock for all times on a page.
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let now = Date.now();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, TICK_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** The time, to the second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

const UNITS = [
  ["d", 24 * 60 * 60 * 1000],
  ["h", 60 * 60 * 1000],
  ["min", 60 * 1000],
  ["s", 1000],
] as const;

/** A span of time in at most two units, such as `2 h 5 min`; below a second in milliseconds. */
export function spanText(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  let rest = ms;
  const counts = UNITS.map(([name, unit]) => {
    const count = Math.floor(rest / unit);
    rest -= count * unit;
    return { count, text: `${count} ${name}` };
  });
  const first = counts.findIndex(({ count }) => count > 0);
  const [most, next] = counts.slice(first);
  return [most?.text, next?.count ? next.text : undefined].filter(Boolean).join(" ");
}

/** What is left of something, of which nobody knows it exactly: `a few seconds`, `about 4 min`. */
export function aboutText(ms: number): string {
  if (ms < 7500) return "a few seconds";
  const unit = ms < 60_000 ? 5000 : 60_000;
  return `about ${spanText(Math.round(ms / unit) * unit)}`;
}

const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

function Moment({ at, children }: { readonly at: number; readonly children: string }) {
  return (
    <time dateTime={new Date(at).toISOString()} title={exactText(at)}>
      {children}
    </time>
  );
}

/** How long ago something was, with the exact time for who points at it or listens. */
export function Ago({ at }: { readonly at: number }) {
  const ms = useNow() - at;
  const seconds = ms < 2000 ? "just now" : `${Math.floor(ms / 1000)} s ago`;
  return <Moment at={at}>{ms < 10_000 ? seconds : `${spanText(ms)} ago`}</Moment>;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const DAY_AND_CLOCK = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** A time by the clock, with its day if that is another one than now. */
export function clockText(at: number, now: number): string {
  const isToday = new Date(at).toDateString() === new Date(now).toDateString();
  return (isToday ? CLOCK : DAY_AND_CLOCK).format(at);
}

/** When something was, by the clock, with its day if that is another one. */
export function At({ at }: { readonly at: number }) {
  return <Moment at={at}>{clockText(at, useNow())}</Moment>;
}

/** How long it is until something, with the exact time for who points at it or listens. */
export function Ahead({ at }: { readonly at: number }) {
  const ms = at - useNow();
  return <Moment at={at}>{ms < 10_000 ? "in a moment" : `in ${spanText(ms)}`}</Moment>;
}

/** How long something took, or takes until now. */
export function Span({ from, to }: { readonly from: number; readonly to: number | null }) {
  const now = useNow();
  return (
    <span title={exactText(from)}>
      {to === null ? spanText(Math.max(1000, Math.floor((now - from) / 1000) * 1000)) : spanText(to - from)}
    </span>
  );
}

/** A time to the second, or a span of time up to `to`, with what both have in common once. */
export function exactText(at: number, to = at): string {
  return EXACT.formatRange(at, to);
}

/** A name, an id or a path, which people compare character by character; with the words `before` it. */
export function Mono({ before, children }: { readonly before?: string; readonly children: ReactNode }) {
  return (
    <>
      {before}
      <span className="mono">{children}</span>
    </>
  );
}
