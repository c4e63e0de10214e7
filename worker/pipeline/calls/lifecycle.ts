import { bucketName } from "../../../protocol/names.ts";
import type { WakeUpCalls } from "../../branch/contract/pipelines.ts";
import { WATCH_MS } from "../../objects/loop.ts";
import { mustNotBeNobody } from "../../objects/made-objects.ts";
import type { AdminCalls, LifecycleCalls, SpecificationCalls } from "../contract.ts";
import {
  describePipeline,
  foundPipeline,
  listVersions,
  restingPipeline,
  wholeVersion,
} from "../views/pipeline.ts";
import { foreseeUpdate } from "../views/why.ts";
import { tellAgain } from "../work/catalogue.ts";
import { beginCreation } from "../work/saga/create.ts";
import { beginDestruction } from "../work/saga/destroy.ts";
import { beginStart, beginStop } from "../work/saga/stop-start.ts";
import { beginUpdate } from "../work/saga/update.ts";
import { answered, changeState, type PipelineFacet, type Reach } from "./facet.ts";

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

export const admin: PipelineFacet<AdminCalls> = {
  async loops({ ledger, engine }) {
    return foundPipeline(ledger) ? { loops: engine.standing() } : null;
  },

  async space({ ledger }) {
    return foundPipeline(ledger) ? ledger.space : null;
  },

  async announce(reach) {
    const { ledger, peers, engine } = reach;
    if (!ledger.exists || ledger.pipeline.name() === undefined)
      return { ok: false, reason: "no-such-pipeline" };
    ledger.wake("state", peers.now() + WATCH_MS);
    await tellAgain(reach);
    await changeState(reach);
    void engine.resume();
    const row = ledger.pipeline.row();
    const isKnown = row?.state === "deleted" || (row !== undefined && row.catalogueVersion >= row.version);
    return isKnown ? { ok: true } : { ok: false, reason: "unavailable" };
  },
};

/** What Branch objects call. What wakes leaves a mark, which stays until what it is for is done, and ignores an earlier pipeline of the name. */
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

  async named({ ledger }, { uid, uploads }) {
    if (!ledger.exists || ledger.pipeline.uid() !== uid) return { named: [] };
    const { results, merges } = ledger;
    return { named: uploads.filter((upload) => results.hasUpload(upload) || merges.hasUpload(upload)) };
  },
};
