import type { Ledger } from "./ledger/ledger.ts";
import type { BranchLoop } from "./store.ts";

/** What identifies something new in the history: the time, and an id that fits it. */
export interface Moment {
  /** Milliseconds since 1970. */
  readonly now: number;
  /** An id that sorts after all earlier ones, for something of this time. If the clock was set back, it begins with a later time. */
  readonly id: (createdAt: number) => string;
}

/** What the calls of a Branch object share: its ledger, and its clock, ids, loops and turns. */
export interface BranchContext {
  readonly ledger: Ledger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly moment: () => Moment;
  /** Resolves when a loop has come to rest. */
  readonly resting: (loop: BranchLoop) => Promise<void>;
  /** Lets other calls in for so many milliseconds; with 0, those that have arrived. */
  readonly pause: (ms: number) => Promise<unknown>;
  /** Lets everybody in, between two slices of long work (worker/objects/turns.ts). */
  readonly turn: () => Promise<unknown>;
  /** Resolves when what was written is durable. */
  readonly durable: () => Promise<unknown>;
}
