import { skipsBadDatums } from "../../../protocol/spec.ts";
import { Store } from "../../objects/store.ts";
import type { Definition } from "./definition.ts";

/** The pipeline's claim on its errors branch. */
interface ErrorsClaim {
  /** Null: the branch is about to be claimed. */
  readonly epoch: number | null;
  /** Whether the pipeline has the branch for good. Else it was claimed for a specification that is not accepted yet. */
  readonly settled: boolean;
}

/** Under which epoch a pipeline writes to its errors branch. A row of another uid is of an earlier pipeline of the name. */
export class ErrorsClaimStore extends Store {
  get(uid: string): ErrorsClaim | undefined {
    const row = this.sql.first<{ epoch: number | null; settled: number }>`
      SELECT epoch, settled FROM errors_claim WHERE uid = ${uid}`;
    return row && { epoch: row.epoch, settled: row.settled === 1 };
  }

  /** Written down before the branch is asked, so that a claim that comes to nothing is given back. */
  begin(uid: string): void {
    if (this.get(uid)) return;
    this.sql.run`INSERT OR REPLACE INTO errors_claim (one, uid, epoch, settled) VALUES (1, ${uid}, NULL, 0)`;
  }

  /** The branch has granted it. */
  take(uid: string, epoch: number): void {
    const settled = this.get(uid)?.settled ? 1 : 0;
    this.sql.run`
      INSERT OR REPLACE INTO errors_claim (one, uid, epoch, settled) VALUES (1, ${uid}, ${epoch}, ${settled})`;
  }

  /** The specification that wants the branch is the pipeline's. */
  settle(uid: string): void {
    this.sql.run`UPDATE errors_claim SET settled = 1 WHERE uid = ${uid}`;
  }

  remove(uid: string): void {
    this.sql.run`DELETE FROM errors_claim WHERE uid = ${uid}`;
  }
}

/** Whether the pipeline writes to its errors branch, or may. */
export function hasErrors(
  { errorsClaim }: { readonly errorsClaim: ErrorsClaimStore },
  { uid, spec }: Pick<Definition, "uid" | "spec">,
): boolean {
  return skipsBadDatums(spec) || errorsClaim.get(uid)?.settled === true;
}
