const UNIT_MS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000 } as const;
type Unit = keyof typeof UNIT_MS;

const PART = /(\d{1,6})([dhms])/g;
const LENGTH_PATTERN = /^(?:\d{1,6}[dhms])+$/;
/** RFC 3339, to the minute at least and with its zone; or a day alone. */
const TIME_PATTERN = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/;

/** The longest time from now until a key expires: what is meant to last longer needs no expiry. */
const MAX_DAYS = 36_500;

/** What an expiry may look like, for people. */
export const EXPIRY_FORMS = "a length of time such as 30d, 12h or 1d12h, or a time such as 2027-01-31T18:00Z";

/** When a key expires, or why a text does not say that. */
export type Expiry =
  | { readonly ok: true; readonly at: number }
  | { readonly ok: false; readonly fault: string };

/** Whether a text has the form of an expiry. Whether it lies ahead is for whoever has the clock. */
export function isExpiryText(text: string): boolean {
  return LENGTH_PATTERN.test(text) || Number.isFinite(timeOf(text));
}

/**
 * When a key expires, in milliseconds since 1970: a length of time from `now` on, or a time, of which a day alone is its first
 * moment in UTC. The fault is a sentence about the field without its subject.
 */
export function parseExpiry(text: string, now: number): Expiry {
  if (!isExpiryText(text)) return { ok: false, fault: `must be ${EXPIRY_FORMS}, not '${text}'` };
  const at = LENGTH_PATTERN.test(text) ? now + lengthOf(text) : timeOf(text);
  if (at <= now) {
    const fault = `is '${text}', which is not ahead of the gateway's clock, ${new Date(now).toISOString()}: give ${EXPIRY_FORMS}`;
    return { ok: false, fault };
  }
  if (at - now > MAX_DAYS * UNIT_MS.d) {
    return {
      ok: false,
      fault: `is '${text}', and must be at most ${MAX_DAYS}d ahead: leave it out for a key that never expires`,
    };
  }
  return { ok: true, at };
}

function lengthOf(text: string): number {
  return [...text.matchAll(PART)].reduce(
    (sum, [, amount, unit]) => sum + Number(amount) * UNIT_MS[unit as Unit],
    0,
  );
}

/** NaN if it is no time, such as the 31st of February. */
function timeOf(text: string): number {
  if (!TIME_PATTERN.test(text)) return Number.NaN;
  const day = text.slice(0, 10);
  const begin = Date.parse(day);
  // Date.parse takes the 31st of February for the 3rd of March.
  const isDay = Number.isFinite(begin) && new Date(begin).toISOString().startsWith(day);
  return isDay ? Date.parse(text) : Number.NaN;
}
