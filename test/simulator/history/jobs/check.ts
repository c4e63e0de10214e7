import { mood } from "../../../worker/pipeline/model/command.ts";
import {
  datumsOf,
  isClashing,
  merged,
  type NaiveDatum,
} from "../../../worker/pipeline/model/naive-results.ts";
import { holdsFile, type NaiveGlob } from "../../../worker/pipeline/model/naive-tree.ts";
import type { JobsWorld, Operation, PipelinePlan } from "./clients.ts";
import type { RecordedEvent, Recorder } from "./recorder.ts";
import { type AttemptRow, type JobRow, PipelineRows, type RevisionRow } from "./rows.ts";

type Tree = ReadonlyMap<string, string>;

/** Why a retry or a start makes no job for sure. */
const REFUSED = ["job-running", "stopped", "no-such-job", "no-data", "no-such-pipeline"];

/** Globs of a history as what they are made of. */
const NAMES: Readonly<Record<string, NaiveGlob["names"]>> = {
  "/": "root",
  "/*": [[{ kind: "star" }]],
  "/*/*": [[{ kind: "star" }], [{ kind: "star" }]],
  "/d*": [[{ kind: "literal", character: "d" }, { kind: "star" }]],
};

/**
 * What is wrong with a pipeline that rests, by the naive rules of docs/contract.md. Each commit of an input has its one job, in
 * their order. Each job ended as what it reads says, and its commit has what a naive computation makes of that. Nothing ran
 * twice, and nothing is left over.
 */
export function pipelineFaults(world: JobsWorld, plan: PipelinePlan): string[] {
  const rows = new PipelineRows(world.simulation.pipelines.object(plan.name));
  if (!rows.isThere) return [];
  const check = new PipelineCheck(world, plan, rows);
  const faults = [...check.order(), ...check.ends(), ...check.commits(), ...check.runs(), ...check.rest()];
  return faults.map((fault) => `pipeline ${plan.name}: ${fault}`);
}

class PipelineCheck {
  readonly #world: JobsWorld;
  readonly #plan: PipelinePlan;
  readonly #rows: PipelineRows;
  readonly #jobs: readonly JobRow[];
  readonly #attempts: readonly AttemptRow[];
  readonly #revisions: ReadonlyMap<number, RevisionRow>;
  /** The distinct repos of the inputs, in order of the inputs' names. */
  readonly #repos: readonly string[];
  /** Since the pipeline of this name was made. */
  readonly #operations: readonly Operation[];
  readonly #datums = new Map<number, ReadonlyMap<string, NaiveDatum>>();

  constructor(world: JobsWorld, plan: PipelinePlan, rows: PipelineRows) {
    this.#world = world;
    this.#plan = plan;
    this.#rows = rows;
    this.#jobs = rows.jobs;
    this.#attempts = rows.attempts;
    this.#revisions = rows.revisions;
    this.#repos = [...new Set(plan.inputs.map(({ repo }) => repo).sort())];
    // What was asked of an earlier one of the name is over.
    this.#operations = world.operations.filter(({ ended }) => ended > rows.createdAt);
  }

