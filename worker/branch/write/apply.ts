import type { Ledger } from "../ledger/ledger.ts";
import type { OwnedContent } from "../tree/content-store.ts";
import { kindOf } from "../tree/file-store.ts";
import type { Head, Live } from "../tree/generation-store.ts";
import type { PlannedChange } from "./plan.ts";

/** What identifies a commit. */
interface CommitStamp {
  readonly id: string;
  readonly createdAt: number;
  readonly origin?: string;
}

export interface Application {
  readonly live: Live;
  readonly changes: readonly PlannedChange[];
  readonly stamp: CommitStamp;
  /** Lets a file that is born have its content. */
  readonly keep: (content: OwnedContent) => void;
}

/**
 * Writes a planned commit: the next seq, a death for what it replaces or deletes, a birth for what it puts. To be
 * called in the transaction of its plan.
 */
export function applyCommit(ledger: Ledger, { live, changes, stamp, keep }: Application): Head {
  const { gen, head } = live;
  const seq = head.seq + 1;
  let { births, deaths } = head;
  for (const { path, before, now } of changes) {
    if (before) {
      ledger.files.kill(path, { gen, born: before.born, seq });
      deaths++;
    }
    if (now) {
      ledger.files.bear(path, { gen, seq, state: now });
      // The dead row keeps its content: the past is still read.
      if (kindOf(path) === "file") keep({ ...now, gen });
      births++;
    }
  }
  ledger.commits.insert({ gen, seq, kind: "commit", births, deaths, ...stamp });
  const next = { seq, id: stamp.id, modifiedAt: stamp.createdAt, births, deaths };
  ledger.generations.advance(next);
  return next;
}
