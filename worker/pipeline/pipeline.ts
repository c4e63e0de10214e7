import { DurableObject } from "cloudflare:workers";
import type { Env } from "../env.ts";
import { Engine } from "../objects/engine.ts";
import { answer, type Faceted, type Facets } from "../objects/facets.ts";
import { datums, lineage } from "./calls/datums.ts";
import type { Reach } from "./calls/facet.ts";
import { jobs } from "./calls/jobs.ts";
import { leases } from "./calls/leases.ts";
import { admin, lifecycle, specification, wakeUps } from "./calls/lifecycle.ts";
import { logs } from "./calls/logs.ts";
import { Memory } from "./context.ts";
import type { PipelineApi } from "./contract.ts";
import { Ledger } from "./ledger/ledger.ts";
import { openPeers } from "./peers.ts";
import { loopsOf } from "./work/loops.ts";

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

/** One per pipeline. Its calls write down what is to be done; its loops do it. */
export class Pipeline extends DurableObject<Env> implements Faceted {
  readonly #reach: Reach;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { storage } = ctx;
    const ledger = new Ledger(storage);
    const peers = openPeers(env);
    const memory = new Memory();
    const reach: Reach = {
      ...{ ledger, peers, memory, objectName: ctx.id.name },
      get engine() {
        return engine;
      },
    };
    const object = () => `pipeline ${ledger.pipeline.name()}`;
    const engine: Engine = new Engine({
      object,
      exists: () => ledger.exists,
      now: peers.now,
      storage,
      loops: loopsOf(reach, object),
    });
    this.#reach = reach;
    ledger.listener = (woken) => {
      if (woken.has("outbox") && ledger.jobs.hasUrgent()) memory.urgent.wake();
      engine.woken(woken);
    };
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
