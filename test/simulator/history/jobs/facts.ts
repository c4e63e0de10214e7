import { datumsOf, type NaiveDatum } from "../../../worker/pipeline/model/naive-results.ts";
import { holdsFile, type NaiveGlob } from "../../../worker/pipeline/model/naive-tree.ts";
import { NO_SECRET } from "./agent.ts";
import type { JobsWorld, Operation, PipelinePlan } from "./clients.ts";
import type { RecordedEvent, Recorder } from "./recorder.ts";
import type { AttemptRow, JobRow, PipelineRows, RevisionRow } from "./rows.ts";

export const TOO_LONG = "the job ran longer than ";
export const TOO_MANY = "its inputs make ";
/** Why a job ends early that nobody stopped. */
const EARLY = new RegExp(
  `^(${NO_SECRET}$|egress to |merging what several datums wrote |${TOO_LONG}|${TOO_MANY})`,
);

export type Tree = ReadonlyMap<string, string>;

/** Globs of a history as what they are made of. */
const NAMES: Readonly<Record<string, NaiveGlob["names"]>> = {
  "/": "root",
  "/*": [[{ kind: "star" }]],
  "/*/*": [[{ kind: "star" }], [{ kind: "star" }]],
  "/d*": [[{ kind: "literal", character: "d" }, { kind: "star" }]],
};

/** What is written down of a pipeline, what was asked of it, and what each of its jobs therefore reads. */
export class JobFacts {
  readonly world: JobsWorld;
  readonly plan: PipelinePlan;
  readonly rows: PipelineRows;
  readonly jobs: readonly JobRow[];
  readonly attempts: readonly AttemptRow[];
  readonly revisions: ReadonlyMap<number, RevisionRow>;
  /** Every repo that some version of it reads. */
  readonly repos: readonly string[];
  /** Since the pipeline of this name was made. */
  readonly operations: readonly Operation[];
  /** By how much times of rows may be off: those of rows that were written one after the other are in their order, also if the clock was set back. */
  readonly unsureMs: number;
  readonly #datums = new Map<number, ReadonlyMap<string, NaiveDatum>>();
  readonly #erasedUnder = new Map<number, boolean>();

  constructor(world: JobsWorld, plan: PipelinePlan, rows: PipelineRows) {
    this.world = world;
    this.plan = plan;
    this.rows = rows;
    this.jobs = rows.jobs;
    this.attempts = rows.attempts;
    this.revisions = rows.revisions;
    const inputs = [...this.revisions.values()].flatMap((revision) => revision.inputs);
    this.repos = [...new Set(inputs.map(({ repo }) => repo))].sort();
    // What was asked of an earlier one of the name is over.
    const { world: clocks } = world.simulation;
    this.operations = world.operations.filter(({ endedAt }) => endedAt > clocks.timeOf(rows.createdAt));
    this.unsureMs = 2 * clocks.setBackMs;
  }

  asked(...kinds: readonly Operation["kind"][]): Operation[] {
    return this.operations.filter(({ kind, of }) => kinds.includes(kind) && of === this.plan.name);
  }

  wasAsked(...kinds: readonly Operation["kind"][]): boolean {
    return this.asked(...kinds).length > 0;
  }

  /** The newest jobs, as many as are listed. The others are found by their ids at most, and tell nothing of their datums. */
  get listed(): readonly JobRow[] {
    const newest = this.jobs.at(-1)?.n ?? 0;
    return this.jobs.filter(({ n }) => n > newest - this.world.keptJobs);
  }

  /** Whether a job pairs up more than a job may have. */
  isTooLarge(job: JobRow): boolean {
    return this.revision(job).inputs.length > 1 && this.datumsOf(job).size > this.world.limits.pairs;
  }

