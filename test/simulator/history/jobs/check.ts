import { mood } from "../../../worker/pipeline/model/command.ts";
import { isClashing, merged } from "../../../worker/pipeline/model/naive-results.ts";
import { holdsFile } from "../../../worker/pipeline/model/naive-tree.ts";
import type { JobsWorld, Operation, PipelinePlan } from "./clients.ts";
import { isEarly, JobFacts, TOO_LONG, TOO_MANY, type Tree } from "./facts.ts";
import type { RecordedEvent } from "./recorder.ts";
import { type JobRow, PipelineRows } from "./rows.ts";

const UPDATES = [
  ...["update code", "update settings", "update terms", "update inputs", "update egress"],
  ...["update container", "update skips"],
] as const satisfies readonly Operation["kind"][];

/** Why a retry or a start makes no job for sure. */
const REFUSED = ["job-running", "stopped", "no-such-job", "no-data", "no-such-pipeline"];

/**
 * What is wrong with a pipeline that rests, by the naive rules of docs/contract.md. Each commit of an input has its one job, in
 * their order. Each job ended as what it reads says, and its commit has what a naive computation makes of that. Nothing ran
 * twice, and nothing is left over.
 */
export function pipelineFaults(world: JobsWorld, plan: PipelinePlan): string[] {
  const rows = new PipelineRows(world.simulation.pipelines.object(plan.name));
  if (!rows.isThere) return [];
  const check = new PipelineCheck(new JobFacts(world, plan, rows));
  const faults = [...check.order(), ...check.ends(), ...check.commits(), ...check.runs(), ...check.rest()];
  return faults.map((fault) => `pipeline ${plan.name}: ${fault}`);
}

class PipelineCheck {
  readonly #facts: JobFacts;

  constructor(facts: JobFacts) {
    this.#facts = facts;
  }

  /** Each event has one job and no other, but for those that a stopped pipeline passed over. */
  *order(): Generator<string> {
    const [first] = this.#facts.jobs;
    const hasData = (job: JobRow) =>
      this.#facts.reposOf(job).every((_, source) => holdsFile(this.#facts.tree(job, source) ?? new Map()));
    // What it had may have been erased between a look at it and the job.
    const isErased = this.#facts.erasures().some(({ begun }) => begun <= (first?.createdAt ?? 0));
    if (first && !isErased && !hasData(first)) yield "its first job was made while an input had no data";
    let jumps = 0;
    for (const [index, job] of this.#facts.jobs.entries()) {
      yield* this.#read(job);
      const before = this.#facts.jobs[index - 1];
      // What happens while a version with other inputs waits for data makes no job.
      if (!before || !this.#facts.isOfInputs(before, job)) continue;
      const moved = this.#moved(before, job);
      if (job.source < 0 && [...moved.values()].some((by) => by > 0)) jumps++;
      yield* this.#follows(before, { job, moved });
    }
    const starts = Math.min(
      this.#facts.asked("start pipeline").length,
      this.#facts.asked("stop pipeline").length,
    );
    if (jumps > starts) yield `its jobs pass over events ${jumps} times, and it was started ${starts} times`;
    const again = this.#facts.jobs.filter(({ source }) => source < 0).length;
    const wanted = this.#wantedJobs();
    yield* this.#asAsked();
    if (again > wanted) yield `${again} jobs were made without an event, and only ${wanted} were asked for`;
    yield* this.#upToDate(this.#facts.jobs.at(-1));
  }

  /** What was answered is so: each version is there, and each job that a retry made; the newest job is of the newest code. */
  *#asAsked(): Generator<string> {
    const versions = this.#facts
      .asked("update code", "update settings", "run all again")
      .filter(({ ok }) => ok).length;
    if (this.#facts.revisions.size < 1 + versions)
      yield `it has ${this.#facts.revisions.size} versions, and ${versions} updates were answered`;
    for (const { ok, job } of this.#facts.asked("retry job", "run all again")) {
      if (ok && !this.#facts.jobs.some(({ id }) => id === job))
        yield `the job ${job} that a retry made is not there`;
    }
    const newest = this.#facts.jobs.at(-1);
    const salt = this.#facts.revisions.get(this.#facts.rows.revision)?.salt;
    const isPresent = newest && this.#facts.isOfInputs(newest, this.#facts.rows);
    if (isPresent && this.#facts.rows.state === "active" && this.#facts.revision(newest).salt !== salt)
      yield "its newest job is of earlier code";
  }

  /** What a job says that it read is what was there. */
  *#read(job: JobRow): Generator<string> {
    for (const [source, { generation, seq, commit }] of job.positions.entries()) {
      const event = this.#facts
        .recorderOf(job, source)
        .events.find((each) => each.generation === generation && each.seq === seq);
      if (seq > 0 && !event)
        yield `job ${job.n} read ${generation}.${seq} of ${this.#facts.reposOf(job)[source]}, which never was`;
      const id = event?.kind === "commit" ? event.id : null;
      if (id !== commit) yield `job ${job.n} says that it read commit ${commit}, and not ${id}`;
    }
  }

  /** How many events of each repo lie between two jobs that both read it. */
  #moved(before: JobRow, job: JobRow): Map<string, number> {
    const was = this.#facts.indices(before);
    return new Map(
      [...this.#facts.indices(job)].flatMap(([repo, index]) => {
        const earlier = was.get(repo);
        return earlier === undefined ? [] : [[repo, index - earlier] as const];
      }),
    );
  }

