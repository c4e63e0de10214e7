import type { LeaseCalls } from "../contract.ts";
import { renew } from "../work/leases/expiry.ts";
import type { PipelineFacet } from "./facet.ts";
import { recordOutcome } from "./outcomes.ts";
import { leaseDatums } from "./take.ts";

/** What runners call. */
export const leases: PipelineFacet<LeaseCalls> = {
  async take({ engine, ...context }, request) {
    return await leaseDatums(context, { request, datumQueued: (waitMs) => engine.datumQueued(waitMs) });
  },

  async vacate({ ledger }, { worker, visit }) {
    if (ledger.exists) ledger.transaction(() => ledger.slots.vacate(worker, visit));
  },

  async renew(reach, renewal) {
    const { ledger } = reach;
    if (!ledger.exists) return { lost: [...renewal.leases] };
    return ledger.transaction((tx) => renew(tx, reach, renewal));
  },

  async finish(reach, { outcomes }) {
    const { ledger, wakes, engine } = reach;
    if (!ledger.active()) return { lost: outcomes.map(({ lease }) => lease) };
    const lost: string[] = [];
    for (const outcome of outcomes) {
      const recorded = ledger.transaction((tx) => recordOutcome(tx, reach, outcome));
      if (!recorded) lost.push(outcome.lease);
    }
    engine.watch();
    wakes.queued();
    wakes.advance();
    wakes.outbox();
    return { lost };
  },

  async output({ ledger }) {
    return (ledger.exists ? ledger.pipeline.definition()?.output : undefined) ?? null;
  },
};
