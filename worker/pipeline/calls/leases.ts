import { LEASE_MS } from "../../../protocol/runner.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { PipelineContext } from "../context.ts";
import type { InputCommit, LeaseCalls, Renewal, RenewedLeases } from "../contract.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Definition } from "../lifecycle/definition.ts";
import { sweep } from "../work/leases/expiry.ts";
import type { PipelineFacet } from "./facet.ts";
import { recordOutcome } from "./outcomes.ts";
import { leaseDatums } from "./take.ts";

/** What runners call. */
export const leases: PipelineFacet<LeaseCalls> = {
  async take(reach, request) {
    return await leaseDatums(reach, { request, datumQueued: (waitMs) => reach.memory.queued.wait(waitMs) });
  },

  async vacate({ ledger }, { worker, visit }) {
    if (ledger.exists) ledger.transaction(() => ledger.slots.vacate(worker, visit));
  },

  async renew(reach, renewal) {
    const { ledger } = reach;
    if (!ledger.exists) return { lost: [...renewal.leases] };
    return ledger.transaction((tx) => keep(tx, reach, renewal));
  },

  async finish(reach, { outcomes }) {
    const { ledger, memory } = reach;
    if (!ledger.active()) return { lost: outcomes.map(({ lease }) => lease) };
    const lost: string[] = [];
    for (const outcome of outcomes) {
      const recorded = ledger.transaction((tx) => recordOutcome(tx, reach, outcome));
      if (!recorded) lost.push(outcome.lease);
    }
    memory.queued.wake();
    return { lost };
  },

  async output({ ledger }) {
    return (ledger.exists ? ledger.pipeline.definition()?.output : undefined) ?? null;
  },
};

/**
 * Keeps leases; returns those that are lost, all of them while the pipeline does not run, and what the others read. A worker that leaves frees
 * its slot in whatever state the pipeline is: when it starts again, another worker would wait for a slot of nobody.
 */
function keep(
  tx: Tx,
  context: PipelineContext,
  { worker, leases, leaving, trouble }: Renewal,
): RenewedLeases {
  const { ledger, peers } = context;
  const now = peers.now();
  const until = now + LEASE_MS;
  if (leaving) ledger.slots.release(worker);
  const definition = ledger.active();
  if (!definition) return { lost: [...leases] };
  sweep(tx, context, now);
  if (!leaving) ledger.slots.renew(worker, { now, until });
  if (trouble !== undefined) ledger.slots.setTrouble(worker, trouble || null);
  const lost: string[] = [];
  const kept = new Set<number>();
  for (const lease of leases) {
    const job = ledger.attempts.renew(lease, until) ?? ledger.tasks.renew(lease, until);
    if (job === undefined) lost.push(lease);
    else kept.add(job);
  }
  if (kept.size === 0) return { lost };
  const jobs = [...kept].flatMap((n) => ledger.jobs.get(n) ?? []);
  const read = jobs.map((job) => ({ job: job.id, inputs: inputCommits(definition, job) }));
  return { lost, kept: { output: definition.output, jobs: read } };
}

/** The commits that a job reads. */
function inputCommits({ inputs }: Definition, { positions }: JobRow): InputCommit[] {
  return inputs.flatMap(({ repo, branch, source, from }) => {
    const commit = positions[source]?.commit;
    return commit ? [{ repo, branch, commit, from }] : [];
  });
}
