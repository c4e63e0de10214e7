import { DurableObject } from "cloudflare:workers";
import type { Env } from "../env.ts";
import { answer, type Faceted, type Facets } from "../objects/facets.ts";
import { admin } from "./calls/admin.ts";
import { datums } from "./calls/datums.ts";
import type { Reach } from "./calls/facet.ts";
import { jobs } from "./calls/jobs.ts";
import { leases } from "./calls/leases.ts";
import { lifecycle } from "./calls/lifecycle.ts";
import { lineage } from "./calls/lineage.ts";
import { logs } from "./calls/logs.ts";
import { specification } from "./calls/specification.ts";
import { wakeUps } from "./calls/wake-ups.ts";
import type { PipelineApi } from "./contract.ts";
import { PipelineEngine } from "./engine/engine.ts";
import { openPeers } from "./engine/peers.ts";
import { Ledger } from "./ledger/ledger.ts";

const FACETS: Facets<PipelineApi, Reach> = {
  lifecycle,
  specification,
  jobs,
  datums,
  logs,
  lineage,
  leases,
  wakeUps,
  admin,
};

/** One per pipeline. Its calls write down what is to be done; the engine does it. */
export class Pipeline extends DurableObject<Env> implements Faceted {
  readonly #reach: Reach;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { storage } = ctx;
    const engine = new PipelineEngine({ ledger: new Ledger(storage), peers: openPeers(env), storage });
    this.#reach = { ...engine.context, engine, objectName: ctx.id.name };
    // What a crash interrupted goes on with the first call, without waiting for the alarm.
    void engine.resume();
  }

  override async alarm(): Promise<void> {
    await this.#reach.engine.alarm();
  }

  async call(name: string, args: readonly unknown[]): Promise<unknown> {
    return await answer(FACETS, { name, args, reach: this.#reach });
  }
}
