/** Furthest that a client's clock may be off, in milliseconds. */
export const MAX_SKEW_MS = 15 * 60 * 1000;

/** When a request says that it was signed: `basic` is `YYYYMMDDTHHMMSSZ`, `at` milliseconds since 1970. */
export interface RequestTime {
  readonly basic: string;
  readonly at: number;
}

const BASIC = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/;

/** The time in `x-amz-date`, or else in `Date`; undefined if neither holds one. */
export function requestTime(headers: ReadonlyMap<string, string>): RequestTime | undefined {
  const amzDate = headers.get("x-amz-date");
  if (amzDate !== undefined) return parseBasicTime(amzDate.trim());
  const date = headers.get("date");
  if (date === undefined) return undefined;
  return parseBasicTime(date.trim()) ?? fromText(date);
}

/** Reads a time as SigV4 writes it. Returns undefined for any other text. */
export function parseBasicTime(text: string): RequestTime | undefined {
  const parts = BASIC.exec(text);
  if (!parts) return undefined;
  const [, year, month, day, hours, minutes, seconds] = parts;
  const at = Date.parse(`${year}-${month}-${day}T${hours}:${minutes}:${seconds}Z`);
  return Number.isNaN(at) ? undefined : { basic: text, at };
}

function fromText(text: string): RequestTime | undefined {
  const at = Date.parse(text);
  if (Number.isNaN(at)) return undefined;
  return { basic: new Date(at).toISOString().replace(/[-:]|\.\d{3}/g, ""), at };
}