  /** Each event has one job and no other, but for those that a stopped pipeline passed over. */
  *order(): Generator<string> {
    const [first] = this.#jobs;
    if (first && !this.#repos.every((_, source) => holdsFile(this.#tree(first, source) ?? new Map())))
      yield "its first job was made while an input had no data";
    let jumps = 0;
    for (const [index, job] of this.#jobs.entries()) {
      yield* this.#read(job);
      const before = this.#jobs[index - 1];
      if (!before) continue;
      const moved = this.#moved(before, job);
      if (job.source < 0 && moved.some((by) => by > 0)) jumps++;
      yield* this.#follows(before, { job, moved });
    }
    const starts = Math.min(this.#asked("start pipeline").length, this.#asked("stop pipeline").length);
    if (jumps > starts) yield `its jobs pass over events ${jumps} times, and it was started ${starts} times`;
    const again = this.#jobs.filter(({ source }) => source < 0).length;
    const wanted = this.#wantedJobs();
    yield* this.#asAsked();
    if (again > wanted) yield `${again} jobs were made without an event, and only ${wanted} were asked for`;
    yield* this.#upToDate(this.#jobs.at(-1));
  }

  /** What was answered is so: each version is there, and each job that a retry made; the newest job is of the newest code. */
  *#asAsked(): Generator<string> {
    const versions = this.#asked("update code", "update settings", "run all again").filter(
      ({ ok }) => ok,
    ).length;
    if (this.#revisions.size < 1 + versions)
      yield `it has ${this.#revisions.size} versions, and ${versions} updates were answered`;
    for (const { ok, job } of this.#asked("retry job", "run all again")) {
      if (ok && !this.#jobs.some(({ id }) => id === job))
        yield `the job ${job} that a retry made is not there`;
    }
    const newest = this.#jobs.at(-1);
    const salt = this.#revisions.get(this.#rows.revision)?.salt;
    if (newest && this.#rows.state === "active" && this.#revision(newest).salt !== salt)
      yield "its newest job is of earlier code";
  }

  /** What a job says that it read is what was there. */
  *#read(job: JobRow): Generator<string> {
    for (const [source, { generation, seq, commit }] of job.positions.entries()) {
      const event = this.#recorder(source).events.find(
        (each) => each.generation === generation && each.seq === seq,
      );
      if (seq > 0 && !event)
        yield `job ${job.n} read ${generation}.${seq} of ${this.#repos[source]}, which never was`;
      const id = event?.kind === "commit" ? event.id : null;
      if (id !== commit) yield `job ${job.n} says that it read commit ${commit}, and not ${id}`;
    }
  }

  /** How many events of each source lie between two jobs. */
  #moved(before: JobRow, job: JobRow): number[] {
    const was = this.#indices(before);
    return this.#indices(job).map((index, source) => index - (was[source] ?? 0));
  }

  *#follows(before: JobRow, { job, moved }: { job: JobRow; moved: readonly number[] }): Generator<string> {
    const isEvent = job.source >= 0;
    const isNext = moved.every((by, source) => by === (source === job.source ? 1 : 0));
    if (moved.some((by) => by < 0)) yield `job ${job.n} reads what is older than job ${before.n}: ${moved}`;
    else if (isEvent && !isNext)
      yield `job ${job.n} passes over events: it is ${moved} after job ${before.n}`;
    if (isEvent && before.source >= 0 && !this.#isInOrder(before, job))
      yield `job ${job.n} is of an earlier event than job ${before.n}`;
  }

  *#upToDate(last: JobRow | undefined): Generator<string> {
    if (this.#rows.state !== "active") return;
    if (!last) {
      const hold = this.#repos.every((repo) => holdsFile(this.#world.recorder(repo).last?.tree ?? new Map()));
      if (hold) yield "it has no job, although each of its inputs has data";
      return;
    }
    for (const [source, repo] of this.#repos.entries()) {
      const count = this.#world.recorder(repo).events.length;
      const read = this.#indices(last)[source] ?? 0;
      if (read !== count) yield `its last job has read ${read} of ${count} events of ${repo}`;
    }
  }

  /** Each job ended as what it reads says, with the counts of that. */
  *ends(): Generator<string> {
    for (const job of this.#jobs) {
      const name = `job ${job.n} (${job.state}, ${job.reason})`;
      if (job.finishedAt === null) yield `${name} has not ended`;
      else if (job.state === "killed") yield* this.#killed(job, name);
      else if (!this.#isErasedUnder(job)) yield* this.#ended(job, name);
    }
  }

  *#killed(job: JobRow, name: string): Generator<string> {
    const causes: Record<string, readonly Operation["kind"][]> = {
      "it was stopped": ["stop job"],
      "the pipeline was stopped": ["stop pipeline"],
      "the pipeline was updated": ["update code", "run all again"],
      "input erased": ["erase input", "erase output"],
    };
    const kinds = causes[job.reason ?? ""] ?? [];
    const isAsked = this.#world.operations.some(
      ({ kind, of, begun, job: about }) =>
        kinds.includes(kind) &&
        begun <= (job.finishedAt ?? 0) &&
        (kind === "stop job" ? about === job.id : of === this.#plan.name || this.#repos.includes(of)),
    );
    if (!isAsked) yield `${name} was killed, and nobody asked for that`;
    if (job.outputCommit !== null) yield `${name} has a commit`;
  }

