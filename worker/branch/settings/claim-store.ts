import { BranchStore } from "../store.ts";

/** A pipeline's claim on the branch: it is the pipeline's output, and only its jobs write to it. */
interface Claim {
  readonly uid: string;
  readonly pipeline: string;
  /** Grows with each claim, so that the holder of an earlier one is told apart. */
  readonly epoch: number;
}

interface StoredRow {
  readonly epoch: number;
  readonly uid: string | null;
  readonly pipeline: string | null;
}

/** The claim on the branch, if there is one. Kept in memory, since each commit asks. */
export class ClaimStore extends BranchStore {
  /** Null: there is none; undefined: not loaded. */
  #claim: Claim | null | undefined;

  get(): Claim | null {
    if (this.#claim === undefined) {
      const row = this.sql.first<StoredRow>`SELECT epoch, uid, pipeline FROM writer WHERE one = 1`;
      this.#claim = claimOf(row);
    }
    return this.#claim;
  }

  /** Returns the new epoch. */
  take({ uid, pipeline }: { uid: string; pipeline: string }): number {
    const row = this.sql.first<{ epoch: number }>`
      UPDATE writer SET epoch = epoch + 1, uid = ${uid}, pipeline = ${pipeline} WHERE one = 1 RETURNING epoch`;
    this.forget();
    return row?.epoch ?? 0;
  }

  release(): void {
    this.sql.run`UPDATE writer SET uid = NULL, pipeline = NULL WHERE one = 1`;
    this.forget();
  }

  /** What is in memory may not be what is written. */
  forget(): void {
    this.#claim = undefined;
  }
}

function claimOf(row: StoredRow | undefined): Claim | null {
  if (!row || row.uid === null || row.pipeline === null) return null;
  return { uid: row.uid, pipeline: row.pipeline, epoch: row.epoch };
}
