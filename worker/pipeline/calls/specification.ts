import type { SpecificationCalls } from "../contract.ts";
import { foreseeUpdate } from "../views/foresee.ts";
import { foundPipeline, restingPipeline } from "../views/pipeline.ts";
import { listVersions, wholeVersion } from "../views/versions.ts";
import { beginUpdate } from "../work/saga/update.ts";
import { answered, changeState, type PipelineFacet } from "./facet.ts";

/** The versions of the specification, and the next one. */
export const specification: PipelineFacet<SpecificationCalls> = {
  async versions({ ledger }, request) {
    if (!foundPipeline(ledger)) return { ok: false, reason: "no-such-pipeline" };
    return { ok: true, ...listVersions(ledger, request) };
  },

  async version({ ledger }, version) {
    if (!foundPipeline(ledger)) return { ok: false, reason: "no-such-pipeline" };
    return answered(wholeVersion(ledger, version));
  },

  async update(reach, request) {
    const { ledger, engine } = reach;
    if (!foundPipeline(ledger)) return { ok: false, reason: "no-such-pipeline" };
    // A change that is under way comes first.
    await changeState(reach);
    const begun = await beginUpdate(reach, request);
    // Goes on with what has begun, and takes back what has not.
    await changeState(reach);
    if (begun === "busy") return { ok: false, reason: "unavailable" };
    if (typeof begun === "object") return { ok: false, reason: "circle", circle: begun };
    if (begun !== "unchanged" && begun !== "begun") return { ok: false, reason: begun };
    void engine.resume();
    return restingPipeline(ledger) ?? { ok: false, reason: "unavailable" };
  },

  async plan({ ledger }, request) {
    if (!foundPipeline(ledger)) return { ok: false, reason: "no-such-pipeline" };
    return foreseeUpdate(ledger, request) ?? { ok: false, reason: "no-such-pipeline" };
  },
};