  *#ended(job: JobRow, name: string): Generator<string> {
    const revision = this.#revision(job);
    const datums = this.#datumsOf(job);
    const failedKeys = new Set(this.#attemptsOf(job, "failed").map(({ key }) => key));
    const failed = [...datums.values()].filter(({ key }) => failedKeys.has(key));
    const good = [...datums.values()].filter(({ key }) => !failedKeys.has(key));
    if (job.total !== datums.size) yield `${name} has ${job.total} datums instead of ${datums.size}`;
    if (job.failed !== failed.length)
      yield `${name} says that ${job.failed} failed, and ${failed.length} did`;
    for (const datum of good)
      if (mood(datum.reading) === "bad") yield `${name} ended without its datum ${datum.key}, which is bad`;
    for (const datum of failed)
      if (mood(datum.reading) === "good") yield `${name} has a datum that failed and is good, ${datum.key}`;
    const files = new Map(merged(good, revision.cmd));
    const isFailed = failed.length > 0 && !(revision.skips && job.processed > 0);
    const should = isFailed || isClashing([...files]) ? "failure" : "success";
    if (job.state !== should) yield `${name} should be a ${should}`;
    if (job.state !== "success") {
      if (job.outputCommit !== null) yield `${name} has a commit`;
      return;
    }
    const made = this.#output().events.filter(({ origin }) => origin === job.id);
    if (made.length !== 1 || made[0]?.id !== job.outputCommit)
      yield `${name} has the commit ${job.outputCommit}, and its branch ${JSON.stringify(made.map(({ id }) => id))}`;
    else if (made[0]) yield* this.#treeFaults(name, { files, event: made[0] });
  }

