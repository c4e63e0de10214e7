import { WATCH_MS } from "../../objects/loop.ts";
import type { AdminCalls } from "../contract.ts";
import { foundPipeline } from "../views/pipeline.ts";
import { tellAgain } from "../work/catalogue.ts";
import { changeState, type PipelineFacet } from "./facet.ts";

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
