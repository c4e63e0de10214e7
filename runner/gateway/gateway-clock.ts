/**
 * The gateway's time, by which requests are signed: at first that of this node's clock, then corrected by what the
 * gateway's answers say. So a node works even if its clock is wrong.
 */
export class GatewayClock {
  /** By how much the gateway's clock is ahead of ours. */
  #aheadMs = 0;

  now(): Date {
    return new Date(Date.now() + this.#aheadMs);
  }

  /** Takes over the time of an answer (its Date header). Returns false if it has none. */
  learn(date: unknown): boolean {
    const at = typeof date === "string" ? Date.parse(date) : Number.NaN;
    if (Number.isNaN(at)) return false;
    this.#aheadMs = at - Date.now();
    return true;
  }
}

/** A time in the format of signatures: YYYYMMDDTHHMMSSZ. */
export function signingTime(time: Date): string {
  return time.toISOString().replace(/[-:]|\.\d{3}/g, "");
}

/** The gateway's error code if a request's time and its own are too far apart. */
export const SKEWED = "RequestTimeTooSkewed";
