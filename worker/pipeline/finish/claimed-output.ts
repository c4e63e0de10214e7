import type { BranchApi, CommitRefused, Refused } from "../../branch/contract.ts";
import type { JobContext, PipelineContext } from "../context.ts";

/** As whom an output branch is written to. */
interface Writer {
  readonly uid: string;
  readonly epoch: number;
  /** The job's id. */
  readonly origin: string;
}

/** `reclaimed`: we had lost the claim and have it again, so the branch is to be asked anew. */
export type NotDone =
  | CommitRefused
  | Refused<"applying" | "reclaimed">
  | { readonly ok: false; readonly reason: "claim-refused"; readonly why: string };

/**
 * Asks the output branch for something under our epoch. Who lost the claim takes it again: the output is this
 * pipeline's while it lives. Throws where a peer can't be reached.
 */
export async function asWriter<Good extends { readonly ok: true }>(
  { ledger, peers }: PipelineContext,
  { definition, job }: JobContext,
  ask: (branch: BranchApi, writer: Writer) => Promise<Good | CommitRefused | Refused<"applying">>,
): Promise<Good | NotDone> {
  const { uid, name, output } = definition;
  const branch = peers.branch(output);
  const epoch = ledger.pipeline.row()?.epoch ?? 0;
  const answer = await ask(branch, { uid, epoch, origin: job.id });
  if (answer.ok || (answer.reason !== "lost-claim" && answer.reason !== "no-such-branch")) return answer;
  const claim = await branch.claim({ pipeline: name, uid });
  if (!claim.ok) {
    if (claim.reason === "catalogue-unavailable") throw new Error("the catalogue can't be reached");
    return { ok: false, reason: "claim-refused", why: claim.reason };
  }
  ledger.endingStep(definition, () => ledger.pipeline.setEpoch(claim.epoch));
  return { ok: false, reason: "reclaimed" };
}
