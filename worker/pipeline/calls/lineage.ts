import type { LineageCalls } from "../contract.ts";
import { computedFrom } from "../views/computed-from.ts";
import { fateOf } from "../views/fate.ts";
import { makersOf } from "../views/provenance.ts";
import type { PipelineFacet } from "./facet.ts";

/** From an input to what was made of it, and back. */
export const lineage: PipelineFacet<LineageCalls> = {
  async provenance(reach, call) {
    const page = await makersOf(reach, call);
    return typeof page === "string" ? { ok: false, reason: page } : { ok: true, ...page };
  },

  async outputsOf({ ledger }, call) {
    return computedFrom(ledger, call);
  },

  async fate(reach, call) {
    const fate = await fateOf(reach, call);
    return fate ? { ok: true, ...fate } : { ok: false, reason: "no-such-pipeline" };
  },
};
