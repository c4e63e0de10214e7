/** How long a lease lasts from when it was asked for, by the clock of whoever holds it; milliseconds. */
export const LEASE_MS = 10_000;
/** How often a replica asks for its lease again. */
export const RENEW_MS = 2_000;
/** By how much of a time a clock or timer may be wrong. Larger than any real one, so that few histories find what it does. */
export const DRIFT = 0.1;

/**
 * A replica takes a new id whenever it has nothing: when it starts, and each time that it empties. What was asked for in one life
 * is of no use in the next one.
 */
export type Life = string;

/** An instance of the branch, by an id of its start. */
export type Home = string;

export interface Renewal {
  readonly replica: string;
  readonly life: Life;
  /** Whose lease it is to be; absent: it knows of none. */
  readonly home?: Home;
  /** It keeps nothing that is older than this. */
  readonly confirmed: number;
  /** Of one start of the replica, whatever lives it has: how many reads it answered out of memory. */
  readonly start: string;
  readonly reads: number;
}

export interface Lease {
  readonly kind: "lease";
  readonly life: Life;
  readonly home: Home;
  /** Nothing older is to be kept. */
  readonly number: number;
}

export interface Withdrawal {
  readonly kind: "withdrawal";
  readonly life: Life;
  readonly home: Home;
  readonly number: number;
  readonly keys: readonly string[] | "all";
  /** The life is over, whatever it has: the branch is about to be another one. */
  readonly ends?: boolean;
}

/** A renewal that is refused, and says nothing else. */
export interface Refusal {
  readonly kind: "refusal";
}

export interface Row {
  readonly life: Life;
  readonly home: Home;
  /** The number of the version that it was read at. */
  readonly number: number;
  readonly value: string | null;
}

export interface Confirmation {
  readonly life: Life;
  readonly home: Home;
  readonly number: number;
  readonly ends: boolean;
}
