import { mustNotBeNobody } from "../../objects/made-objects.ts";
import type { LifecycleCalls } from "../contract.ts";
import { describePipeline, foundPipeline, restingPipeline } from "../views/pipeline.ts";
import { beginCreation } from "../work/saga/create.ts";
import { beginDestruction } from "../work/saga/destroy.ts";
import { beginStart, beginStop } from "../work/saga/stop-start.ts";
import type { PipelineFacet, Reach } from "./facet.ts";

/** Each writes down what is to become of the pipeline; the engine does it, and goes on if the caller is gone. */
export const lifecycle: PipelineFacet<LifecycleCalls> = {
  async create({ engine, objectName, ...context }, spec, by = {}) {
    mustNotBeNobody(objectName);
    const { ledger, peers } = context;
    const fault = foundPipeline(ledger) ? undefined : await peers.catalogue.fault();
    if (fault) return { ok: false, reason: fault };
    const begun = await beginCreation(context, { spec, ...by });
    if (begun !== "begun") return { ok: false, reason: begun };
    const uid = ledger.pipeline.definition()?.uid ?? "";
    await engine.changeState();
    const refusal = engine.refusalOf(uid);
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

  async destroy({ ledger, wakes, engine }, request) {
    if (!ledger.exists || !beginDestruction(ledger, request))
      return { ok: false, reason: "no-such-pipeline" };
    wakes.queued();
    await engine.changeState();
    return ledger.pipeline.row()?.state === "deleting" ? { ok: false, reason: "unavailable" } : { ok: true };
  },
};

/** Goes on to a state, after the change that is under way. Succeeds if the pipeline is in that state already. */
async function become(
  { ledger, wakes, engine }: Reach,
  { state, begin }: { state: "active" | "stopped"; begin: () => boolean },
): ReturnType<LifecycleCalls["stop"]> {
  if (!foundPipeline(ledger)) return { ok: false, reason: "no-such-pipeline" };
  await engine.changeState();
  if (begin()) wakes.queued();
  await engine.changeState();
  if (!foundPipeline(ledger)) return { ok: false, reason: "no-such-pipeline" };
  const found = restingPipeline(ledger);
  return found?.pipeline.state === state ? found : { ok: false, reason: "unavailable" };
}
