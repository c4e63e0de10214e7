let lastAt = Number.NaN;
let lastText = "";

/** A time, in milliseconds since 1970, as HTTP says it. The last one is kept: it is the same for a whole branch, mostly. */
export function httpDate(at: number): string {
  if (at !== lastAt) {
    lastAt = at;
    lastText = new Date(at).toUTCString();
  }
  return lastText;
}
