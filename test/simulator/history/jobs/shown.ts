import type { Job, JobDatum, KnownWhy } from "../../../../protocol/pipelines.ts";
import type { PipelineApi } from "../../../../worker/pipeline/contract.ts";
import { outputsOf } from "../../../worker/pipeline/model/command.ts";
import type { NaiveDatum } from "../../../worker/pipeline/model/naive-results.ts";
import { Random } from "../../platform/random.ts";
import type { JobsWorld, PipelinePlan } from "./clients.ts";
import { isEarly, JobFacts } from "./facts.ts";
import { allOf, differs, keyOf, pathsOf } from "./pages.ts";
import { type JobRow, PipelineRows } from "./rows.ts";

/** Jobs of a pipeline, and datums of each, that are looked at closely. */
const JOBS = 6;
const DATUMS = 2;

/**
 * What is wrong with what is shown of a pipeline that rests: its jobs and their datums, what these read and wrote and why they ran,
 * what became of each commit. All of it follows from what is written down and from what the inputs were.
 */
export async function shownFaults(world: JobsWorld, plan: PipelinePlan): Promise<string[]> {
  const rows = new PipelineRows(world.simulation.pipelines.object(plan.name));
  if (!rows.isThere) return [];
  const facts = new JobFacts(world, plan, rows);
  const random = new Random(world.seed ^ 0x1b873593);
  const pipeline = world.pipeline(plan.name);
  const shown = new ShownCheck(facts, { pipeline, random });
  const faults: string[] = [];
  for await (const fault of shown.all()) faults.push(fault);
  return faults.map((fault) => `pipeline ${plan.name} shown: ${fault}`);
}

interface Looking {
  readonly pipeline: PipelineApi;
  readonly random: Random;
}

class ShownCheck {
  readonly #facts: JobFacts;
  readonly #pipeline: PipelineApi;
  readonly #random: Random;

  constructor(facts: JobFacts, { pipeline, random }: Looking) {
    this.#facts = facts;
    this.#pipeline = pipeline;
    this.#random = random;
  }

  async *all(): AsyncGenerator<string> {
    yield* this.#lists();
    yield* this.#versions();
    yield* this.#standing();
    yield* this.#errors();
    const left = [...this.#facts.listed];
    for (let n = 0; n < JOBS && left.length > 0; n++) {
      const [job] = left.splice(this.#random.below(left.length), 1);
      if (!job) continue;
      yield* this.#summary(job);
      yield* this.#datums(job);
    }
  }

  async *#lists(): AsyncGenerator<string> {
    const listed = await allOf<Job>(async (after) => {
      const { jobs, next } = await this.#pipeline.jobs.list({ ...(after && { after }), limit: 7 });
      return { items: jobs, next };
    });
    yield* differs(
      "its list of jobs",
      listed.map(shownOf),
      this.#facts.listed.map((job) => this.#shown(job)).reverse(),
    );
    const ids = listed.map(({ id }) => id);
    yield* differs("what is not ended", await this.#pipeline.jobs.unfinished([...ids, "none"]), []);
    for (const job of listed.slice(0, 3)) {
      yield* differs(`job ${job.id} by itself`, await this.#pipeline.jobs.view(job.id), job);
      yield* differs(
        `job ${job.id}, waited for`,
        await this.#pipeline.jobs.wait({ id: job.id, waitMs: 1 }),
        job,
      );
    }
    yield* differs("a job of no such id", await this.#pipeline.jobs.view("none"), null);
    yield* differs(
      "a job of no such id, waited for",
      await this.#pipeline.jobs.wait({ id: "none", waitMs: 1 }),
      null,
    );
  }

  /** A job as it is to be shown, by its row. */
  #shown(job: JobRow): ReturnType<typeof shownOf> {
    const { id, state, reason, revision, outputCommit, createdAt, finishedAt } = job;
    const { total, processed, skipped, failed } = job;
    const repos = this.#facts.reposOf(job);
    return {
      ...{ id, version: revision, state, reason, outputCommit, createdAt, finishedAt },
      datums: { total, processed, skipped, failed },
      inputs: this.#facts.revision(job).inputs.map(({ name, repo }) => ({
        ...{ name, repo, branch: "master" },
        commit: job.positions[repos.indexOf(repo)]?.commit ?? null,
      })),
      output: { repo: this.#facts.plan.name, branch: "master" },
    };
  }

  async *#versions(): AsyncGenerator<string> {
    const { specification } = this.#pipeline;
    const listed = await allOf<{ version: number; present: boolean; runsAll: boolean }>(async (after) => {
      const page = await specification.versions({ ...(after && { before: Number(after) }), limit: 2 });
      if (!page.ok) throw new Error(page.reason);
      return { items: page.versions, next: page.next === null ? null : String(page.next) };
    });
    const { revisions, rows } = this.#facts;
    const there = [...rows.keptRevisions].sort((one, other) => other - one);
    const shown = there.map((version) => ({
      version,
      present: version === rows.revision,
      runsAll:
        rows.keptRevisions.has(version - 1) &&
        revisions.get(version)?.salt !== revisions.get(version - 1)?.salt,
    }));
    const is = listed.map(({ version, present, runsAll }) => ({ version, present, runsAll }));
    yield* differs("its list of versions", is, shown);
    for (const version of [null, ...there.slice(0, 2)]) {
      const answer = await specification.version(version);
      const cmd = answer.ok ? answer.spec.transform.cmd[0] : answer.reason;
      yield* differs(`version ${version}`, cmd, revisions.get(version ?? rows.revision)?.cmd);
    }
    for (const version of [0, rows.revision + 1])
      yield* differs(`version ${version}`, await specification.version(version), {
        ok: false,
        reason: "no-such-version",
      });
    for (const version of revisions.keys())
      if (version <= rows.revision && !rows.keptRevisions.has(version))
        yield* differs(`version ${version}, which is kept no more`, await specification.version(version), {
          ok: false,
          reason: "not-kept",
        });
  }