  *#follows(
    before: JobRow,
    { job, moved }: { job: JobRow; moved: ReadonlyMap<string, number> },
  ): Generator<string> {
    const isEvent = job.source >= 0;
    const read = this.#facts.reposOf(job)[job.source];
    const isNext = [...moved].every(([repo, by]) => by === (repo === read ? 1 : 0));
    const shown = [...moved].map(([repo, by]) => `${by} of ${repo}`).join();
    if ([...moved.values()].some((by) => by < 0))
      yield `job ${job.n} reads what is older than job ${before.n}: ${shown}`;
    else if (isEvent && !isNext)
      yield `job ${job.n} passes over events: it is ${shown} after job ${before.n}`;
    if (isEvent && before.source >= 0 && !this.#facts.isInOrder(before, job))
      yield `job ${job.n} is of an earlier event than job ${before.n}`;
  }

  *#upToDate(last: JobRow | undefined): Generator<string> {
    if (this.#facts.rows.state !== "active") return;
    const present = { revision: this.#facts.rows.revision };
    if (!last || !this.#facts.isOfInputs(last, present)) {
      if (this.#facts.reposOf(present).every((repo) => this.#facts.holdsNow(repo, present)))
        yield "it has no job of its inputs, although each of them has data";
      return;
    }
    for (const [repo, read] of this.#facts.indices(last)) {
      const count = this.#facts.world.recorder(repo).events.length;
      if (read !== count) yield `its last job has read ${read} of ${count} events of ${repo}`;
    }
  }

  /** Each job ended as what it reads says, with the counts of that. */
  *ends(): Generator<string> {
    for (const job of this.#facts.jobs) {
      const name = `job ${job.n} (${job.state}, ${job.reason})`;
      if (job.finishedAt === null) yield `${name} has not ended`;
      else if (job.state === "killed") yield* this.#killed(job, name);
      else if (isEarly(job)) yield* this.#endedEarly(job, name);
      else if (!this.#facts.isErasedUnder(job)) yield* this.#ended(job, name);
    }
  }

  *#killed(job: JobRow, name: string): Generator<string> {
    const causes: Record<string, readonly Operation["kind"][]> = {
      "it was stopped": ["stop job"],
      "the pipeline was stopped": ["stop pipeline"],
      "the pipeline was updated": ["update code", "update inputs", "update container", "run all again"],
      "input erased": ["erase input", "erase output"],
    };
    const kinds = causes[job.reason ?? ""] ?? [];
    const isAsked = this.#facts.world.operations.some(
      ({ kind, of, begun, job: about }) =>
        kinds.includes(kind) &&
        begun <= (job.finishedAt ?? 0) + this.#facts.unsureMs &&
        (kind === "stop job"
          ? about === job.id
          : of === this.#facts.plan.name || this.#facts.repos.includes(of)),
    );
    if (!isAsked) yield `${name} was killed, and nobody asked for that`;
    if (job.outputCommit !== null && !this.#facts.mayPush(job)) yield `${name} has a commit`;
  }

  /** A runner said that none of its datums can run, or that a task of it can't be done. */
  *#endedEarly(job: JobRow, name: string): Generator<string> {
    const { endedJobs, failedTasks } = this.#facts.world.outside;
    const isTold = endedJobs.has(job.id) || failedTasks.has(job.id);
    const isLong = job.reason?.startsWith(TOO_LONG) && this.#facts.wasAsked("update terms");
    const isLost = job.reason?.endsWith(
      `its worker was lost ${this.#facts.world.limits.losses} times while it ran`,
    );
    const isLarge = job.reason?.startsWith(TOO_MANY) && this.#facts.isTooLarge(job);
    if (!isTold && !isLong && !isLost && !isLarge) yield `${name} failed, and no runner said so`;
    if (job.outputCommit !== null && !this.#facts.mayPush(job)) yield `${name} has a commit`;
  }

  *#ended(job: JobRow, name: string): Generator<string> {
    const revision = this.#facts.revision(job);
    const datums = this.#facts.datumsOf(job);
    const { losses, pairs } = this.#facts.world.limits;
    if (this.#facts.isTooLarge(job)) yield `${name} has more than ${pairs} datums`;
    const attempts = this.#facts.attemptsOf(job, "failed");
    const failedKeys = new Set(attempts.map(({ key }) => key));
    const lostKeys = new Set(attempts.flatMap(({ key, lost }) => (lost < losses ? [] : [key])));
    const failed = [...datums.values()].filter(({ key }) => failedKeys.has(key));
    const good = [...datums.values()].filter(({ key }) => !failedKeys.has(key));
    if (job.total !== datums.size) yield `${name} has ${job.total} datums instead of ${datums.size}`;
    if (job.failed !== failed.length)
      yield `${name} says that ${job.failed} failed, and ${failed.length} did`;
    for (const datum of good)
      if (mood(datum.reading) === "bad") yield `${name} ended without its datum ${datum.key}, which is bad`;
    for (const datum of failed)
      if (mood(datum.reading) === "good" && !lostKeys.has(datum.key))
        yield `${name} has a datum that failed and is good, ${datum.key}`;
    const files = new Map(merged(good, revision.cmd));
    // A job succeeds without bad datums alone: not without one that a node could not run.
    const isBad = attempts.every((attempt) => attempt.isBad === 1);
    const ends = this.#facts.skipsOf(job).map((skips) => {
      const isFailed = failed.length > 0 && !(skips && isBad && job.processed > 0);
      return isFailed || isClashing([...files]) ? "failure" : "success";
    });
    if (!ends.some((end) => end === job.state)) yield `${name} should be a ${ends}`;
    if (job.state !== "success") {
      if (job.outputCommit !== null) yield `${name} has a commit`;
      return;
    }
    const made = this.#facts.output().events.filter(({ origin }) => origin === job.id);
    if (made.length !== 1 || made[0]?.id !== job.outputCommit)
      yield `${name} has the commit ${job.outputCommit}, and its branch ${JSON.stringify(made.map(({ id }) => id))}`;
    else if (made[0]) yield* this.#treeFaults(name, { files, event: made[0] });
  }

  *#treeFaults(name: string, { files, event }: { files: Tree; event: RecordedEvent }): Generator<string> {
    const erased = this.#facts.erasedPaths(this.#facts.plan.name, event);
    for (const path of new Set([...files.keys(), ...event.tree.keys()])) {
      const [is, should] = [event.tree.get(path), files.get(path)];
      // What was erased comes back when its datum changes.
      if (is === should || erased.has(path)) continue;
      yield `${name} wrote to ${path} ${shown(is)} instead of ${shown(should)}`;
    }
  }

  /** The output branch has the commits of the jobs that succeeded, in their order, and no other of jobs. */
  *commits(): Generator<string> {
    const ours = this.#facts.jobs.flatMap(({ outputCommit }) => outputCommit ?? []);
    const ids = new Set(this.#facts.jobs.map(({ id }) => id));
    const since = this.#facts.rows.uid;
    // Then a job of an earlier pipeline of the name may have a greater id.
    const wasSetBack = this.#facts.unsureMs > 0;
    const there = this.#facts
      .output()
      .events.filter(({ origin }) => origin !== null && (wasSetBack ? ids.has(origin) : origin > since))
      .map(({ id, origin }) => {
        if (!ids.has(origin ?? "")) return `${id}, of no job`;
        return id;
      });
    if (there.join() !== ours.join())
      yield `its branch has the commits of jobs ${there}, and its jobs ${ours}`;
  }

  /** What succeeded does not run again while each job has it. */
  *runs(): Generator<string> {
    const last = new Map<string, number>();
    for (const job of this.#facts.jobs) {
      if (this.#facts.isErasedUnder(job)) continue;
      const datums = new Map([...this.#facts.datumsOf(job).values()].map((datum) => [datum.key, datum.id]));
      for (const { key } of this.#facts.attemptsOf(job, "success")) {
        const id = datums.get(key);
        if (id === undefined) {
          yield `job ${job.n} ran ${key}, which is no datum of it`;
          continue;
        }
        const name = `${this.#facts.revision(job).salt} ${id}`;
        const before = last.get(name);
        // What was lost is done again.
        const isLost = this.#facts.world.redone.has(key);
        if (before !== undefined && !isLost && this.#wasKept({ from: before, to: job.n, id }))
          yield `job ${job.n} ran ${key} again, which job ${before} had done`;
        last.set(name, job.n);
      }
    }
  }

  /** Whether a result must be there still, since each job in between has it, or the branch has the commits of all jobs. */
  #wasKept({ from, to, id }: { from: number; to: number; id: string }): boolean {
    if (this.#facts.world.keepsAll) return true;
    return this.#facts.jobs.every((job) => job.n <= from || job.n >= to || this.#facts.datumsOf(job).has(id));
  }

  *rest(): Generator<string> {
    for (const row of this.#facts.rows.leftOver) yield `it has left over ${row}`;
    const { storage } = this.#facts.world.simulation.branches.object(`master.${this.#facts.plan.name}`);
    const uploads = storage.read<{ id: string }>("SELECT id FROM uploads WHERE lost = 0");
    const named = this.#facts.rows.uploads;
    for (const { id } of uploads)
      if (!named.has(id)) yield `its output has the upload ${id}, which no result names`;
    const newest = this.#facts.jobs.at(-1);
    const isPresent = newest && this.#facts.isOfInputs(newest, this.#facts.rows);
    if (isPresent && newest.state !== "killed" && !isEarly(newest) && !this.#facts.isErasedUnder(newest)) {
      const should = [...this.#facts.datumsOf(newest).values()].map(({ key }) => key).sort();
      if (this.#facts.rows.alive.join("|") !== should.join("|"))
        yield `its datums are ${this.#facts.rows.alive.join("|")} instead of ${should.join("|")}`;
    }
    yield* this.#pushed(newest);
    const told = this.#facts.world.simulation.catalogue.read<{ id: string; job: string }>(
      `SELECT * FROM jobs WHERE pipeline = '${this.#facts.plan.name}'`,
    );
    const listed = new Set(this.#facts.listed.map(({ id }) => id));
    for (const { id, state } of this.#facts.jobs) {
      const row = told.find((each) => each.id === id);
      // Of one that is listed no more, what was told late may have come after it was removed.
      if (!listed.has(id)) continue;
      if (!row) yield `the catalogue does not know job ${id}`;
      else if (!JSON.stringify(row).includes(state))
        yield `the catalogue does not know that job ${id} is ${state}`;
    }
  }

  /** The store of others has what the newest job has committed, and nothing else. */
  *#pushed(newest: JobRow | undefined): Generator<string> {
    const { store } = this.#facts.revision(this.#facts.rows);
    if (store === null || newest?.state !== "success" || this.#facts.hasErasedOutput) return;
    const head = this.#facts.output().events.find(({ id }) => id === newest.outputCommit);
    if (!head || this.#facts.revision(newest).store !== store) return;
    const there = this.#facts.world.outside.files(store);
    for (const path of new Set([...there.keys(), ...head.tree.keys()])) {
      if (path.endsWith("/") || there.get(path) === head.tree.get(path)) continue;
      yield `${store} has ${shown(there.get(path))} at ${path} instead of ${shown(head.tree.get(path))}`;
    }
  }

  /** How many jobs without an event there may be. */
  #wantedJobs(): number {
    const kinds = ["start pipeline", ...UPDATES, "retry job", "run all again"] as const;
    const own = this.#facts.asked(...kinds).filter(({ reason = "" }) => !REFUSED.includes(reason));
    // One for what was there when it was made.
    return 1 + own.length + this.#facts.erasures().length;
  }
}

function shown(text: string | undefined): string {
  return text === undefined ? "nothing" : JSON.stringify(text.slice(0, 60));
}
