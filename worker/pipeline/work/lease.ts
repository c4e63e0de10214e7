import type { Refused } from "../../branch/contract.ts";
import { workerCount } from "../../core/parallelism.ts";
import type { PipelineContext } from "../context.ts";
import type { LeaseCall, Leased } from "../contract.ts";
import type { Definition } from "../definition.ts";
import { take } from "./leases.ts";

/** One lease call: at once where a datum or task is queued, else when one is, or empty when the time is up. */
export async function leaseDatums(
  parts: PipelineContext,
  { request, datumQueued }: { request: LeaseCall; datumQueued: (waitMs: number) => Promise<void> },
): Promise<Leased | Refused<"no-such-pipeline">> {
  const { ledger, peers } = parts;
  const { node, worker, max, waitMs, visit = null } = request;
  const deadline = peers.now() + waitMs;
  const { live } = await peers.fleet();
  for (let waited = false; ; waited = true) {
    // What is leased to a caller that has gone waits for the end of the lease.
    if (waited && !(await isPresent(request))) return idle(parts);
    const definition = ledger.active();
    if (!definition) return idle(parts);
    const allowed = workerCount(definition.spec.parallelism_spec, live);
    const taken = ledger.transaction(() =>
      take(parts, { definition, request: { node, worker, max, allowed, visit } }),
    );
    const leftMs = deadline - peers.now();
    if (!taken.slot || taken.datums.length + taken.tasks.length > 0 || leftMs <= 0)
      return { ok: true, ...termsOf(definition), ...taken };
    await datumQueued(leftMs);
  }
}

async function isPresent({ present }: LeaseCall): Promise<boolean> {
  try {
    await present?.();
    return true;
  } catch {
    return false;
  }
}

/** Nothing to do: there is no such pipeline, or it is one that does not run just now. */
function idle({ ledger }: PipelineContext): Leased | Refused<"no-such-pipeline"> {
  const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
  const state = ledger.exists ? ledger.pipeline.row()?.state : undefined;
  const gone = state === undefined || state === "deleting" || state === "purging" || state === "deleted";
  if (!definition || gone) return { ok: false, reason: "no-such-pipeline" };
  return { ok: true, slot: false, ...termsOf(definition), datums: [], tasks: [] };
}

function termsOf({ spec, output }: Definition): Omit<Leased, "ok" | "slot" | "datums" | "tasks"> {
  const { transform, datumTimeout } = spec;
  return { transform, output, ...(datumTimeout !== undefined && { datumTimeout }) };
}
