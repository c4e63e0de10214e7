import { yieldToOthers } from "../../sqlite/turns.ts";
import type { Uses } from "../context.ts";

/** Leases that the branch is told of in one call. */
const SLICE = 500;

/**
 * Tells the output branch which leases ended without a result. What was uploaded under them would stay for ever: an
 * upload under a lease has no end of its own, because a result may keep it.
 */
export async function endLostUploads({
  ledger,
  peers,
}: Uses<"exists" | "lost" | "pipeline" | "transaction", "branch">): Promise<void> {
  for (;;) {
    const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
    const leases = definition ? ledger.lost.some(SLICE) : [];
    if (!definition || leases.length === 0) return;
    await peers.branch(definition.output).expireLeases({ leases });
    ledger.transaction(() => ledger.lost.forget(leases));
    await yieldToOthers();
  }
}
