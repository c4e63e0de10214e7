import type { Tx } from "../../objects/transaction.ts";
import type { Moment } from "../context.ts";
import type { Done, Refused } from "../contract/answers.ts";
import type { CommitRefused } from "../contract/files.ts";
import type { StageOutput } from "../contract/pipelines.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { OpenCommit } from "../open-commits/open-commit-store.ts";
import { claimedBranch, pathRefusal } from "../staging/admission.ts";
import { finalState } from "../staging/plan.ts";
import { stageBatch } from "../staging/stage.ts";
import type { Live } from "../tree/generation-store.ts";
import { withBrought } from "./commit.ts";

/** A job's operations have none. */
const NO_CONDITIONS: ReadonlyMap<string, number> = new Map();

/** Stages operations of a job's commit. */
export function stageOutput(
  tx: Tx,
  ledger: Ledger,
  { request, moment }: { request: StageOutput; moment: Moment },
): Done | CommitRefused | Refused<"applying"> {
  const claimed = claimedBranch(tx, ledger, request);
  if (!claimed.ok) return claimed;
  const { live } = claimed;
  const { origin, operations } = request;
  // The job's commit is made already: commitOutput will answer it.
  if (ledger.commits.byOrigin(live.gen, origin)) return { ok: true };
  const refusal = pathRefusal(operations);
  if (refusal) return refusal;
  if (ledger.isFull(operations.length)) return { ok: false, reason: "branch-full" };
  if (ledger.openCommits.byOrigin(live.gen, origin)?.state === "applying") {
    return { ok: false, reason: "applying" };
  }
  const openCommit = openCommitFor(tx, ledger, { request, live, moment });
  const states = finalState(operations);
  const staged = withBrought(tx, ledger, {
    ...{ contents: request.contents, gen: live.gen, now: moment.now },
    work: () => stageBatch(tx, ledger, { openCommit, states, preconditions: NO_CONDITIONS }),
  });
  if (!staged.ok) return staged;
  ledger.openCommits.written(openCommit, { added: staged.added, now: moment.now });
  return { ok: true };
}

/** The open commit that the job's operations were staged in before, or a new one. */
function openCommitFor(
  _: Tx,
  { openCommits }: Ledger,
  { request, live, moment }: { request: StageOutput; live: Live; moment: Moment },
): OpenCommit {
  const { origin, anew } = request;
  const { now, id } = moment;
  const before = openCommits.byOrigin(live.gen, origin);
  if (before && !anew) return before;
  // What it staged may be very much: the alarm takes it away in slices.
  if (before) openCommits.end(before, now);
  openCommits.open({ id: id(now), gen: live.gen, now, ttlMs: null, origin });
  const openCommit = openCommits.byOrigin(live.gen, origin);
  if (!openCommit) throw new Error(`no open commit was made for ${origin}`);
  return openCommit;
}

/** Ends what earlier holders of the claim staged. A commit whose rows are being written already goes on. */
export function endOutputs(
  _: Tx,
  { applying: largeCommit, openCommits }: Ledger,
  { gen, now }: { gen: number; now: number },
): void {
  const applying = largeCommit.get();
  const isWriting = applying !== null && applying.seq !== null;
  openCommits.endOutputs({ gen, except: isWriting ? applying.openCommit : undefined, now });
  if (applying && !isWriting && openCommits.get(applying.openCommit).state === "ended") {
    largeCommit.clear();
  }
}
