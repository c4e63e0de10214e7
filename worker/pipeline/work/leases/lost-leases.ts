import { yieldToOthers } from "../../../objects/turns.ts";
import type { PipelineContext } from "../../context.ts";

/** Leases that the branch is told of in one call. */
const SLICE = 500;

/**
 * Tells the output branch which leases ended without a result. What was uploaded under them would stay for ever: an
 * upload under a lease has no end of its own, because a result may keep it.
 *
 * The branch ends these uploads at once. That takes nothing from anybody:
 *  - No result names one. A lease is written down here in the transaction that takes it from its attempt or task, and an
 *    outcome is recorded only for a lease that one has (`AttemptStore.held`, `TaskStore.held`). No lease is given twice.
 *  - The same bytes that another upload or a file has are counted for that by itself.
 *  - A late call under the lease is refused, whether it adds to the upload or opens one: the branch remembers the lease
 *    for longer than a call can take. What such a call has brought is discarded with the refusal.
 *  - Small contents that come with the outcomes of several leases are kept under a name of their own
 *    (`worker/api/runner/outcomes.ts`), which is never lost.
 * What is lost is only that the next try might have found some of its bytes there: it sends them again.
 */
export async function endLostUploads({ ledger, peers }: PipelineContext): Promise<void> {
  for (;;) {
    const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
    const leases = definition ? ledger.lost.some(SLICE) : [];
    if (!definition || leases.length === 0) return;
    await peers.branch(definition.output).uploads.abortLeases({ leases });
    ledger.transaction(() => ledger.lost.forget(leases));
    await yieldToOthers();
  }
}
