/*
 * How a pipeline has its errors branch, which work/finish/bad-datums.ts writes to. In brackets: what is written down.
 *
 *  1. Begin [errors_claim]: before the branch is asked, so that a claim that comes to nothing is given back.
 *  2. Claim: the branch grants it, or is there already and somebody else's. It makes itself if it is not there.
 *  3. Settle [errors_claim]: with the specification that wants the branch, in one transaction. From here on the pipeline
 *     has it until it is deleted, also when a later specification lets failed datums fail their jobs again: the next job
 *     that succeeds has none, and empties the branch.
 *
 * A crash, or a refusal, between 1 and 3: a creation goes on with 2, or is undone like a deletion. Of an update the claim
 * is taken back once no call holds it. If another update claims the branch just then, its claim or this end of it comes
 * last: whoever writes next claims it again (work/finish/job-commit.ts).
 */

import type { Refused } from "../../../branch/contract/answers.ts";
import type { PipelineContext } from "../../context.ts";
import { type Definition, errorsOf } from "../../lifecycle/definition.ts";

type Owner = Pick<Definition, "name" | "uid">;

/** Steps 1 and 2. Refused: the branch is somebody else's, and nothing is left of the claim. */
export async function claimErrors(
  { ledger, peers }: PipelineContext,
  { name, uid }: Owner,
): Promise<{ readonly ok: true } | Refused<"errors-exist" | "catalogue-unavailable">> {
  const { errorsClaim } = ledger;
  if (errorsClaim.get(uid)?.settled) return { ok: true };
  ledger.transaction(() => errorsClaim.begin(uid));
  const claimed = await peers.branch(errorsOf({ name })).output.claim({ pipeline: name, uid });
  if (!claimed.ok && claimed.reason === "catalogue-unavailable") {
    return { ok: false, reason: "catalogue-unavailable" };
  }
  return ledger.transaction(() => {
    if (claimed.ok) {
      errorsClaim.take(uid, claimed.epoch);
      return { ok: true };
    }
    errorsClaim.remove(uid);
    return { ok: false, reason: "errors-exist" };
  });
}

/** Gives the branch up; does nothing if the pipeline has none. */
export async function releaseErrors(
  { ledger, peers }: PipelineContext,
  { name, uid }: Owner,
  { destroy }: { destroy: boolean },
): Promise<void> {
  if (!ledger.errorsClaim.get(uid)) return;
  await peers.branch(errorsOf({ name })).output.release({ uid, destroy });
}

/** Gives back what an update claimed that came to nothing. For a pipeline that rests. */
export async function takeBackErrors(context: PipelineContext): Promise<void> {
  const { ledger, memory } = context;
  const definition = ledger.pipeline.definition();
  if (!definition || memory.held.size > 0 || ledger.errorsClaim.get(definition.uid)?.settled !== false)
    return;
  await releaseErrors(context, definition, { destroy: true });
  ledger.transaction(() => {
    if (ledger.errorsClaim.get(definition.uid)?.settled === false) ledger.errorsClaim.remove(definition.uid);
  });
}