  async *#standing(): AsyncGenerator<string> {
    const found = await this.#pipeline.lifecycle.inspect();
    const { state, revision } = this.#facts.rows;
    const is = found.ok && [found.pipeline.state, found.pipeline.version];
    yield* differs("its state and version", is, [state, revision]);
    const told = await this.#pipeline.admin.loops();
    yield* differs(
      "what fails in it",
      // One that has nothing to do any more is not tried again.
      (told?.loops ?? []).filter(({ tries, due }) => tries > 0 && due !== null),
      [],
    );
    const space = await this.#pipeline.admin.space();
    if (!space || space.usedBytes <= 0) yield "it takes no room";
    yield* differs("its announcement", await this.#pipeline.admin.announce(), { ok: true });
  }

  /** The branch of errors has a file for each datum that the newest job left out, and no other. */
  async *#errors(): AsyncGenerator<string> {
    const newest = this.#facts.jobs.at(-1);
    if (newest?.state !== "success" || !this.#facts.isOfInputs(newest, this.#facts.rows)) return;
    const { world, plan } = this.#facts;
    const page = await world.simulation.branch(`errors.${plan.name}`).files.list({ prefix: "", limit: 1000 });
    const is = page.ok ? page.entries.flatMap((entry) => (entry.kind === "file" ? [entry.path] : [])) : [];
    const left = this.#facts.attemptsOf(newest, "failed").map(({ id }) => `errors/${id}.json`);
    yield* differs("what its errors branch tells of", is.sort(), left.sort());
  }

