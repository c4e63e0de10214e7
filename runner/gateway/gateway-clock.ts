/**
 * The gateway's time, by which requests are signed: that of this node's clock, until the gateway says how far that
 * one is off. A node whose clock is wrong works as any other.
 */
export class GatewayClock {
  /** By how much the gateway's clock is ahead of ours. */
  #aheadMs = 0;

  now(): Date {
    return new Date(Date.now() + this.#aheadMs);
  }

  /** Takes over the time of an answer (its Date header). False where it tells none. */
  learn(date: unknown): boolean {
    const at = typeof date === "string" ? Date.parse(date) : Number.NaN;
    if (Number.isNaN(at)) return false;
    this.#aheadMs = at - Date.now();
    return true;
  }
}

/** A time as a signature names it: YYYYMMDDTHHMMSSZ. */
export function signingTime(time: Date): string {
  return time.toISOString().replace(/[-:]|\.\d{3}/g, "");
}

/** The code of the gateway's refusal where a request's time and its own are too far apart. */
export const SKEWED = "RequestTimeTooSkewed";
