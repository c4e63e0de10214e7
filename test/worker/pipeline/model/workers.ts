import type { BranchAddress } from "../../../../protocol/names.ts";
import { LEASE_MS, type Outcome } from "../../../../protocol/runner.ts";
import type { Leased } from "../../../../worker/pipeline/contract.ts";
import { killBranch, survived } from "../kill.ts";
import { branchOf, contentOf, expireLeases, pipelineOf, query } from "../support.ts";
import { TRIES } from "./naive-results.ts";
import { Outside } from "./outside.ts";
import type { RunLog } from "./run-log.ts";
import { type Done, done, nameOf, readingOf, type Work } from "./work.ts";

/** What a worker has. */
export interface Held {
  readonly lease: string;
  readonly job: string;
  readonly worker: string;
  readonly work: Work;
  readonly since: number;
  /** The lease was lost, whether the worker knows or not. */
  lost: boolean;
}

/** The workers of a pipeline: they lease, do what a lease says as a runner does, and tell what came of it. */
export class Workers {
  readonly held: Held[] = [];
  readonly outside = new Outside();
  readonly #pipeline: string;
  readonly #output: BranchAddress;
  readonly #log: RunLog;
  readonly #random: () => number;

  constructor({ pipeline, log, random }: { pipeline: string; log: RunLog; random: () => number }) {
    this.#pipeline = pipeline;
    this.#output = { repo: pipeline, branch: "master" };
    this.#log = log;
    this.#random = random;
  }

  /** Leases up to `max` and returns those. Nobody knows of what a killed object had granted. */
  async lease(worker: string, { max, waitMs = 0 }: { max: number; waitMs?: number }): Promise<Held[]> {
    const since = Date.now();
    const request = { node: "n1", worker, max, waitMs };
    const { transform, datums, tasks }: Leased = await survived(async () => {
      const answer = await pipelineOf(this.#pipeline).leases.take(request);
      if (!answer.ok) throw new Error(answer.reason);
      return answer;
    });
    const cmd = transform.cmd[0] ?? "";
    const fresh = await Promise.all(
      datums.map(async (datum): Promise<Held> => {
        const work: Work = { kind: "datum", reading: await readingOf(datum), cmd };
        return { lease: datum.lease, job: datum.job, worker, since, work, lost: false };
      }),
    );
    fresh.push(
      ...tasks.map((work) => ({ lease: work.lease, job: work.job, worker, since, work, lost: false })),
    );
    this.held.push(...fresh);
    return fresh;
  }

  /** Says what came of some leases. A lease that was lost must be answered so, and change nothing. */
  async finish(some: readonly Held[], salt: number): Promise<void> {
    if (some.length === 0) return;
    for (const one of some) this.held.splice(this.held.indexOf(one), 1);
    const outcomes = await this.#outcomesOf(some);
    let asked = 0;
    const lost = await survived(async () => {
      asked++;
      return (await pipelineOf(this.#pipeline).leases.finish({ worker: some[0]?.worker ?? "", outcomes }))
        .lost;
    });
    for (const [index, { state }] of outcomes.entries()) {
      const one = some[index] as Held;
      // Asked twice because of a kill, a refusal says that it was taken before the kill.
      const taken = !this.#isRefused(one, lost) || (asked > 1 && !one.lost);
      if (taken) this.#note(one, { state, salt });
      else if (!one.lost && !this.#log.failedTaskOf(one.job)) this.#explain(one);
    }
  }

  /** Renews; exactly the lost ones must be named. */
  async renew(some: readonly Held[]): Promise<void> {
    const leases = some.map(({ lease }) => lease);
    const { lost } = await survived(async () =>
      pipelineOf(this.#pipeline).leases.renew({ worker: some[0]?.worker ?? "", leases }),
    );
    for (const one of some) if (this.#isRefused(one, lost) && !one.lost) this.#explain(one);
  }

  /** Every worker has been silent for too long. */
  async expire(): Promise<void> {
    const silent = async (): Promise<void> => {
      await expireLeases(this.#pipeline);
      await query(this.#pipeline, "UPDATE tasks SET leaseUntil = 1 WHERE leaseUntil IS NOT NULL");
      await query(this.#pipeline, "UPDATE slots SET until = 1");
    };
    await survived(silent);
    for (const one of this.held) one.lost = true;
  }

  /** The leases of jobs that were ended are lost. */
  loseJobs(jobs: ReadonlySet<string>): void {
    for (const one of this.held) one.lost ||= jobs.has(one.job);
  }

  async killOutput(): Promise<void> {
    await killBranch(this.#output);
  }

  /** Whether a lease is said to be lost; one that was lost must be. */
  #isRefused(one: Held, lost: readonly string[]): boolean {
    const refused = lost.includes(one.lease);
    if (one.lost && !refused) throw new Error(`the lost lease ${JSON.stringify(one)} was accepted`);
    return refused;
  }

  /** On a slow machine a lease may run out by itself. */
  #explain(one: Held): void {
    if (Date.now() - one.since < LEASE_MS) throw new Error(`the lease ${JSON.stringify(one)} was refused`);
    one.lost = true;
  }

  #note({ work, job }: Held, { state, salt }: { state: Outcome["state"]; salt: number }): void {
    const told = { salt, datum: nameOf(work), job };
    if (state === "success") this.#log.success(told);
    if (state !== "failed") return;
    this.#log.failure(told);
    if (work.kind === "datum" || this.#log.triesOf(told) < TRIES) return;
    this.#log.taskFailure(job, work.kind === "merge" ? "merge" : "push");
    this.loseJobs(new Set([job]));
  }

  async #outcomesOf(some: readonly Held[]): Promise<Outcome[]> {
    const results = some.map(
      ({ work, lease, lost }): Done =>
        done(work, { lease, lost, random: this.#random, outside: this.outside }),
    );
    const contents = results.flatMap(({ texts }) => texts.map(contentOf));
    const branch = () => branchOf(this.#output);
    // As the gateway keeps what comes with outcomes: under no lease of theirs, because one may be lost and others not.
    const shared = `shared.${crypto.randomUUID()}`;
    const upload = await survived(async () => {
      const opened = await branch().uploads.open({ lease: shared });
      if (!opened.ok) throw new Error(opened.reason);
      const added = await branch().uploads.add({ upload: opened.upload, contents });
      if (!added.ok) throw new Error(added.reason);
      return opened.upload;
    });
    return results.map(({ outcome }) =>
      outcome.state === "success" || outcome.state === "merged" ? { ...outcome, upload } : outcome,
    );
  }
}
