import { Store } from "../objects/store.ts";

/** The background jobs of a Branch object (work/). */
export type BranchLoop =
  | "outbox"
  | "housekeeping"
  | "shared uploads"
  | "blob reaper"
  | "orphan scan"
  | "large commit"
  | "forks"
  | "fork check"
  | "lifecycle scan"
  | "history GC"
  | "imports";

/** Some tables of a Branch object. It can wake no loop but these. */
export abstract class BranchStore extends Store<BranchLoop> {}