  /** Whether bad datums are left out: as its version says, or as later ones did that may have come before its end. */
  skipsOf(job: JobRow): boolean[] {
    const until = (job.finishedAt ?? Number.POSITIVE_INFINITY) + this.unsureMs;
    const valid = [...this.revisions].filter(
      ([version, { createdAt }]) => version >= job.revision && createdAt <= until,
    );
    return [...new Set(valid.map(([, { skips }]) => skips))];
  }

  /** Whether a job may have committed before it was ended: while it pushed. */
  mayPush(job: JobRow): boolean {
    return this.revision(job).store !== null || this.wasAsked("update egress");
  }

  /** Of the inputs. */
  erasures(): Operation[] {
    return this.operations.filter(({ kind, of }) => kind.startsWith("erase") && this.repos.includes(of));
  }

  /**
   * Whether something was erased of an input while the job went on: then it may have read it or not. So it may if nobody knows when
   * that was done, or at which commits the version was there.
   */
  isErasedUnder(job: JobRow): boolean {
    const known = this.#erasedUnder.get(job.n) ?? this.#isErasedUnder(job);
    this.#erasedUnder.set(job.n, known);
    return known;
  }

  #isErasedUnder(job: JobRow): boolean {
    return this.erasures().some(
      (erasure) =>
        // It may have been made of a commit that had what was erased before.
        job.reason === "input erased" ||
        (erasure.begun <= (job.finishedAt ?? Number.POSITIVE_INFINITY) + this.unsureMs &&
          (erasure.ended + this.unsureMs >= job.createdAt ||
            !erasure.ok ||
            this.world.recorder(erasure.of).isAmbiguous(erasure))),
    );
  }

  /** Paths of which something may have been erased by the time of a commit. */
  erasedPaths(repo: string, { createdAt }: RecordedEvent): ReadonlySet<string> {
    const erased = this.world.operations.flatMap(({ of, begun, erased: some }) =>
      of === repo && begun <= createdAt + this.unsureMs ? (some ?? []) : [],
    );
    return new Set(erased.map(({ path }) => path));
  }

  isInOrder(before: JobRow, job: JobRow): boolean {
    const [one, other] = [this.eventOf(before), this.eventOf(job)];
    if (!one || !other) return true;
    return one.createdAt < other.createdAt || (one.createdAt === other.createdAt && one.id < other.id);
  }

  eventOf(job: JobRow): RecordedEvent | undefined {
    const { source, generation, seq } = job;
    return this.recorderOf(job, source).events.find(
      (event) => event.generation === generation && event.seq === seq,
    );
  }

  /** The distinct repos that a version reads, in order of the inputs' names: what the positions of its jobs are of. */
  reposOf({ revision }: Pick<JobRow, "revision">): readonly string[] {
    return [...new Set(this.revision({ revision }).inputs.map(({ repo }) => repo))];
  }

  /** Whether two versions read the same, and all between them: who reads something else for a while begins anew. */
  isOfInputs(one: Pick<JobRow, "revision">, other: Pick<JobRow, "revision">): boolean {
    const [from, to] = [one.revision, other.revision].sort((a, b) => a - b) as [number, number];
    const inputs = JSON.stringify(this.revision(one).inputs);
    const since = [...this.revisions.keys()].filter((revision) => revision >= from && revision <= to);
    return since.every((revision) => JSON.stringify(this.revision({ revision }).inputs) === inputs);
  }

  /** Whether a repo holds a file of each input of a version that reads it. */
  holdsNow(repo: string, { revision }: Pick<JobRow, "revision">): boolean {
    const recorder = this.world.recorder(repo);
    const { last } = recorder;
    return this.revision({ revision }).inputs.every(
      (input) =>
        input.repo !== repo ||
        (last !== undefined && holdsFile(recorder.treeAt(last, { from: input.from }) ?? new Map())),
    );
  }

  /** How many events of each repo that a job reads lie up to its position. */
  indices(job: JobRow): ReadonlyMap<string, number> {
    const repos = this.reposOf(job);
    return new Map(
      repos.flatMap((repo, source) => {
        const position = job.positions[source];
        return position ? [[repo, this.world.recorder(repo).indexOf(position)] as const] : [];
      }),
    );
  }

  recorderOf(job: JobRow, source: number): Recorder {
    return this.world.recorder(this.reposOf(job)[source] ?? "");
  }

  output(): Recorder {
    return this.world.recorder(this.plan.name);
  }

  /** What a job read of one of its repos; of what an input starts after, only what was written since. */
  tree(job: JobRow, source: number, from: string | null = null): Tree | undefined {
    const position = job.positions[source];
    const repo = this.reposOf(job)[source] ?? "";
    const erasures = this.erasures().filter(
      ({ of, ended }) => of === repo && ended + this.unsureMs < job.createdAt,
    );
    return position && this.world.recorder(repo).treeAt(position, { erased: erasures, from });
  }

  datumsOf(job: JobRow): ReadonlyMap<string, NaiveDatum> {
    const known = this.#datums.get(job.n);
    if (known) return known;
    const repos = this.reposOf(job);
    const { inputs: read, cmd, skips } = this.revision(job);
    const inputs = read.map(({ name, repo, glob, from }) => ({
      ...{ name, repo, commit: null },
      glob: { text: glob, names: NAMES[glob] ?? "root" },
      tree: this.tree(job, repos.indexOf(repo), from) ?? new Map(),
    }));
    const datums = datumsOf({ inputs, cmd, skips, salt: 0 });
    this.#datums.set(job.n, datums);
    return datums;
  }

  /** The datums of a job that did not fail in it, in order of their keys. */
  goodOf(job: JobRow): NaiveDatum[] {
    const failed = new Set(this.attemptsOf(job, "failed").map(({ key }) => key));
    return [...this.datumsOf(job).values()].filter(({ key }) => !failed.has(key));
  }

  /** The salt of results that count now. */
  get presentSalt(): string | undefined {
    return this.revisions.get(this.rows.revision)?.salt;
  }

  /** Whether nothing was told to keep less, and nothing was erased of what it reads. */
  get isAllKept(): boolean {
    return this.world.keepsAll && this.erasures().length === 0 && this.world.redone.size === 0;
  }

  /** Whether the commits that a job read are of branches that are still there. */
  areInputsKept(job: JobRow): boolean {
    return this.reposOf(job).every((repo, source) => {
      const { last } = this.world.recorder(repo);
      return last?.kind === "commit" && last.generation === job.positions[source]?.generation;
    });
  }

  /**
   * The datums of a job that each job since then has, too; none if other inputs were read since, or other code ran, or if all
   * was read anew, as by a job of a pipeline that was started and by one behind a job that was given up.
   */
  stayedSince(job: JobRow): NaiveDatum[] {
    const since = this.jobs.filter(({ n }) => n > job.n);
    const { salt } = this.revision(job);
    const isSame = (each: JobRow): boolean => this.isOfInputs(job, each) && this.revision(each).salt === salt;
    if (!since.every((each) => isSame(each) && each.source >= 0 && !isEarly(each))) return [];
    return [...this.datumsOf(job).values()].filter(({ id }) =>
      since.every((each) => this.datumsOf(each).has(id)),
    );
  }

  /** Whether anything was erased of its output: then results have less than their datums wrote. */
  get hasErasedOutput(): boolean {
    return this.world.operations.some(({ kind, of }) => kind.startsWith("erase") && of === this.plan.name);
  }

  attemptsOf(job: JobRow, state: string): AttemptRow[] {
    return this.attempts.filter((attempt) => attempt.job === job.n && attempt.state === state);
  }

  revision({ revision }: Pick<JobRow, "revision">): RevisionRow {
    const found = this.revisions.get(revision);
    if (!found) throw new Error(`there is no version ${revision} of ${this.plan.name}`);
    return found;
  }
}

/** Whether a job ended before its datums were done, or before its output was where it is to be. */
export function isEarly({ state, reason }: JobRow): boolean {
  return state === "failure" && reason !== null && EARLY.test(reason);
}
