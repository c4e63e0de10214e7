import { seededRandom } from "../../../support/random.ts";
import { Chance } from "./chance.ts";
import { check, isTold } from "./check.ts";
import { Inputs } from "./inputs.ts";
import type { Position } from "./naive-branch.ts";
import { NaivePipeline } from "./naive-pipeline.ts";
import { RunLog } from "./run-log.ts";
import { Stage } from "./stage.ts";
import { commitTo, STEPS, type Step, UPDATES } from "./steps.ts";
import { Workers } from "./workers.ts";

const WORKERS = ["w1", "w2"];
/** Beyond ten, a datum's losses would count against it. */
const MAX_EXPIRIES = 8;

/** After so many looks at a pipeline that does nothing it is taken to be stuck. */
const MAX_IDLE = 300;

/** One random history of a pipeline, done in reality and in the model side by side. */
export class Run {
  readonly trace: string[] = [];
  readonly #chance: Chance;
  readonly #inputs: Inputs;
  readonly #stage: Stage;
  readonly #workers: Workers;
  readonly #log = new RunLog();
  readonly #model: NaivePipeline;
  #expiries = 0;

  /** Commits some, perhaps none, and makes the pipeline over what is there then. */
  static async begin({ name, seed }: { name: string; seed: number }): Promise<Run> {
    const repos = [`${name}-0`, `${name}-1`];
    const chance = new Chance(seededRandom(seed), repos);
    const inputs = new Inputs(repos);
    for (let commits = chance.below(4); commits > 0; commits--) await commitTo(inputs, chance);
    const stage = new Stage(name);
    const inputsRead = chance.inputs();
    const settings = { workers: WORKERS.length, store: chance.store(0), skips: chance.in(50) };
    const spec = { cmd: "v", ...settings, inputs: inputsRead };
    await stage.create(spec);
    return new Run({ chance, inputs, stage, model: new NaivePipeline(inputs.branches, spec) });
  }

  private constructor({
    chance,
    inputs,
    stage,
    model,
  }: {
    chance: Chance;
    inputs: Inputs;
    stage: Stage;
    model: NaivePipeline;
  }) {
    this.#chance = chance;
    this.#inputs = inputs;
    this.#stage = stage;
    this.#model = model;
    this.#workers = new Workers({ pipeline: stage.name, log: this.#log, random: chance.random });
    this.#note(`created ${JSON.stringify(model.spec)}`);
  }

  /** One step; now and then the pipeline's object is killed while it is done. */
  async step(): Promise<void> {
    const step = this.#model.stopped && this.#chance.in(25) ? "start" : this.#chance.weigh(STEPS);
    const delayMs = this.#chance.in(10) ? this.#chance.below(8) : undefined;
    this.#note(delayMs === undefined ? step : `${step}, killed after ${delayMs} ms`);
    const done = this.#do(step);
    if (delayMs !== undefined) {
      await scheduler.wait(delayMs);
      await this.#stage.kill();
    }
    await done;
  }

  /** Lets everything come to rest and holds it to the model. */
  async end(): Promise<void> {
    if (this.#model.stopped) await this.#do("start");
    await this.#settle();
    for (let looks = 0; !(await isTold(this.#stage.name)); looks++) {
      if (looks > MAX_IDLE) throw new Error("the catalogue is not told");
      await this.#stage.nudge();
    }
  }

  async #do(step: Step): Promise<void> {
    switch (step) {
      case "commit":
        return await commitTo(this.#inputs, this.#chance, (what) => this.#note(what));
      case "rewrite":
        return await this.#rewrite();
      case "deleteBranch":
        return await this.#deleteBranch();
      case "work":
        return await this.#work();
      case "finish":
        return await this.#finishSome();
      case "renew":
        return await this.#workers.renew(this.#ofOneWorker());
      case "expire":
        if (this.#expiries++ < MAX_EXPIRIES) await this.#workers.expire();
        return;
      case "killPipeline":
        return await this.#stage.kill();
      case "killInput":
        return await this.#inputs.kill(this.#chance.repo());
      case "killOutput":
        return await this.#workers.killOutput();
      case "stop":
        return await this.#stop();
      case "start":
        await this.#stage.start();
        this.#model.start();
        return;
      case "update":
        return await this.#update();
      case "stopJob":
        return await this.#stopJob();
      case "settle":
        return this.#model.stopped ? undefined : await this.#settle();
    }
  }

  async #rewrite(): Promise<void> {
    const repo = this.#chance.repo();
    const branch = this.#inputs.of(repo);
    const edit = this.#chance.rewrite(branch.tree);
    if (branch.exists && Object.keys(edit).length > 0) await this.#inputs.commit(repo, edit);
  }

  async #deleteBranch(): Promise<void> {
    const repo = this.#chance.repo();
    if (!this.#inputs.of(repo).exists) return;
    await this.#inputs.destroy(repo);
    if (this.#chance.in(50)) await this.#inputs.create(repo);
  }

  /** Leases some and finishes some of those, or none: a worker may be slow, or dead. */
  async #work(): Promise<void> {
    const worker = this.#chance.pick(WORKERS);
    const fresh = await this.#workers.lease(worker, {
      max: 1 + this.#chance.below(6),
      waitMs: this.#chance.below(10),
    });
    const done = fresh.filter(() => this.#chance.in(75));
    this.#note(`  ${worker} leased ${fresh.length} and finishes ${done.length}`);
    await this.#workers.finish(done, this.#model.salt);
  }

  async #finishSome(): Promise<void> {
    const some = this.#ofOneWorker().filter(() => this.#chance.in(70));
    this.#note(`  ${some.length}, ${some.filter(({ lost }) => lost).length} of them too late`);
    await this.#workers.finish(some, this.#model.salt);
  }

  #ofOneWorker() {
    const worker = this.#chance.pick(WORKERS);
    return this.#workers.held.filter((held) => held.worker === worker);
  }