  *#treeFaults(name: string, { files, event }: { files: Tree; event: RecordedEvent }): Generator<string> {
    const erased = this.#erasedPaths(this.#plan.name, event);
    for (const path of new Set([...files.keys(), ...event.tree.keys()])) {
      const [is, should] = [event.tree.get(path), files.get(path)];
      // What was erased comes back when its datum changes.
      if (is === should || erased.has(path)) continue;
      yield `${name} wrote to ${path} ${shown(is)} instead of ${shown(should)}`;
    }
  }

  /** The output branch has the commits of the jobs that succeeded, in their order, and no other of jobs. */
  *commits(): Generator<string> {
    const ours = this.#jobs.flatMap(({ outputCommit }) => outputCommit ?? []);
    const ids = new Set(this.#jobs.map(({ id }) => id));
    const since = this.#rows.uid;
    const there = this.#output()
      .events.filter(({ origin }) => origin !== null && origin > since)
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
    for (const job of this.#jobs) {
      if (this.#isErasedUnder(job)) continue;
      const datums = new Map([...this.#datumsOf(job).values()].map((datum) => [datum.key, datum.id]));
      for (const { key } of this.#attemptsOf(job, "success")) {
        const id = datums.get(key);
        if (id === undefined) {
          yield `job ${job.n} ran ${key}, which is no datum of it`;
          continue;
        }
        const name = `${this.#revision(job).salt} ${id}`;
        const before = last.get(name);
        if (before !== undefined && this.#wasKept({ from: before, to: job.n, id }))
          yield `job ${job.n} ran ${key} again, which job ${before} had done`;
        last.set(name, job.n);
      }
    }
  }

  /** Whether a result must be there still, since each job in between has it, or the branch has the commits of all jobs. */
  #wasKept({ from, to, id }: { from: number; to: number; id: string }): boolean {
    if (this.#world.keepsAll) return true;
    return this.#jobs.every((job) => job.n <= from || job.n >= to || this.#datumsOf(job).has(id));
  }

  *rest(): Generator<string> {
    for (const row of this.#rows.leftOver) yield `it has left over ${row}`;
    const { storage } = this.#world.simulation.branches.object(`master.${this.#plan.name}`);
    const uploads = storage.read<{ id: string }>("SELECT id FROM uploads WHERE lost = 0");
    const named = this.#rows.uploads;
    for (const { id } of uploads)
      if (!named.has(id)) yield `its output has the upload ${id}, which no result names`;
    const newest = this.#jobs.at(-1);
    if (newest && newest.state !== "killed" && !this.#isErasedUnder(newest)) {
      const should = [...this.#datumsOf(newest).values()].map(({ key }) => key).sort();
      if (this.#rows.alive.join("|") !== should.join("|"))
        yield `its datums are ${this.#rows.alive.join("|")} instead of ${should.join("|")}`;
    }
    const told = this.#world.simulation.catalogue.read<{ id: string; job: string }>(
      `SELECT * FROM jobs WHERE pipeline = '${this.#plan.name}'`,
    );
    for (const { id, state } of this.#jobs) {
      const row = told.find((each) => each.id === id);
      if (!row) yield `the catalogue does not know job ${id}`;
      else if (!JSON.stringify(row).includes(state))
        yield `the catalogue does not know that job ${id} is ${state}`;
    }
  }

  /** How many jobs without an event there may be. */
  #wantedJobs(): number {
    const kinds = ["start pipeline", "update code", "update settings", "retry job", "run all again"] as const;
    const own = this.#asked(...kinds).filter(({ reason = "" }) => !REFUSED.includes(reason));
    // One for what was there when it was made.
    return 1 + own.length + this.#erasures().length;
  }

  #asked(...kinds: readonly Operation["kind"][]): Operation[] {
    return this.#operations.filter(({ kind, of }) => kinds.includes(kind) && of === this.#plan.name);
  }

  /** Of the inputs. */
  #erasures(): Operation[] {
    return this.#operations.filter(({ kind, of }) => kind.startsWith("erase") && this.#repos.includes(of));
  }

  /**
   * Whether something was erased of an input while the job went on: then it may have read it or not. So it may if nobody knows when
   * that was done, or at which commits the version was there.
   */
  #isErasedUnder(job: JobRow): boolean {
    return this.#erasures().some(
      (erasure) =>
        erasure.begun <= (job.finishedAt ?? Number.POSITIVE_INFINITY) &&
        (erasure.ended >= job.createdAt ||
          !erasure.ok ||
          this.#world.recorder(erasure.of).isAmbiguous(erasure)),
    );
  }

  /** Paths of which something may have been erased by the time of a commit. */
  #erasedPaths(repo: string, { createdAt }: RecordedEvent): ReadonlySet<string> {
    const erased = this.#world.operations.flatMap(({ of, begun, erased: some }) =>
      of === repo && begun <= createdAt ? (some ?? []) : [],
    );
    return new Set(erased.map(({ path }) => path));
  }

  #isInOrder(before: JobRow, job: JobRow): boolean {
    const [one, other] = [this.#eventOf(before), this.#eventOf(job)];
    if (!one || !other) return true;
    return one.createdAt < other.createdAt || (one.createdAt === other.createdAt && one.id < other.id);
  }

  #eventOf({ source, generation, seq }: JobRow): RecordedEvent | undefined {
    return this.#recorder(source).events.find(
      (event) => event.generation === generation && event.seq === seq,
    );
  }

  #indices({ positions }: JobRow): number[] {
    return positions.map((position, source) => this.#recorder(source).indexOf(position));
  }

  #recorder(source: number): Recorder {
    return this.#world.recorder(this.#repos[source] ?? "");
  }

  #output(): Recorder {
    return this.#world.recorder(this.#plan.name);
  }

  #tree(job: JobRow, source: number): Tree | undefined {
    const position = job.positions[source];
    const erasures = this.#erasures().filter(
      ({ of, ended }) => of === this.#repos[source] && ended < job.createdAt,
    );
    return position && this.#recorder(source).treeAt(position, erasures);
  }

  #datumsOf(job: JobRow): ReadonlyMap<string, NaiveDatum> {
    const known = this.#datums.get(job.n);
    if (known) return known;
    const inputs = this.#plan.inputs
      .toSorted((a, b) => (a.repo < b.repo ? -1 : 1))
      .map(({ repo, glob }) => ({
        ...{ name: repo, repo, commit: null },
        glob: { text: glob, names: NAMES[glob] ?? "root" },
        tree: this.#tree(job, this.#repos.indexOf(repo)) ?? new Map(),
      }));
    const { cmd, skips } = this.#revision(job);
    const datums = datumsOf({ inputs, cmd, skips, salt: 0 });
    this.#datums.set(job.n, datums);
    return datums;
  }

  #attemptsOf(job: JobRow, state: string): AttemptRow[] {
    return this.#attempts.filter((attempt) => attempt.job === job.n && attempt.state === state);
  }

  #revision({ revision }: JobRow): RevisionRow {
    const found = this.#revisions.get(revision);
    if (!found) throw new Error(`there is no version ${revision} of ${this.#plan.name}`);
    return found;
  }
}

function shown(text: string | undefined): string {
  return text === undefined ? "nothing" : JSON.stringify(text.slice(0, 60));
}
