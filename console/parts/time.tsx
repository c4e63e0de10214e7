import { useSyncExternalStore } from "react";

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
  const first = UNITS.findIndex(([, unit]) => ms >= unit);
  const [name, unit] = UNITS[first] ?? UNITS[UNITS.length - 1] ?? ["s", 1000];
  const count = Math.floor(ms / unit);
  const [lesserName, lesser] = UNITS[first + 1] ?? [undefined, 0];
  const rest = lesser === 0 ? 0 : Math.floor((ms - count * unit) / lesser);
  return rest > 0 && lesserName ? `${count} ${name} ${rest} ${lesserName}` : `${count} ${name}`;
}

const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

/** How long ago something was, with the exact time for who points at it or listens. */
export function Ago({ at }: { readonly at: number }) {
  const ms = useNow() - at;
  return (
    <time dateTime={new Date(at).toISOString()} title={EXACT.format(at)}>
      {ms < 10_000 ? (ms < 2000 ? "just now" : `${Math.floor(ms / 1000)} s ago`) : `${spanText(ms)} ago`}
    </time>
  );
}

/** How long it is until something, with the exact time for who points at it or listens. */
export function Ahead({ at }: { readonly at: number }) {
  const ms = at - useNow();
  return (
    <time dateTime={new Date(at).toISOString()} title={EXACT.format(at)}>
      {ms < 10_000 ? "in a moment" : `in ${spanText(ms)}`}
    </time>
  );
}

/** How long something took, or takes until now. */
export function Span({ from, to }: { readonly from: number; readonly to: number | null }) {
  const now = useNow();
  return (
    <span title={EXACT.format(from)}>
      {to === null ? spanText(Math.max(1000, Math.floor((now - from) / 1000) * 1000)) : spanText(to - from)}
    </span>
  );
}

export function exactText(at: number): string {
  return EXACT.format(at);
}
