import { DurableObject } from "cloudflare:workers";
import type { Job } from "../../protocol/pipelines.ts";
import type { PipelineSpec } from "../../protocol/spec.ts";
import type { Env } from "../env.ts";
import { mustNotBeNobody } from "../objects/made-objects.ts";
import type { PipelineContext } from "./context.ts";
import type { PipelineApi, Submitter } from "./contract.ts";
import { tellAgain } from "./engine/catalogue-outbox.ts";
import { Engine } from "./engine/engine.ts";
import { openPeers } from "./engine/peers.ts";
import { listVersions, wholeVersion } from "./history/history.ts";
import { fateOf } from "./inputs/fate.ts";
import { computedFrom } from "./jobs/computed-from.ts";
import { datumDetail, datumOutputs } from "./jobs/datum-view.ts";
import { listDatums } from "./jobs/datums-view.ts";
import { stopJob } from "./jobs/end.ts";
import type { JobRow } from "./jobs/job-store.ts";
import { makersOf } from "./jobs/provenance.ts";
import { beginRetry } from "./jobs/retry.ts";
import { summarize } from "./jobs/summary.ts";
import { oldestListed } from "./jobs/trim.ts";
import { shownJobs } from "./jobs/view.ts";
import { explained, MAX_EXPLAINED } from "./jobs/why.ts";
import { Ledger } from "./ledger/ledger.ts";
import { beginCreation } from "./lifecycle/create.ts";
import { beginDestruction } from "./lifecycle/destroy.ts";
import { foreseeUpdate } from "./lifecycle/foresee.ts";
import { beginStart, beginStop } from "./lifecycle/stop-start.ts";
import { beginUpdate, type Update } from "./lifecycle/update.ts";
import { describePipeline, foundPipeline, restingPipeline } from "./lifecycle/view.ts";
import { addLogs, answerLogs } from "./logs/logs.ts";
import { renew } from "./work/expiry.ts";
import { leaseDatums } from "./work/lease.ts";
import { recordOutcome } from "./work/outcomes.ts";

type Request<Call extends keyof PipelineApi> = Parameters<PipelineApi[Call]>[0];
type Answer<Call extends keyof PipelineApi> = ReturnType<PipelineApi[Call]>;

/** Greater than every job id. */
const AFTER_ALL_IDS = "~";