  async #stop(): Promise<void> {
    if (this.#model.stopped) return;
    if (this.#chance.in(50)) await this.#untilRead();
    await this.#stage.stop();
    this.#model.readTo(await this.#stage.positions());
    const stoppedAlone = this.#model.jobs.some(({ killed, checked }) => killed === "by itself" && !checked);
    const killed = await this.#noteKilled();
    // Whether a job that was stopped by itself had its datums by then is chance.
    this.#model.stop({ owing: killed || (stoppedAlone && (await this.#stage.row()).wholeJobDue === 1) });
  }

  async #update(): Promise<void> {
    const kind = this.#chance.weigh(UPDATES);
    const spec = this.#chance.spec(this.#model.spec, kind);
    this.#note(`  of ${kind}: ${JSON.stringify(spec)}`);
    // A job ends as the settings of that moment have it: all that there are end before.
    if (spec.skips !== this.#model.spec.skips && !this.#model.stopped) await this.#settle();
    const { hadFirstJob } = await this.#stage.row();
    // Else nothing tells how far the inputs had been read when it came.
    const wait = !this.#model.stopped && (hadFirstJob === 0 || kind === "inputs" || this.#chance.in(50));
    if (wait) await this.#untilRead();
    await this.#stage.update(spec, { reprocess: kind === "reprocess" });
    if (kind === "unchanged") return;
    const apart = this.#model.stopped || wait;
    if (!apart) this.#model.readTo(await this.#stage.positionsOfNewest(this.#model.repos));
    if (!this.#model.stopped && kind !== "settings") await this.#noteKilled();
    this.#model.update(kind, spec);
  }

  async #stopJob(): Promise<void> {
    const jobs = await this.#stage.jobs();
    const unfinished = jobs.filter(({ finishedAt }) => finishedAt === null);
    if (unfinished.length === 0) return;
    const job = this.#chance.pick(unfinished);
    if (!(await this.#stage.stopJob(job.id))) return;
    const index = jobs.indexOf(job);
    this.#note(`  job ${index}`);
    this.#model.readJobs(index + 1);
    this.#model.kill(index, "by itself");
    this.#workers.loseJobs(new Set([job.id]));
  }

  /** Notes which jobs were ended before their time; whether there were any. From the first one on, it was all. */
  async #noteKilled(): Promise<boolean> {
    const jobs = await this.#stage.jobs();
    let any = false;
    for (const [index, naive] of this.#model.jobs.entries()) {
      const job = jobs[index];
      if (!job || naive.checked) continue;
      if (job.finishedAt === null) throw new Error(`job ${index} goes on`);
      const together = job.state === "killed" && naive.killed === undefined;
      if (any && job.state !== "killed")
        throw new Error(`job ${index} ended by itself after an earlier one was killed`);
      any ||= together;
      if (job.state === "killed") this.#model.kill(index, "with the others");
    }
    this.#workers.loseJobs(new Set(jobs.filter(({ state }) => state === "killed").map(({ id }) => id)));
    return any;
  }

  async #untilRead(): Promise<void> {
    const textOf = (positions: ReadonlyMap<string, Position>): string =>
      JSON.stringify(
        [...positions].map(([repo, { generation, seq }]) => `${repo} ${generation}.${seq}`).sort(),
      );
    const last = textOf(this.#model.lastRead());
    for (let looks = 0; textOf(await this.#stage.positions()) !== last; looks++) {
      if (looks > MAX_IDLE) throw new Error(`${last} is not read: ${await this.#stage.describe()}`);
      await this.#nudge();
    }
    this.#model.readAll();
  }

  async #settle(): Promise<void> {
    await this.#workers.expire();
    await this.#untilRead();
    for (let idle = 0; ; ) {
      const jobs = await this.#stage.jobs();
      if (jobs.length > this.#model.jobs.length)
        throw new Error(`${jobs.length} jobs, not ${this.#model.jobs.length}`);
      const ended = jobs.every(({ finishedAt }) => finishedAt !== null);
      if (ended && jobs.length === this.#model.jobs.length && (await this.#stage.rests())) break;
      const fresh = await this.#workers.lease(this.#chance.pick(WORKERS), { max: 30, waitMs: 20 });
      await this.#workers.finish(fresh, this.#model.salt);
      if (fresh.length > 0) idle = 0;
      else if (++idle > MAX_IDLE) throw new Error(`nothing goes on: ${await this.#stage.describe()}`);
      else await this.#nudge();
    }
    await check(this.#stage.name, { model: this.#model, log: this.#log, outside: this.#workers.outside });
  }

  async #nudge(): Promise<void> {
    await this.#inputs.nudge();
    await this.#stage.nudge();
  }

  #note(what: string): void {
    this.trace.push(what);
  }
}
