import type { Maker } from "../../../../protocol/commits.ts";
import type {
  ComputedOutput,
  LogChunk,
  LogsCall,
  PipelineApi,
} from "../../../../worker/pipeline/contract.ts";
import { outputsOf } from "../../../worker/pipeline/model/command.ts";
import type { NaiveDatum } from "../../../worker/pipeline/model/naive-results.ts";
import { Random } from "../../platform/random.ts";
import type { JobsWorld, PipelinePlan } from "./clients.ts";
import { JobFacts } from "./facts.ts";
import type { Printed } from "./outside.ts";
import { allOf, differs, keyOf } from "./pages.ts";
import type { RecordedEvent } from "./recorder.ts";
import { type JobRow, PipelineRows } from "./rows.ts";

/** So many jobs, paths of each and commits are looked at. */
const JOBS = 3;
const PATHS = 3;
const COMMITS = 6;

/** What is wrong with what is told of where the outputs of a pipeline come from, and of what became of its inputs. */
export async function tracedFaults(world: JobsWorld, plan: PipelinePlan): Promise<string[]> {
  const rows = new PipelineRows(world.simulation.pipelines.object(plan.name));
  if (!rows.isThere) return [];
  const random = new Random(world.seed ^ 0x38b34ae5);
  const check = new TracedCheck(new JobFacts(world, plan, rows), {
    pipeline: world.pipeline(plan.name),
    random,
  });
  const faults: string[] = [];
  for await (const fault of check.all()) faults.push(`pipeline ${plan.name} traced: ${fault}`);
  return faults;
}

interface Looking {
  readonly pipeline: PipelineApi;
  readonly random: Random;
}

/** From inputs to what was made of them, and back. */
class TracedCheck {
  readonly #facts: JobFacts;
  readonly #pipeline: PipelineApi;
  readonly #random: Random;

  constructor(facts: JobFacts, { pipeline, random }: Looking) {
    this.#facts = facts;
    this.#pipeline = pipeline;
    this.#random = random;
  }

