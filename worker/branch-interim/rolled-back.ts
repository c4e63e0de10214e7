import type { CommitRefused } from "../branch/contract.ts";

/** Thrown in a transaction to undo it; never leaves the object. */
export class RolledBack extends Error {
  readonly refusal: CommitRefused;

  constructor(refusal: CommitRefused) {
    super(refusal.reason);
    this.refusal = refusal;
  }
}
