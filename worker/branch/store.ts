import { Store } from "../objects/store.ts";

/** The background jobs of a Branch object (work/). */
export type BranchLoop =
  | "outbox"
  | "housekeeping"
  | "shared uploads"
  | "blob reaper"
  | "cache purge"
  | "orphan scan"
  | "large commit"
  | "forks"
  | "fork check"
  | "lifecycle scan"
  | "history GC"
  | "imports";

/** What a number in a row stands for; `otherwise` if it is of none that this release knows. */
export function standsFor<T>(meanings: readonly T[], number: number, otherwise: T): T {
  return meanings[number] ?? otherwise;
}

/** Some tables of a Branch object. It can wake no loop but these. */
export abstract class BranchStore extends Store<BranchLoop> {}
