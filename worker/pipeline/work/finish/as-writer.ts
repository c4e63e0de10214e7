import type { BranchApi, CommitRefused, Refused } from "../../../branch/contract.ts";
import type { JobContext, PipelineContext } from "../../context.ts";
import { errorsOf } from "../../lifecycle/definition.ts";
import type { NotDone } from "../../output/reasons.ts";

/** As whom a branch of the pipeline is written to. */
interface Writer {
  readonly uid: string;
  readonly epoch: number;
  /** The job's id. */
  readonly origin: string;
}

/** What is asked, and of which of the pipeline's branches. */
interface Asked<Good> {
  readonly to: "output" | "errors";
  readonly ask: (branch: BranchApi, writer: Writer) => Promise<Good | CommitRefused | Refused<"applying">>;
}

/**
 * Asks a branch of the pipeline for something under our epoch. If the claim is lost, claims the branch again: it is this
 * pipeline's while it lives. Throws if a peer can't be reached.
 */
export async function asWriter<Good extends { readonly ok: true }>(
  { ledger, peers }: PipelineContext,
  { definition, job }: JobContext,
  { to, ask }: Asked<Good>,
): Promise<Good | NotDone> {
  const { uid, name, output } = definition;
  const isOutput = to === "output";
  const branch = peers.branch(isOutput ? output : errorsOf(definition));
  const epoch = (isOutput ? ledger.pipeline.row()?.epoch : ledger.errorsClaim.get(uid)?.epoch) ?? 0;
  const answer = await ask(branch, { uid, epoch, origin: job.id });
  if (answer.ok || (answer.reason !== "lost-claim" && answer.reason !== "no-such-branch")) return answer;
  const claim = await branch.claim({ pipeline: name, uid });
  if (!claim.ok) {
    if (claim.reason === "catalogue-unavailable") throw new Error("the catalogue can't be reached");
    return { ok: false, reason: "claim-refused", why: claim.reason };
  }
  ledger.endingStep(definition, () => {
    if (isOutput) ledger.pipeline.setEpoch(claim.epoch);
    else {
      ledger.errorsClaim.take(uid, claim.epoch);
      ledger.errorsClaim.settle(uid);
    }
  });
  return { ok: false, reason: "reclaimed" };
}