  async *all(): AsyncGenerator<string> {
    yield* this.#fates();
    const made = this.#facts.listed.filter(
      (job) => job.state === "success" && !this.#facts.isErasedUnder(job),
    );
    for (let n = 0; n < JOBS && made.length > 0; n++) {
      const job = this.#random.pick(made);
      for (let m = 0; m < PATHS; m++) yield* this.#makers(job);
    }
    const newest = made.at(-1);
    if (newest) yield* this.#computed(newest);
    yield* this.#logs();
  }

  /** What became of commits of the inputs: the oldest job that has one, and how that ended. */
  async *#fates(): AsyncGenerator<string> {
    const present = { revision: this.#facts.rows.revision };
    for (const repo of this.#facts.repos) {
      const commits = this.#facts.world.recorder(repo).events.filter(({ kind }) => kind === "commit");
      for (let n = 0; n < COMMITS && commits.length > 0; n++)
        yield* this.#fate(repo, { present, commit: this.#random.pick(commits) });
    }
  }

  async *#fate(
    repo: string,
    { present, commit }: { present: { readonly revision: number }; commit: RecordedEvent },
  ): AsyncGenerator<string> {
    const { id, generation, seq } = commit;
    const at = this.#random.chance(0.2) ? null : { generation, seq };
    const fate = await this.#pipeline.lineage.fate({ repo, branch: "master", commit: id, at });
    const name = `the fate of commit ${id} of ${repo}`;
    if (!fate.ok) {
      yield `${name} is ${fate.reason}`;
      return;
    }
    const first = this.#facts.jobs.find(
      (each) => each.positions[this.#facts.reposOf(each).indexOf(repo)]?.commit === id,
    );
    const job = (first && at && this.#ownJob(at, { repo, present })) ?? first;
    const { known } = this.#facts.rows;
    // Of a job that is gone nothing is told, nor can it be told of a commit without one that it never had any.
    if (job ? !known.has(job.n) || (first && !known.has(first.n)) : known.size < this.#facts.jobs.length)
      return;
    yield* differs(name, [fate.job, fate.state], job ? [job.id, job.state] : [null, "none"]);
    if (!job && fate.reason === null) yield `${name} has no reason`;
    const outputs = fate.outputs.filter(({ branch }) => branch === "master").map((output) => output.commit);
    yield* differs(
      `what came of commit ${id} of ${repo}`,
      outputs,
      job?.outputCommit ? [job.outputCommit] : [],
    );
  }

  /** The job that an event made, if it is of a version that reads as the present one does. */
  #ownJob(
    at: { readonly generation: number; readonly seq: number },
    { repo, present }: { repo: string; present: { readonly revision: number } },
  ): JobRow | undefined {
    return this.#facts.jobs.find(
      (job) =>
        job.revision === present.revision &&
        this.#facts.reposOf(job)[job.source] === repo &&
        job.generation === at.generation &&
        job.seq === at.seq,
    );
  }

  /** The datums that made a path of a job's commit: those that wrote to it, in their order. */
  async *#makers(job: JobRow): AsyncGenerator<string> {
    const { cmd } = this.#facts.revision(job);
    const writers = new Map<string, NaiveDatum[]>();
    for (const datum of this.#facts.goodOf(job))
      for (const path of Object.keys(outputsOf(datum.reading, cmd)))
        writers.set(path, [...(writers.get(path) ?? []), datum]);
    const path = this.#random.chance(0.1) ? "never written" : this.#random.pick([...writers.keys(), "x"]);
    const branch = this.#random.chance(0.2) ? "errors" : undefined;
    const asked = { job: job.id, path, ...(branch !== undefined && { branch }), limit: 2 };
    const made = await allOf<Maker>(async (after) => {
      const page = await this.#pipeline.lineage.provenance({ ...asked, after: after ?? null });
      if (!page.ok) throw new Error(page.reason);
      return { items: page.datums, next: page.next };
    });
    if (this.#facts.hasErasedOutput || !this.#facts.world.keepsAll) return;
    const should = branch === undefined ? (writers.get(path) ?? []).map(({ key }) => key) : [];
    yield* differs(
      `what made ${path} of job ${job.n}`,
      made.map(({ inputs }) => keyOf(inputs)),
      should,
    );
    const ran = new Set(this.#facts.attemptsOf(job, "success").map(({ key }) => key));
    for (const { inputs, state } of made) {
      const key = keyOf(inputs);
      yield* differs(`how ${key} made ${path} of job ${job.n}`, state, ran.has(key) ? "success" : "skipped");
      const datum = writers.get(path)?.find((each) => each.key === key);
      // Of a branch that is gone nobody knows what it was, nor of a directory whose files were erased.
      if (!this.#facts.areInputsKept(job) || inputs.some(({ path }) => this.#isErasedIn(path))) continue;
      const kinds = datum?.reading.map(({ element }) => element.kind);
      yield* differs(
        `what ${key} of job ${job.n} read`,
        inputs.map(({ kind }) => kind),
        kinds,
      );
    }
  }

  /** Whether something was erased at a path or below. */
  #isErasedIn(path: string): boolean {
    return this.#facts
      .erasures()
      .some(({ erased }) => erased?.some((one) => one.path === path || one.path.startsWith(`${path}/`)));
  }

  /** The outputs that were computed from a file of an input. */
  async *#computed(job: JobRow): AsyncGenerator<string> {
    const datums = this.#facts.goodOf(job);
    if (datums.length === 0) return;
    const inputs = this.#facts.revision(job).inputs;
    const read = this.#random.pick(datums).reading;
    const part = this.#random.pick(read);
    const repo = inputs.find(({ name }) => name === part.input)?.repo ?? "";
    const entry = part.element.entries.filter(([path]) => !path.endsWith("/")).at(0);
    const at = job.positions[this.#facts.reposOf(job).indexOf(repo)];
    if (!entry || !at) return;
    const [path] = entry;
    const files = [{ path, generation: at.generation, spans: [{ born: at.seq, died: at.seq + 1 }] }];
    const outputs = await allOf<ComputedOutput>(async (after) => {
      const page = await this.#pipeline.lineage.outputsOf({
        ...{ repo, branch: "master", files },
        ...(after && { after }),
      });
      return { items: page.outputs, next: page.next };
    });
    const namesOf = (reading: NaiveDatum["reading"]) =>
      reading.some(
        ({ input, element }) =>
          inputs.find(({ name }) => name === input)?.repo === repo &&
          (element.path === "" || path === element.path || path.startsWith(`${element.path}/`)),
      );
    for (const { path: made, job: id, commit } of outputs) {
      const of = this.#facts.jobs.find((each) => each.id === id);
      yield* differs(
        `the commit of ${made}, which was computed from ${path}`,
        commit,
        of?.outputCommit ?? null,
      );
      const makers =
        of && !this.#facts.isErasedUnder(of) ? [...this.#facts.datumsOf(of).values()] : undefined;
      const { cmd = "" } = of ? this.#facts.revision(of) : {};
      if (makers && !makers.some(({ reading }) => namesOf(reading) && made in outputsOf(reading, cmd)))
        yield `${made} of job ${id} is said to be computed from ${path}, and is not`;
    }
  }

  /** What commands printed is there, under the datum that printed it, in its order, and each line once. */
  async *#logs(): AsyncGenerator<string> {
    const { printed } = this.#facts.world.outside;
    const some = this.#facts.listed.filter(({ id }) => printed.some(({ job }) => job === id));
    for (let n = 0; n < JOBS && some.length > 0; n++) yield* this.#logsOf(this.#random.pick(some));
    const none = await this.#pipeline.logs.read({ job: "none", after: null, waitMs: null });
    yield* differs("the log of no job", none, { ok: false, reason: "no-such-job" });
  }

  async *#logsOf({ id: job, n }: JobRow): AsyncGenerator<string> {
    const printed = this.#facts.world.outside.printed.filter((each) => each.job === job);
    const chunks = await this.#chunks({ job, waitMs: this.#random.chance(0.5) ? 1_000 : null });
    const lines = chunks.flatMap(({ datum, lines: some }) =>
      some.flatMap(([, text]) => (/^no\b/.test(text) ? [] : [{ datum, text }])),
    );
    const shown = new Set(lines.map(({ text }) => text));
    if (shown.size < lines.length) yield `the log of job ${n} has a line twice`;
    for (const { datum, text } of lines)
      if (!printed.some((each) => each.datum === datum && each.asked.includes(text)))
        yield `the log of job ${n} has "${text}" of ${datum}, which did not print it`;
    for (const one of printed) {
      const { lease, asked, kept } = one;
      const lost = kept.filter((text) => !shown.has(text));
      // The oldest lines go first, once a datum or all of them together have printed much.
      const isOldest = kept.slice(0, lost.length).every((text) => !shown.has(text));
      if (!isOldest || (lost.length > 0 && !this.#hasMuch(one))) yield `the log of job ${n} lacks ${lost}`;
      const own = lines.flatMap(({ text }) => (text.startsWith(lease) ? [text] : []));
      yield* differs(
        `the order of ${lease} in the log of job ${n}`,
        own,
        asked.filter((text) => shown.has(text)),
      );
    }
    const one = this.#random.pick(printed);
    if (!one) return;
    const own = await this.#chunks({ job, datum: one.datum, waitMs: null });
    const ofDatum = lines.filter(({ datum }) => datum === one.datum).map(({ text }) => text);
    const texts = own.flatMap((chunk) =>
      chunk.lines.flatMap(([, text]) => (/^no\b/.test(text) ? [] : [text])),
    );
    yield* differs(`the log of ${one.datum} of job ${n}`, texts, ofDatum);
    const tail = await this.#pipeline.logs.read({
      job,
      datum: one.datum,
      after: null,
      waitMs: null,
      tail: 2,
    });
    const last = tail.ok
      ? tail.chunks.flatMap((chunk) => chunk.lines.slice(chunk.seen).map(([, text]) => text))
      : [];
    if (tail.ok && ofDatum.length > 0 && !last.includes(ofDatum.at(-1) ?? ""))
      yield `the end of the log of ${one.datum} of job ${n} is ${last}`;
    const nowhere = await this.#pipeline.logs.read({ job, after: "nowhere", waitMs: null });
    yield* differs("a log after no place", nowhere, { ok: false, reason: "no-such-place" });
  }

  /** Whether what was printed may be kept no more: its datum printed more than one command does, or others did much since. */
  #hasMuch(one: Printed): boolean {
    const { outside, limits } = this.#facts.world;
    const { printed } = outside;
    const sum = (some: readonly Printed[]) => some.reduce((lines, { asked }) => lines + asked.length, 0);
    const ofDatum = printed.filter(({ job, datum }) => job === one.job && datum === one.datum);
    return sum(ofDatum) > limits.linesOfOne || sum(printed.slice(printed.indexOf(one))) > limits.linesOfAll;
  }

  async #chunks(call: Omit<LogsCall, "after">): Promise<LogChunk[]> {
    const chunks: LogChunk[] = [];
    for (let after: string | null = null; ; ) {
      const page: Awaited<ReturnType<PipelineApi["logs"]["read"]>> = await this.#pipeline.logs.read({
        ...call,
        after,
      });
      if (!page.ok) throw new Error(page.reason);
      chunks.push(...page.chunks);
      if (page.rest !== "more") return chunks;
      after = page.after;
    }
  }
}
