import type { DatumCalls, LineageCalls } from "../contract.ts";
import { datumDetail, datumOutputs, listDatums } from "../views/datums.ts";
import { computedFrom, fateOf, makersOf } from "../views/lineage.ts";
import { explained, MAX_EXPLAINED } from "../views/why.ts";
import { answered, type PipelineFacet } from "./facet.ts";

export const datums: PipelineFacet<DatumCalls> = {
  async list(reach, { job: id, after, limit, why }) {
    const { ledger } = reach;
    const job = ledger.exists ? ledger.jobs.byId(id) : undefined;
    if (!job) return { ok: false, reason: "no-such-job" };
    const page = listDatums(ledger, { job, after, limit: why ? Math.min(limit, MAX_EXPLAINED) : limit });
    if (!page) return { ok: false, reason: "no-such-place" };
    return { ok: true, ...(why ? await explained(reach, { job, page }) : page) };
  },

  async view(reach, call) {
    return answered(await datumDetail(reach, call));
  },

  async outputs(reach, call) {
    return answered(datumOutputs(reach, call));
  },
};

/** From an input to what was made of it, and back. */
export const lineage: PipelineFacet<LineageCalls> = {
  async provenance(reach, call) {
    return answered(await makersOf(reach, call));
  },

  async outputsOf({ ledger }, call) {
    return computedFrom(ledger, call);
  },

  async fate(reach, call) {
    return answered((await fateOf(reach, call)) ?? "no-such-pipeline");
  },
};
