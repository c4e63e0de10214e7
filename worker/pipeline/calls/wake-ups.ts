import type { WakeUpCalls } from "../../branch/contract.ts";
import type { PipelineFacet } from "./facet.ts";

/** What Branch objects call. */
export const wakeUps: PipelineFacet<WakeUpCalls> = {
  async ring({ engine }, { uid, output }) {
    if (output) engine.ringOfOutput(uid);
    else engine.ring(uid);
  },

  async outputKept({ engine }, { uid }) {
    engine.outputKept(uid);
  },
};
