import type { Finding } from "./finding.ts";

/** The gateway's clock as an answer told it, and when the question and the answer passed here; milliseconds since 1970. */
export interface ClockReading {
  readonly sentAt: number;
  readonly receivedAt: number;
  readonly theirs: number;
}

/** Requests whose time is further from the gateway's are refused; the limit of signature version 4. */
const REFUSED_MS = 15 * 60_000;
/** A clock that is kept right by the network is nearer than this. */
const NOTICEABLE_MS = 60_000;
/** The Date header tells whole seconds. */
const TOLD_MS = 1000;

const FIX = "set this machine's clock, such as with timedatectl set-ntp true; or the gateway's";

/** Leases do not mind a wrong clock; signatures do. */
export function clockFinding({ sentAt, receivedAt, theirs }: ClockReading): Finding {
  // Any time between these two may have been the one when the gateway looked at its clock.
  const behind = theirs - receivedAt;
  const ahead = sentAt - (theirs + TOLD_MS);
  const apart = Math.max(behind, ahead, 0);
  if (apart === 0) return { check: "clock", state: "ok", found: "as the gateway's" };
  const seconds = Math.ceil(apart / 1000);
  const found = `${seconds} s ${behind > 0 ? "behind" : "ahead of"} the gateway's`;
  if (apart >= REFUSED_MS) {
    return { check: "clock", state: "fail", found: `${found}: it refuses all requests`, fix: FIX };
  }
  return apart >= NOTICEABLE_MS
    ? { check: "clock", state: "warn", found, fix: FIX }
    : { check: "clock", state: "ok", found };
}
