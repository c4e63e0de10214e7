import { mustNotBeNobody } from "../../objects/made-objects.ts";
import type { LifecycleCalls } from "../contract.ts";
import { describePipeline, foundPipeline, restingPipeline } from "../views/pipeline.ts";
import { beginCreation } from "../work/saga/create.ts";
import { beginDestruction } from "../work/saga/destroy.ts";
import { beginStart, beginStop } from "../work/saga/stop-start.ts";
import { changeState, type PipelineFacet, type Reach } from "./facet.ts";

/** Each writes down what is to become of the pipeline; a loop does it, and goes on if the caller is gone. */
export const lifecycle: PipelineFacet<LifecycleCalls> = {
  async create(reach, spec, by = {}) {
    const { ledger, peers, memory, objectName } = reach;
    mustNotBeNobody(objectName);
    const fault = foundPipeline(ledger) ? undefined : await peers.catalogue.fault();
    if (fault) return { ok: false, reason: fault };
    const begun = await beginCreation(reach, { spec, ...by });
    if (begun !== "begun") return { ok: false, reason: begun };
    const uid = ledger.pipeline.definition()?.uid ?? "";
    await changeState(reach);
    const refusal = memory.refusals.of(uid);
    if (refusal) return refusal;
    const made = ledger.active();
    if (made?.uid !== uid) return { ok: false, reason: "unavailable" };
    return { ok: true, pipeline: describePipeline(ledger, { definition: made, state: "active" }) };
  },

  async inspect({ ledger }) {
    return foundPipeline(ledger) ?? { ok: false, reason: "no-such-pipeline" };
  },

  async stop(reach) {
    return await become(reach, { state: "stopped", begin: () => beginStop(reach.ledger) });
  },

  async start(reach) {
    return await become(reach, { state: "active", begin: () => beginStart(reach.ledger) });
  },

  async destroy(reach, request) {
    const { ledger, memory } = reach;
    if (!ledger.exists || !beginDestruction(ledger, request))
      return { ok: false, reason: "no-such-pipeline" };
    memory.queued.wake();
    await changeState(reach);
    return ledger.pipeline.row()?.state === "deleting" ? { ok: false, reason: "unavailable" } : { ok: true };
  },
};

/** Goes on to a state, after the change that is under way. Succeeds if the pipeline is in that state already. */
async function become(
  reach: Reach,
  { state, begin }: { state: "active" | "stopped"; begin: () => boolean },
): ReturnType<LifecycleCalls["stop"]> {
  const { ledger, memory } = reach;
  if (!foundPipeline(ledger)) return { ok: false, reason: "no-such-pipeline" };
  await changeState(reach);
  if (begin()) memory.queued.wake();
  await changeState(reach);
  if (!foundPipeline(ledger)) return { ok: false, reason: "no-such-pipeline" };
  const found = restingPipeline(ledger);
  return found?.pipeline.state === state ? found : { ok: false, reason: "unavailable" };
}
