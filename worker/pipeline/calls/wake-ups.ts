import { bucketName } from "../../../protocol/names.ts";
import type { WakeUpCalls } from "../../branch/contract/pipelines.ts";
import type { PipelineFacet } from "./facet.ts";

/** What Branch objects call. Each leaves a mark, which stays until what it is for is done, and ignores an earlier pipeline of the name. */
export const wakeUps: PipelineFacet<WakeUpCalls> = {
  async ring({ ledger, memory, engine }, { uid, output }) {
    const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
    if (!definition || definition.uid !== uid) return;
    if (output) {
      // Something was erased in a branch that the pipeline writes to, whether it runs or not.
      ledger.transaction(() => ledger.erasures.addDue(bucketName(definition.output)));
    } else if (ledger.active()) {
      memory.wakeUps++;
      if (!ledger.pipeline.row()?.pullDue) ledger.transaction(() => ledger.pipeline.setPullDue(1));
      void engine.wake("inputs");
    }
  },

  async outputKept({ ledger }, { uid }) {
    const state = ledger.exists ? ledger.pipeline.row()?.state : undefined;
    if (state === undefined || state === "purging" || state === "deleted") return;
    if (ledger.pipeline.uid() !== uid) return;
    ledger.transaction(() => ledger.pipeline.addOutputNews());
  },
};
