import { DurableObject } from "cloudflare:workers";
import type { Job, Pipeline as PipelineInfo } from "../../protocol/pipelines.ts";
import type { Outcome } from "../../protocol/runner.ts";
import type { PipelineSpec } from "../../protocol/spec.ts";
import type { Done, Refused } from "../branch/contract.ts";
import { workerCount } from "../core/parallelism.ts";
import type { Env } from "../env.ts";
import type { Leased, PipelineApi, Renewal } from "./contract.ts";
import { beginCreation } from "./create.ts";
import type { Definition } from "./definition.ts";
import { beginDestruction } from "./destroy.ts";
import { Engine } from "./engine.ts";
import { viewJob, waitingReason } from "./job-view.ts";
import type { JobRow } from "./jobs.ts";
import { renew, settle, take } from "./leases.ts";
import { Ledger } from "./ledger.ts";
import type { Parts } from "./parts.ts";
import { openPeers } from "./peers.ts";

/** Greater than every job id. */
const AFTER_ALL_IDS = "~";

/** One per pipeline. Its calls write down what is to be done; the engine does it. */
export class Pipeline extends DurableObject<Env> implements PipelineApi {
  readonly #parts: Parts;
  readonly #engine: Engine;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#engine = new Engine({ ledger: new Ledger(ctx.storage), peers: openPeers(env) });
    this.#parts = this.#engine.parts;
    // Whatever a crash interrupted goes on with the first call, without waiting for the alarm.
    void this.#engine.resume();
  }

  override async alarm(): Promise<void> {
    await this.#engine.alarm();
  }

  async create(
    spec: PipelineSpec,
  ): Promise<
    | { ok: true; pipeline: PipelineInfo }
    | Refused<"already-exists" | "unavailable">
    | Refused<"output-exists">
  > {
    const { ledger } = this.#parts;
    if (!(await beginCreation(this.#parts, spec))) return { ok: false, reason: "already-exists" };
    const uid = ledger.pipeline.definition()?.uid ?? "";
    await this.#engine.runSaga();
    if (this.#engine.wasRefused(uid)) return { ok: false, reason: "output-exists" };
    const made = ledger.active();
    if (made?.uid !== uid) return { ok: false, reason: "unavailable" };
    return { ok: true, pipeline: describe(made, "active") };
  }

  async inspect(): Promise<{ ok: true; pipeline: PipelineInfo } | Refused<"no-such-pipeline">> {
    const { ledger } = this.#parts;
    const state = ledger.exists ? ledger.pipeline.row()?.state : undefined;
    const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
    if (!definition || (state !== "creating" && state !== "active" && state !== "deleting")) {
      return { ok: false, reason: "no-such-pipeline" };
    }
    return { ok: true, pipeline: describe(definition, state) };
  }

  async destroy(request: {
    keepOutput: boolean;
  }): Promise<Done | Refused<"no-such-pipeline" | "unavailable">> {
    const { ledger } = this.#parts;
    if (!ledger.exists || !beginDestruction(this.#parts, request)) {
      return { ok: false, reason: "no-such-pipeline" };
    }
    this.#parts.wakes.queued();
    await this.#engine.runSaga();
    return ledger.pipeline.row()?.state === "deleting" ? { ok: false, reason: "unavailable" } : { ok: true };
  }

  async ring(request: { uid: string }): Promise<void> {
    this.#engine.ring(request.uid);
  }

  async jobs(request: { after?: string; limit: number }): Promise<{ jobs: Job[]; next: string | null }> {
    const { ledger } = this.#parts;
    if (!ledger.exists) return { jobs: [], next: null };
    const rows = ledger.jobs.before(request.after ?? AFTER_ALL_IDS, request.limit + 1);
    const page = rows.slice(0, request.limit);
    return {
      jobs: await this.#view(page),
      next: rows.length > page.length ? (page.at(-1)?.id ?? null) : null,
    };
  }

  async job(id: string): Promise<Job | null> {
    const { ledger } = this.#parts;
    const row = ledger.exists ? ledger.jobs.byId(id) : undefined;
    return row ? this.#viewOne(row) : null;
  }

  async waitJob(request: { id: string; waitMs: number }): Promise<Job | null> {
    const { ledger, peers } = this.#parts;
    const deadline = peers.now() + request.waitMs;
    for (;;) {
      const row = ledger.exists ? ledger.jobs.byId(request.id) : undefined;
      const leftMs = deadline - peers.now();
      if (!row) return null;
      if (row.finishedAt !== null || leftMs <= 0) return this.#viewOne(row);
      await this.#engine.jobEnds(request.id, leftMs);
    }
  }

  async lease(request: {
    node: string;
    worker: string;
    max: number;
    waitMs: number;
  }): Promise<Leased | Refused<"no-such-pipeline">> {
    const { ledger, peers } = this.#parts;
    const { node, worker, max } = request;
    const deadline = peers.now() + request.waitMs;
    const nodes = await peers.liveNodes();
    for (;;) {
      const definition = ledger.active();
      if (!definition) return this.#idle();
      const { spec, output } = definition;
      const allowed = workerCount(spec.parallelism_spec, nodes);
      const taken = ledger.transaction(() =>
        take(this.#parts, { definition, request: { node, worker, max, allowed } }),
      );
      const leftMs = deadline - peers.now();
      if (!taken.slot || taken.datums.length > 0 || leftMs <= 0) {
        return { ok: true, ...taken, transform: spec.transform, output };
      }
      await this.#engine.datumQueued(leftMs);
    }
  }

  async renew(request: Renewal): Promise<{ lost: string[] }> {
    const { ledger } = this.#parts;
    if (!ledger.active()) return { lost: [...request.leases] };
    return { lost: ledger.transaction(() => renew(this.#parts, request)) };
  }

  async finish(request: { worker: string; outcomes: readonly Outcome[] }): Promise<{ lost: string[] }> {
    const { ledger, wakes } = this.#parts;
    if (!ledger.active()) return { lost: request.outcomes.map(({ lease }) => lease) };
    const lost: string[] = [];
    for (const outcome of request.outcomes) {
      const recorded = ledger.transaction(() => settle(this.#parts, outcome));
      if (!recorded) lost.push(outcome.lease);
    }
    this.#engine.watch();
    wakes.queued();
    wakes.front();
    wakes.outbox();
    return { lost };
  }

  async output(): Promise<{ repo: string; branch: string } | null> {
    const { ledger } = this.#parts;
    return (ledger.exists ? ledger.pipeline.definition()?.output : undefined) ?? null;
  }

  /** No datums: either there is no such pipeline, or it is still being made. */
  #idle(): Leased | Refused<"no-such-pipeline"> {
    const { ledger } = this.#parts;
    const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
    if (!definition || ledger.pipeline.row()?.state !== "creating") {
      return { ok: false, reason: "no-such-pipeline" };
    }
    return {
      ok: true,
      slot: false,
      transform: definition.spec.transform,
      output: definition.output,
      datums: [],
    };
  }

  async #viewOne(row: JobRow): Promise<Job | null> {
    return (await this.#view([row]))[0] ?? null;
  }

  async #view(rows: readonly JobRow[]): Promise<Job[]> {
    const { ledger, peers } = this.#parts;
    const definition = ledger.pipeline.definition();
    if (!definition) return [];
    const front = ledger.jobs.front();
    const jobs: Job[] = [];
    for (const row of rows) {
      const reason = await waitingReason(row, { ledger, front, liveNodes: () => peers.liveNodes() });
      jobs.push({ ...viewJob(row, { definition, front }), reason });
    }
    return jobs;
  }
}

function describe(definition: Definition, state: PipelineInfo["state"]): PipelineInfo {
  const { name, createdAt, spec, output } = definition;
  return { name, state, createdAt, spec, outputRepo: output.repo, outputBranch: output.branch };
}
