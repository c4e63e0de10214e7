import type { NamedLoop } from "../../../objects/loop.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { BranchContext, Moment } from "../../context.ts";
import type { Committed } from "../../contract/files.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Applying } from "../../open-commits/applying-store.ts";
import type { BranchLoop } from "../../store.ts";
import { moveHead } from "../../write/commit.ts";
import type { Committer } from "../../write/committer.ts";
import type { Gate } from "../../write/gate.ts";
import { checkSlice } from "./check.ts";
import { concludeRevert, stageRevert } from "./revert.ts";
import { type Writing, writeSlice } from "./write.ts";

interface ApplierOptions extends Pick<BranchContext, "ledger" | "now"> {
  readonly committer: Committer;
  readonly gate: Pick<Gate, "opened">;
}

/**
 * Applies an open commit that is too large for one transaction, slice by slice, with a turn for other calls in between:
 *
 * 0. Of a revert: work out what it changes (revert.ts), and stage that. A small one is then written at once.
 * 1. Check. Only reads. A conflict opens it again with a refusal; an abort or a new claim may still end it.
 * 2. Write. Its rows get the number of the commit after HEAD, which reads pass over. From here nothing stops it.
 * 3. Conclude. HEAD moves to the commit, which makes it visible.
 *
 * Meanwhile every read is a read of the past at HEAD, and other writers wait at the gate. The gate is closed all the while,
 * so HEAD stays where the check saw it. Large outputs of jobs take the same way. The one row of `applying` says how far it came:
 * each slice is a transaction that writes that down too, and the instance that comes up after a crash goes on from there.
 */
export function applier({ ledger, now, committer, gate }: ApplierOptions): NamedLoop {
  function revertSlice(applying: Applying): void {
    const isThrough = ledger.transaction((tx) => stageRevert(tx, ledger, { applying, now: now() }));
    if (isThrough) committer.one((tx, moment) => concludeRevert(tx, ledger, { applying, moment }));
  }
  function slice(applying: Applying): void {
    const { seq } = applying;
    if (applying.isReverting) revertSlice(applying);
    else if (seq === null) ledger.transaction((tx) => checkSlice(tx, ledger, { applying, now: now() }));
    else {
      const writing = { ...applying, seq };
      const isLeft = ledger.transaction((tx) => writeSlice(tx, ledger, { writing, now: now() }));
      if (!isLeft) committer.one((tx, moment) => conclude(tx, ledger, { writing, moment }));
    }
  }
  return {
    name: "large commit" satisfies BranchLoop,
    due: () => (ledger.applying.get() ? 0 : undefined),
    step() {
      const applying = ledger.applying.get();
      if (applying) slice(applying);
      if (ledger.applying.get()) return true;
      gate.opened();
      return false;
    },
  };
}

/**
 * Makes the commit, when all of its rows are written. If nothing was a change there is none, unless it is a job's,
 * which always has its commit.
 */
function conclude(
  tx: Tx,
  ledger: Ledger,
  { writing, moment }: { writing: Writing; moment: Moment },
): Committed {
  const live = ledger.generations.live();
  if (live?.gen !== writing.gen || live.head.seq + 1 !== writing.seq) {
    throw new Error(`commit ${writing.seq} of generation ${writing.gen} can't follow`);
  }
  const openCommit = ledger.openCommits.get(writing.openCommit);
  const { births, deaths } = ledger.applying.written();
  const annotation = ledger.applying.annotation();
  const isMade = births + deaths > 0 || openCommit.origin !== null;
  const answer: Committed = isMade
    ? moveHead(tx, ledger, {
        live,
        births,
        deaths,
        moment,
        origin: openCommit.origin ?? undefined,
        annotation,
      })
    : { ok: true, commit: null, modifiedAt: live.head.modifiedAt };
  ledger.applying.clear();
  ledger.openCommits.finish(openCommit, { ...answer, now: moment.now });
  ledger.contents.removeReleased(moment.now);
  return answer;
}