/** One per pipeline. Its calls write down what is to be done; the engine does it. */
export class Pipeline extends DurableObject<Env> implements PipelineApi {
  readonly #context: PipelineContext;
  readonly #engine: Engine;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#engine = new Engine({ ledger: new Ledger(ctx.storage), peers: openPeers(env) });
    this.#context = this.#engine.context;
    // What a crash interrupted goes on with the first call, without waiting for the alarm.
    void this.#engine.resume();
  }

  override async alarm(): Promise<void> {
    await this.#engine.alarm();
  }

  async create(spec: PipelineSpec, by: Submitter = {}): Answer<"create"> {
    mustNotBeNobody(this.ctx.id.name);
    const { ledger, peers } = this.#context;
    const fault = foundPipeline(ledger) ? undefined : await peers.catalogue.fault();
    if (fault) return { ok: false, reason: fault };
    const begun = await beginCreation(this.#context, { spec, ...by });
    if (begun !== "begun") return { ok: false, reason: begun };
    const uid = ledger.pipeline.definition()?.uid ?? "";
    await this.#engine.runSaga();
    const refusal = this.#engine.refusalOf(uid);
    if (refusal) return refusal;
    const made = ledger.active();
    if (made?.uid !== uid) return { ok: false, reason: "unavailable" };
    return { ok: true, pipeline: describePipeline(ledger, { definition: made, state: "active" }) };
  }

  async inspect(): Answer<"inspect"> {
    return foundPipeline(this.#context.ledger) ?? { ok: false, reason: "no-such-pipeline" };
  }

  async versions(request: Request<"versions">): Answer<"versions"> {
    const { ledger } = this.#context;
    if (!foundPipeline(ledger)) return { ok: false, reason: "no-such-pipeline" };
    return { ok: true, ...listVersions(ledger, request) };
  }

  async version(version: number | null): Answer<"version"> {
    const { ledger } = this.#context;
    if (!foundPipeline(ledger)) return { ok: false, reason: "no-such-pipeline" };
    const whole = wholeVersion(ledger, version);
    return typeof whole === "string" ? { ok: false, reason: whole } : { ok: true, ...whole };
  }

  async stop(): Answer<"stop"> {
    return this.#become("stopped", () => beginStop(this.#context.ledger));
  }

  async start(): Answer<"start"> {
    return this.#become("active", () => beginStart(this.#context.ledger));
  }

  async update(request: Update): Answer<"update"> {
    if (!foundPipeline(this.#context.ledger)) return { ok: false, reason: "no-such-pipeline" };
    // A change that is under way comes first.
    await this.#engine.runSaga();
    const begun = await beginUpdate(this.#context, request);
    // Goes on with what has begun, and takes back what has not.
    await this.#engine.runSaga();
    if (begun === "busy") return { ok: false, reason: "unavailable" };
    if (typeof begun === "object") return { ok: false, reason: "circle", circle: begun };
    if (begun !== "unchanged" && begun !== "begun") return { ok: false, reason: begun };
    void this.#engine.resume();
    return restingPipeline(this.#context.ledger) ?? { ok: false, reason: "unavailable" };
  }

  async planUpdate(request: Request<"planUpdate">): Answer<"planUpdate"> {
    if (!foundPipeline(this.#context.ledger)) return { ok: false, reason: "no-such-pipeline" };
    return foreseeUpdate(this.#context.ledger, request) ?? { ok: false, reason: "no-such-pipeline" };
  }

  async destroy(request: Request<"destroy">): Answer<"destroy"> {
    const { ledger } = this.#context;
    if (!ledger.exists || !beginDestruction(ledger, request)) {
      return { ok: false, reason: "no-such-pipeline" };
    }
    this.#context.wakes.queued();
    await this.#engine.runSaga();
    return ledger.pipeline.row()?.state === "deleting" ? { ok: false, reason: "unavailable" } : { ok: true };
  }

  async loops(): Answer<"loops"> {
    return foundPipeline(this.#context.ledger) ? this.#engine.standing() : null;
  }

  async space(): Answer<"space"> {
    if (!foundPipeline(this.#context.ledger)) return null;
    return this.#context.ledger.space;
  }

  async announce(): Answer<"announce"> {
    const { ledger } = this.#context;
    if (!ledger.exists || ledger.pipeline.name() === undefined) {
      return { ok: false, reason: "no-such-pipeline" };
    }
    this.#engine.watch();
    await tellAgain(this.#context);
    await this.#engine.runSaga();
    void this.#engine.resume();
    const row = ledger.pipeline.row();
    const isTold = row?.state === "deleted" || (row !== undefined && row.catalogueVersion >= row.version);
    return isTold ? { ok: true } : { ok: false, reason: "unavailable" };
  }

  async ring(request: Request<"ring">): Answer<"ring"> {
    if (request.output) this.#engine.ringOfOutput(request.uid);
    else this.#engine.ring(request.uid);
  }

  async outputKept(request: Request<"outputKept">): Answer<"outputKept"> {
    this.#engine.outputKept(request.uid);
  }

  async jobs(request: Request<"jobs">): Answer<"jobs"> {
    const { ledger, peers } = this.#context;
    if (!ledger.exists) return { jobs: [], next: null };
    const from = oldestListed(ledger.jobs, peers.keptJobs);
    const rows = ledger.jobs.before(request.after ?? AFTER_ALL_IDS, { from, limit: request.limit + 1 });
    const page = rows.slice(0, request.limit);
    return {
      jobs: await shownJobs(this.#context, page),
      next: rows.length > page.length ? (page.at(-1)?.id ?? null) : null,
    };
  }

  async job(id: string): Answer<"job"> {
    const { ledger } = this.#context;
    const row = ledger.exists ? ledger.jobs.byId(id) : undefined;
    return row ? this.#viewOne(row) : null;
  }

  async unfinished(jobs: readonly string[]): Answer<"unfinished"> {
    const { ledger } = this.#context;
    if (!ledger.exists) return [];
    const rows = jobs.map((id) => ledger.jobs.byId(id)).filter((row) => row !== undefined);
    return await shownJobs(
      this.#context,
      rows.filter(({ finishedAt }) => finishedAt === null),
    );
  }

  async stopJob(id: string): Answer<"stopJob"> {
    const { ledger } = this.#context;
    const stopped = ledger.exists
      ? ledger.transaction((tx) => stopJob(tx, this.#context, id))
      : "no-such-job";
    if (stopped !== "stopped" && stopped !== "was-stopped") return { ok: false, reason: stopped };
    this.#engine.watch();
    const job = await this.job(id);
    return job ? { ok: true, job } : { ok: false, reason: "no-such-job" };
  }

  async retry(request: Request<"retry">): Answer<"retry"> {
    const { ledger } = this.#context;
    if (!foundPipeline(ledger)) return { ok: false, reason: "no-such-job" };
    // A change that is under way comes first, and then what the inputs have.
    await this.#engine.runSaga();
    if (!(await this.#engine.lookAtInputs())) return { ok: false, reason: "unavailable" };
    const { job: asked, every, key } = request;
    const retry = { asked, every, ...(key !== undefined && { key }) };
    let begun = beginRetry(this.#context, retry);
    await this.#engine.runSaga();
    // Another change came first, perhaps that of the same retry.
    if (!begun.ok && begun.reason === "unavailable") begun = beginRetry(this.#context, retry);
    if (!begun.ok) return begun;
    void this.#engine.resume();
    await this.#engine.tellOfJobs();
    const made = ledger.jobs.get(begun.made);
    const job = made && (await this.#viewOne(made));
    return job ? { ok: true, job, newest: begun.newest } : { ok: false, reason: "unavailable" };
  }

  async datums(request: Request<"datums">): Answer<"datums"> {
    const { ledger } = this.#context;
    const job = ledger.exists ? ledger.jobs.byId(request.job) : undefined;
    if (!job) return { ok: false, reason: "no-such-job" };
    const { after, why } = request;
    const limit = why ? Math.min(request.limit, MAX_EXPLAINED) : request.limit;
    const page = listDatums(ledger, { job, after, limit });
    if (!page) return { ok: false, reason: "no-such-place" };
    return { ok: true, ...(why ? await explained(this.#context, { job, page }) : page) };
  }

  async summary(id: string): Answer<"summary"> {
    const { ledger } = this.#context;
    const job = ledger.exists ? ledger.jobs.byId(id) : undefined;
    return job ? { ok: true, ...summarize(ledger, job) } : { ok: false, reason: "no-such-job" };
  }

  async datum(request: Request<"datum">): Answer<"datum"> {
    const detail = await datumDetail(this.#context, request);
    return typeof detail === "string" ? { ok: false, reason: detail } : { ok: true, ...detail };
  }

  async datumOutputs(request: Request<"datumOutputs">): Answer<"datumOutputs"> {
    const page = datumOutputs(this.#context, request);
    return typeof page === "string" ? { ok: false, reason: page } : { ok: true, ...page };
  }

  async logs(request: Request<"logs">): Answer<"logs"> {
    return answerLogs(this.#context, {
      request,
      jobLogged: (waitMs) => this.#engine.jobLogged(request.job, waitMs),
    });
  }

  async provenance(request: Request<"provenance">): Answer<"provenance"> {
    const page = await makersOf(this.#context, request);
    return typeof page === "string" ? { ok: false, reason: page } : { ok: true, ...page };
  }

  async outputsOf(request: Request<"outputsOf">): Answer<"outputsOf"> {
    return computedFrom(this.#context.ledger, request);
  }

  async fate(request: Request<"fate">): Answer<"fate"> {
    const fate = await fateOf(this.#context, request);
    return fate ? { ok: true, ...fate } : { ok: false, reason: "no-such-pipeline" };
  }

  async waitJob(request: Request<"waitJob">): Answer<"waitJob"> {
    const { ledger, peers } = this.#context;
    const deadline = peers.now() + request.waitMs;
    for (;;) {
      const row = ledger.exists ? ledger.jobs.byId(request.id) : undefined;
      const leftMs = deadline - peers.now();
      if (!row) return null;
      if (row.finishedAt !== null || leftMs <= 0) return this.#viewOne(row);
      await this.#engine.jobEnds(request.id, leftMs);
    }
  }

  async lease(request: Request<"lease">): Answer<"lease"> {
    return leaseDatums(this.#context, {
      request,
      datumQueued: (waitMs) => this.#engine.datumQueued(waitMs),
    });
  }

  async vacate({ worker, visit }: Request<"vacate">): Answer<"vacate"> {
    const { ledger } = this.#context;
    if (ledger.exists) ledger.transaction(() => ledger.slots.vacate(worker, visit));
  }

  async renew(request: Request<"renew">): Answer<"renew"> {
    const { ledger } = this.#context;
    if (!ledger.exists) return { lost: [...request.leases] };
    return ledger.transaction((tx) => renew(tx, this.#context, request));
  }

  async addLogs({ entries }: Request<"addLogs">): Answer<"addLogs"> {
    const { ledger, wakes } = this.#context;
    if (!ledger.active()) return { lost: [...new Set(entries.map(({ lease }) => lease))] };
    const { lost, jobs } = ledger.transaction((tx) => addLogs(tx, this.#context, entries));
    for (const job of jobs) wakes.logged(job);
    return { lost };
  }

  async finish(request: Request<"finish">): Answer<"finish"> {
    const { ledger, wakes } = this.#context;
    if (!ledger.active()) return { lost: request.outcomes.map(({ lease }) => lease) };
    const lost: string[] = [];
    for (const outcome of request.outcomes) {
      const recorded = ledger.transaction((tx) => recordOutcome(tx, this.#context, outcome));
      if (!recorded) lost.push(outcome.lease);
    }
    this.#engine.watch();
    wakes.queued();
    wakes.advance();
    wakes.outbox();
    return { lost };
  }

  async output(): Answer<"output"> {
    const { ledger } = this.#context;
    return (ledger.exists ? ledger.pipeline.definition()?.output : undefined) ?? null;
  }

  /** Goes on to a state, after the change that is under way. Succeeds if the pipeline is in that state already. */
  async #become(state: "active" | "stopped", begin: () => boolean): Answer<"stop"> {
    if (!foundPipeline(this.#context.ledger)) return { ok: false, reason: "no-such-pipeline" };
    await this.#engine.runSaga();
    if (begin()) this.#context.wakes.queued();
    await this.#engine.runSaga();
    if (!foundPipeline(this.#context.ledger)) return { ok: false, reason: "no-such-pipeline" };
    const found = restingPipeline(this.#context.ledger);
    return found?.pipeline.state === state ? found : { ok: false, reason: "unavailable" };
  }

  async #viewOne(row: JobRow): Promise<Job | null> {
    return (await shownJobs(this.#context, [row]))[0] ?? null;
  }
}
