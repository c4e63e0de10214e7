import type { LineageCalls } from "../contract.ts";
import { computedFrom } from "../views/computed-from.ts";
import { fateOf } from "../views/fate.ts";
import { makersOf } from "../views/provenance.ts";
import { answered, type PipelineFacet } from "./facet.ts";

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