  /** A summary counts what ran, and its steps follow each other from the job's beginning to its end. */
  async *#summary(job: JobRow): AsyncGenerator<string> {
    const name = `the summary of job ${job.n}`;
    const summary = await this.#pipeline.jobs.summary(job.id);
    if (!summary.ok) {
      yield `${name} is ${summary.reason}`;
      return;
    }
    const { steps, durations, slowest, failed } = summary;
    const ran = this.#facts.attemptsOf(job, "success").length;
    const count = durations?.count ?? 0;
    // How long it took goes with a result, which another version's takes the place of.
    const isPresent = this.#facts.revision(job).salt === this.#facts.presentSalt;
    if (count > ran || (isPresent && this.#facts.isAllKept && count < ran))
      yield `${name} counts ${count} that ran, and ${ran} did`;
    if (durations) {
      const counted = durations.buckets.reduce((sum, bucket) => sum + bucket.count, 0);
      yield* differs(`${name}: what its buckets hold`, counted, count);
      const { median, p95, longest } = durations;
      if (median > p95 || p95 > longest) yield `${name} has durations ${median}, ${p95}, ${longest}`;
      yield* differs(`${name}: the longest`, slowest[0]?.millis, longest);
    }
    const keys = failed.map(({ inputs }) => inputs.map(({ path }) => path));
    const should = this.#facts.attemptsOf(job, "failed").map(({ key }) => pathsOf(key));
    yield* differs(`${name}: what failed`, keys.map(String).sort(), should.map(String).sort().slice(0, 20));
    // A step that began once the clock was set back is shown to begin before its job.
    if (this.#facts.unsureMs === 0) yield* differs(`${name}: when it begins`, steps[0]?.from, job.createdAt);
    yield* differs(`${name}: when it ends`, steps.at(-1)?.to, job.finishedAt);
    for (const [index, { from, to }] of steps.entries()) {
      if ((to ?? from) < from) yield `${name} has a step that ends before it begins`;
      const next = steps[index + 1];
      if (next) yield* differs(`${name}: when step ${index} ends`, to, next.from);
    }
  }

  async *#datums(job: JobRow): AsyncGenerator<string> {
    const name = `job ${job.n}`;
    const listed = await allOf<JobDatum>(async (after) => {
      const limit = 1 + this.#random.below(6);
      const page = await this.#pipeline.datums.list({
        ...{ job: job.id, limit, why: true },
        ...(after && { after }),
      });
      if (!page.ok) throw new Error(page.reason);
      return { items: page.datums, next: page.next };
    });
    if (new Set(listed.map(({ id }) => id)).size !== listed.length) yield `${name} lists a datum twice`;
    if (this.#facts.isErasedUnder(job)) return;
    const datums = new Map([...this.#facts.datumsOf(job).values()].map((datum) => [datum.key, datum]));
    const known = listed.flatMap((one) => {
      const datum = datums.get(keyOf(one.inputs));
      return datum ? [{ one, datum }] : [];
    });
    if (known.length < listed.length) yield `${name} lists what is no datum of it`;
    if (job.state !== "killed" && !isEarly(job)) {
      yield* this.#listed(job, listed);
      for (const { one, datum } of known) yield* this.#why(job, { one, datum });
    }
    for (let n = 0; n < DATUMS && known.length > 0; n++) yield* this.#detail(job, this.#random.pick(known));
    const none = { ok: false, reason: "no-such-datum" };
    yield* differs("no such datum", await this.#pipeline.datums.view({ job: job.id, datum: "zz" }), none);
    if (listed.length < 2) return;
    const several = await this.#pipeline.datums.view({ job: job.id, datum: "" });
    yield* differs("several datums", several, { ok: false, reason: "several-datums" });
  }

  /** A job lists what it ran, and what it had without that as long as that is there. */
  *#listed(job: JobRow, listed: readonly JobDatum[]): Generator<string> {
    const states = new Map(listed.map(({ inputs, state }) => [keyOf(inputs), state]));
    const attempts = this.#facts.attempts.filter(({ job: n }) => n === job.n);
    for (const { key } of [...this.#facts.stayedSince(job), ...attempts])
      if (!states.has(key)) yield `job ${job.n} does not list ${key}`;
    const ran = new Map(attempts.map(({ key, state }) => [key, state]));
    for (const [key, state] of states)
      yield* differs(`job ${job.n}: the state of ${key}`, state, ran.get(key) ?? "skipped");
  }

  /** Why a datum ran, by what the job before had of it. */
  *#why(job: JobRow, { one, datum }: { one: JobDatum; datum: NaiveDatum }): Generator<string> {
    const why = (one.why ?? []) as readonly KnownWhy[];
    const reasons = why.map(({ reason }) => reason).join();
    const what = `job ${job.n}: why ${datum.key} is ${one.state}: ${JSON.stringify(why).slice(0, 200)}`;
    // What was erased, or is kept no more, tells nothing.
    const { jobs, isAllKept } = this.#facts;
    const read = [job, jobs[jobs.indexOf(job) - 1]].filter((each) => each !== undefined);
    const isKept = isAllKept && read.every((each) => this.#facts.areInputsKept(each));
    if (reasons.includes("not-kept")) {
      // A job that ran it may be known no more.
      if (isKept && this.#facts.rows.known.size === jobs.length) yield `${what}, and all is kept`;
    } else if (one.state === "skipped") {
      const [first] = why;
      const ran = first?.reason === "result" && this.#facts.jobs.find(({ id }) => id === first.job);
      if (!ran || (isKept && !this.#facts.attemptsOf(ran, "success").some(({ key }) => key === datum.key)))
        yield `${what}, and that job did not run it`;
    } else {
      const should = isKept ? this.#reasons(job, datum, reasons.includes("reprocess")) : undefined;
      if (should !== undefined && reasons !== should) yield `${what} instead of ${should}`;
    }
  }

  /** Why a job has to run a datum that it runs; undefined: nobody can tell. */
  #reasons(job: JobRow, datum: NaiveDatum, isReprocess: boolean): string | undefined {
    const before = this.#facts.jobs[this.#facts.jobs.indexOf(job) - 1];
    if (!before) return "new";
    if (!this.#facts.isOfInputs(before, job)) return undefined;
    if (this.#facts.isErasedUnder(before) || !this.#facts.areInputsKept(before)) return undefined;
    const was = [...this.#facts.datumsOf(before).values()].find(({ key }) => key === datum.key);
    if (!was) return "new";
    const isSalted = this.#facts.revision(before).salt !== this.#facts.revision(job).salt;
    const anew = isReprocess ? "reprocess" : "version";
    const reasons = [...(was.id === datum.id ? [] : ["changed"]), ...(isSalted ? [anew] : [])];
    return reasons.length > 0 ? reasons.join() : "again";
  }

  /** What a datum reads and wrote, as somebody sees it who runs it again. */
  async *#detail(job: JobRow, { one, datum }: { one: JobDatum; datum: NaiveDatum }): AsyncGenerator<string> {
    const name = `job ${job.n}: datum ${datum.key}`;
    const { world } = this.#facts;
    const call = { job: job.id, datum: one.id.slice(0, 12) };
    const view = await this.#pipeline.datums.view(call);
    if (!view.ok) {
      const isGone = ["input-not-kept", "input-gone"].includes(view.reason);
      if (!isGone || (this.#facts.isAllKept && this.#facts.areInputsKept(job)))
        yield `${name} can't be seen: ${view.reason}`;
      return;
    }
    const { why: _, ...shown } = one;
    yield* differs(`${name} by itself`, view.datum, shown);
    yield* differs(`${name}: its command`, view.transform.cmd[0], this.#facts.revision(job).cmd);
    const files = datum.reading.map(({ input, element: { path, kind, entries } }) => ({
      ...{ name: input, path, kind },
      content: kind === "file" ? world.texts.id(entries[0]?.[1] ?? "") : null,
    }));
    const read = view.inputs.map(({ name: input, path, kind, content }) => ({
      name: input,
      path,
      kind,
      content,
    }));
    yield* differs(`${name}: what it reads`, read, files);
    const wrote = await allOf(async (after) => {
      const page = await this.#pipeline.datums.outputs({ ...call, ...(after && { after }), limit: 2 });
      if (!page.ok) throw new Error(page.reason);
      return { items: page.outputs, next: page.next };
    });
    const isDone = one.state === "success" || one.state === "skipped";
    yield* differs(`${name}: whether anything is told of its files`, view.outputs !== "none", isDone);
    if (view.outputs !== "kept" || this.#facts.hasErasedOutput) return;
    const outputs = Object.entries(outputsOf(datum.reading, this.#facts.revision(job).cmd))
      .map(([path, text]) => ({ path, content: world.texts.id(text) }))
      .sort((a, b) => (a.path < b.path ? -1 : 1));
    yield* differs(
      `${name}: what it wrote`,
      wrote.map(({ path, content }) => ({ path, content })),
      outputs,
    );
    if (job.state !== "success" || !world.keepsAll) return;
    const good = this.#facts.goodOf(job);
    for (const { path, merged } of wrote) {
      const writers = good.filter(({ reading }) => path in outputsOf(reading, this.#facts.revision(job).cmd));
      yield* differs(`${name}: whether ${path} is of several`, merged, writers.length > 1);
    }
  }
}

function shownOf({
  id,
  version,
  state,
  reason,
  outputCommit,
  createdAt,
  finishedAt,
  datums,
  inputs,
  output,
}: Job) {
  return {
    id,
    version,
    state: state as string,
    reason,
    outputCommit,
    createdAt,
    finishedAt,
    datums,
    inputs,
    output,
  };
}
