import { INLINE_LIMIT_BYTES } from "../../../../protocol/content.ts";
import { PipelineSpec } from "../../../../protocol/spec.ts";
import type { Content } from "../../../../worker/blobs/content.ts";
import type { BranchApi } from "../../../../worker/branch/contract/api.ts";
import { eraseThroughForks } from "../../../../worker/erase.ts";
import type { PipelineApi } from "../../../../worker/pipeline/contract.ts";
import { Random } from "../../platform/random.ts";
import type { Simulation } from "../../platform/simulation.ts";
import { type Calm, insist } from "../mishaps.ts";
import type { Tally } from "../tally.ts";
import { Agent } from "./agent.ts";
import { lookAt, planAt } from "./look.ts";
import { askForNothing, NEVER } from "./odd.ts";
import { Outside } from "./outside.ts";
import type { JobsPlan, JobsStep } from "./plan.ts";
import { Recorder } from "./recorder.ts";
import { PipelineRows } from "./rows.ts";
import { Texts } from "./texts.ts";
import { updateInVain } from "./vain.ts";
import { PipelineWatch } from "./watch.ts";

/** No one is the folder of another. */
const FILES = ["a", "b", "c", "d/a", "d/b", "d/e/a", "f/a"];
const TEXTS = [
  ...["1", "2", "3", "4", "1", "2", "3", "4", "bad", "flaky", "file", "directory"],
  // Its bytes are a blob, and so are those of what is computed from it.
  "large ".repeat(900),
];
export const NODES = ["n1", "n2"];
export const TRIES = 2;
/** Where one input of the pipelines is, and what matches. */
const GLOBS = ["/", "/*", "/*", "/*", "/*/*", "/d*"];

/** What was asked of a pipeline or of its inputs, and when; milliseconds since 1970. */
export interface Operation {
  readonly kind: JobsStep["kind"];
  /** The pipeline, or the bucket. */
  readonly of: string;
  readonly begun: number;
  /** Infinity: its answer was lost, and it may yet be done. */
  ended: number;
  /** The same by the time that nobody sets. */
  endedAt: number;
  ok: boolean;
  /** Why it was refused; undefined: it was not, or nobody knows. */
  reason?: string;
  /** The job that it was about or that came of it. */
  job?: string;
  /** Versions that were erased. */
  erased?: readonly { readonly path: string; readonly version: string }[];
}

interface PipelineInput {
  readonly repo: string;
  readonly glob: string;
}

/** A pipeline of a history, as it is to be made. */
export interface PipelinePlan {
  readonly name: string;
  readonly inputs: readonly PipelineInput[];
  readonly skips: boolean;
}

/** What pipelines allow, as far as histories come to it. */
interface Limits {
  /** How often the worker of a datum is lost in one job before that fails it. */
  readonly losses: number;
  /** Datums of a job that has several inputs. */
  readonly pairs: number;
  /** Lines that are kept for sure of one datum in a job, and of the last ones of all. */
  readonly linesOfOne: number;
  readonly linesOfAll: number;
}

const INFINITE = Number.POSITIVE_INFINITY;
const USUAL_LIMITS: Limits = { losses: 10, pairs: INFINITE, linesOfOne: INFINITE, linesOfAll: INFINITE };
/** By limits/pipelines.ts. */
const SMALL_LIMITS: Limits = { losses: 4, pairs: 16, linesOfOne: 4, linesOfAll: 40 };

/** The clients, nodes and pipelines of one history. */
export class JobsWorld {
  readonly simulation: Simulation;
  readonly texts = new Texts();
  readonly outside = new Outside();
  readonly recorders = new Map<string, Recorder>();
  readonly operations: Operation[] = [];
  readonly pipelines: readonly PipelinePlan[];
  readonly agents = new Map<string, Agent>();
  readonly watches = new Map<string, PipelineWatch>();
  readonly limits: Limits;
  /** So many jobs of each pipeline are listed. */
  readonly keptJobs: number;
  /** The keys of datums whose contents were lost: they may run again. */
  readonly redone = new Set<string>();
  /** What nodes came to that no runner should. */
  readonly failures: string[] = [];
  readonly tally: Tally;
  readonly seed: number;
  #agents = 0;
  #versions = 0;
  #isKeptShort = false;

  constructor(
    simulation: Simulation,
    {
      shape,
      seed,
      keptJobs,
      isSmall,
      tally,
      calm,
    }: Pick<JobsPlan, "shape" | "seed" | "keptJobs" | "isSmall"> & { tally: Tally; calm: Calm },
  ) {
    this.limits = isSmall ? SMALL_LIMITS : USUAL_LIMITS;
    this.keptJobs = keptJobs ?? Number.POSITIVE_INFINITY;
    this.simulation = simulation;
    this.tally = tally;
    this.seed = seed;
    const random = new Random(seed ^ 0x2545f491);
    const first = { repo: "in0", glob: random.pick(GLOBS) };
    const second = { repo: "in1", glob: random.pick(["/*", "/*", "/"]) };
    const edges = {
      name: "edges",
      inputs: shape === "cross" ? [first, second] : [first],
      skips: random.chance(0.4),
    };
    const next = {
      name: "next",
      inputs: [{ repo: "edges", glob: random.pick(["/*", "/*/*", "/"]) }],
      skips: random.chance(0.4),
    };
    this.pipelines = shape === "chain" ? [edges, next] : [edges];
    for (const { name } of this.pipelines)
      this.watches.set(
        name,
        new PipelineWatch(simulation.pipelines.object(name), { world: simulation.world, calm }),
      );
    const outputs = this.pipelines.map(({ name }) => name);
    const buckets = [...this.inputs, ...outputs].map((repo) => `master.${repo}`);
    for (const bucket of buckets)
      this.recorders.set(bucket, new Recorder(simulation.branches.object(bucket), this.texts));
  }

  /** The repos that clients write to. */
  get inputs(): string[] {
    return [...new Set(this.pipelines.flatMap(({ inputs }) => inputs.map(({ repo }) => repo)))].filter(
      (repo) => !this.pipelines.some(({ name }) => name === repo),
    );
  }

  recorder(repo: string): Recorder {
    const recorder = this.recorders.get(`master.${repo}`);
    if (!recorder) throw new Error(`nobody records ${repo}`);
    return recorder;
  }

  /** The branches and pipelines are made, and the nodes begin. */
  async begin(): Promise<void> {
    for (const repo of this.inputs) await insist(() => this.branch(repo).lifecycle.create());
    for (const node of NODES) this.startNode(node);
    for (const pipeline of this.pipelines) await this.create(pipeline);
  }

  startNode(node: string): void {
    const random = new Random(this.seed ^ (++this.#agents * 0x9e3779b1));
    const { simulation, texts, outside } = this;
    const failed = (error: unknown) => void this.failures.push(`node ${node}: ${error}`);
    const agent = new Agent({
      ...{ node, simulation, texts, outside, random, tally: this.tally, failed },
      executor: node === "n2" && random.chance(0.7) ? "docker" : "process",
      watch: (pipeline) => this.watches.get(pipeline),
    });
    this.agents.set(node, agent);
    agent.start();
  }

  async create(plan: PipelinePlan): Promise<void> {
    for (let tries = 0; tries < 50; tries++) {
      const answer = await this.#noted({ kind: "create pipeline", of: plan.name }, () =>
        this.pipeline(plan.name).lifecycle.create(this.spec(plan), { limited: false }),
      ).catch(() => undefined);
      if (answer?.ok || (answer && answer.reason === "already-exists")) return;
      // What a pipeline left that is gone is in the way of another of its name.
      if (answer?.reason === "output-exists")
        await this.branch(plan.name)
          .lifecycle.destroy({ withFiles: true })
          .catch(() => {});
      if (answer?.reason === "errors-exist")
        await this.branch(plan.name, "errors")
          .lifecycle.destroy({ withFiles: true })
          .catch(() => {});
      await scheduler.wait(500);
    }
    throw new Error(`the pipeline ${plan.name} can't be made`);
  }

  rows(name: string): PipelineRows {
    return new PipelineRows(this.simulation.pipelines.object(name));
  }

  /** From now on its commands may run as processes, which some node always does. */
  async letProcessesRun(name: string): Promise<void> {
    await insist(async () => {
      const found = await this.pipeline(name).lifecycle.inspect();
      if (!found.ok || found.pipeline.spec.transform.container === undefined) return { ok: true };
      const { container: _, ...transform } = found.pipeline.spec.transform;
      const spec = { ...found.pipeline.spec, transform };
      return await this.#noted({ kind: "update container", of: name }, () =>
        this.pipeline(name).specification.update({ spec, reprocess: false, limited: false }),
      );
    });
  }

  startPipeline(name: string): ReturnType<PipelineApi["lifecycle"]["start"]> {
    return this.#noted({ kind: "start pipeline", of: name }, () => this.pipeline(name).lifecycle.start());
  }

  /** Whether no output branch was told to keep less than all of its commits. */
  get keepsAll(): boolean {
    return !this.#isKeptShort;
  }

  /** What still goes on. */
  unrest(): string[] {
    return this.pipelines.flatMap(({ name }) => {
      const rows = new PipelineRows(this.simulation.pipelines.object(name));
      const unread = rows.sources.filter(({ repo, generation, seq }) => {
        const { events } = this.recorder(repo);
        return this.recorder(repo).indexOf({ generation, seq }) < events.length;
      });
      const behind = rows.state === "active" ? unread.map(({ repo }) => `has not read all of ${repo}`) : [];
      return [...rows.unrest, ...behind].map((what) => `pipeline ${name} ${what}`);
    });
  }

  get hasOpenJobs(): boolean {
    return this.pipelines.some(({ name }) => this.rows(name).hasOpenJobs);
  }

  pauseNodes(ms: number): void {
    const { now } = this.simulation.world;
    for (const agent of this.agents.values()) if (agent.frozenUntil <= now) agent.frozenUntil = now + ms;
  }

  async destroyAll(): Promise<void> {
    for (const { name } of this.pipelines) {
      const answer = await this.pipeline(name).lifecycle.destroy({ keepOutput: false });
      if (!answer.ok && answer.reason !== "no-such-pipeline")
        throw new Error(`the pipeline ${name} is not deleted: ${answer.reason}`);
    }
    for (const { name } of this.simulation.branches.all()) {
      const answer = await this.simulation.branch(name).lifecycle.destroy({ withFiles: true });
      if (!answer.ok && answer.reason !== "no-such-branch")
        throw new Error(`the branch ${name} is not deleted: ${answer.reason}`);
    }
  }

  /** One step. What is refused, or fails on the way, is done with. */
  async take(step: JobsStep): Promise<void> {
    const random = new Random(step.seed);
    switch (step.kind) {
      case "put":
      case "delete":
      case "commit":
      case "rewrite":
      case "there and back":
      case "delete branch":
        return await this.#write(step, random);
      case "tag input":
      case "tag output":
      case "erase input":
      case "erase output":
      case "keep output":
      case "lose upload":
      case "fence output":
      case "tell again":
      case "ask for nothing":
      case "read jobs":
      case "look":
      case "plan update":
        return await this.#curate(step, random);
      case "kill node":
      case "freeze node":
      case "drain node":
      case "resume node":
      case "node leaves":
        return await this.#lead(step, random);
      default:
        return await this.#operate(step, random);
    }
  }

  pipeline(name: string): PipelineApi {
    return this.simulation.pipeline(name);
  }

  branch(repo: string, branch = "master"): BranchApi {
    return this.simulation.branch(`${branch}.${repo}`);
  }

  async #write({ kind }: JobsStep, random: Random): Promise<void> {
    const repo = random.pick(this.inputs);
    const branch = this.branch(repo);
    const path = random.pick(FILES);
    switch (kind) {
      case "put":
        return await this.#put(branch, { path, text: random.pick(TEXTS) });
      case "delete":
        await branch.files.commit({ operations: [{ delete: path }] });
        return;
      case "commit": {
        const files = FILES.filter(() => random.chance(0.3)).map((each) => ({
          path: each,
          text: random.pick(TEXTS),
        }));
        const gone = FILES.filter((each) => random.chance(0.2) && !files.some((file) => file.path === each));
        return await this.#commit(branch, { files, gone });
      }
      case "rewrite": {
        const tree = this.recorder(repo).last?.tree ?? new Map<string, string>();
        const files = [...tree]
          .filter(() => random.chance(0.5))
          .map(([each, text]) => ({ path: each, text }));
        return await this.#commit(branch, { files, gone: [] });
      }
      // A datum that goes and comes back while a job before both has yet to run it.
      case "there and back": {
        const tree = this.recorder(repo).last?.tree ?? new Map<string, string>();
        const [back] = [...tree].filter(([each]) => each === path || random.chance(0.2));
        if (!back) return;
        await this.#put(branch, { path: back[0], text: random.pick(TEXTS) });
        await this.#put(branch, { path: back[0], text: back[1] });
        return;
      }
      default:
        await branch.lifecycle.destroy({ withFiles: true });
        for (let tries = 0; tries < 20; tries++) {
          const made = await branch.lifecycle.create().catch(() => undefined);
          if (made?.ok || made?.reason === "already-exists") return;
        }
    }
  }

  /** As PutObject: bytes before names. */
  async #put(branch: BranchApi, { path, text }: { path: string; text: string }): Promise<void> {
    const isSmall = this.texts.id(text).size <= INLINE_LIMIT_BYTES;
    const opened = isSmall ? undefined : await branch.uploads.open({});
    if (opened && !opened.ok) return;
    const content = await this.#content(text);
    await branch.files.put({ path, content, attributes: {}, ...(opened && { upload: opened.upload }) });
  }

  /** A text as a content: in a row, or with bytes that are in the store by now. */
  async #content(text: string): Promise<Content> {
    const id = this.texts.id(text);
    const bytes = new TextEncoder().encode(text);
    if (id.size <= INLINE_LIMIT_BYTES) return { ...id, body: { kind: "inline", bytes } };
    const blob = `b/${crypto.randomUUID()}`;
    await this.simulation.blobs.put(blob, bytes);
    return { ...id, body: { kind: "chunks", chunks: [{ blob, offset: 0, length: id.size, leaves: "" }] } };
  }

  async #commit(
    branch: BranchApi,
    { files, gone }: { files: readonly { path: string; text: string }[]; gone: readonly string[] },
  ): Promise<void> {
    const opened = await branch.uploads.open({});
    if (!opened.ok) return;
    const { upload } = opened;
    const contents: Content[] = [];
    for (const { text } of files) contents.push(await this.#content(text));
    const added = await branch.uploads.add({ upload, contents });
    if (!added.ok) return;
    const operations = [
      ...gone.map((path) => ({ delete: path })),
      ...files.map(({ path, text }) => ({ put: path, ...this.texts.id(text) })),
    ];
    await branch.files.commit({ upload, operations });
  }

  async #operate({ kind }: JobsStep, random: Random): Promise<void> {
    const plan = random.pick(this.pipelines);
    const pipeline = this.pipeline(plan.name);
    const noted = <T extends { readonly ok: boolean }>(work: () => Promise<T>) =>
      this.#noted({ kind, of: plan.name }, work);
    const isByHttp = random.chance(0.3);
    switch (kind) {
      case "update code":
      case "update settings":
      case "update terms":
      case "update inputs":
      case "update egress":
      case "update container":
      case "update skips": {
        const found = await pipeline.lifecycle.inspect();
        if (!found.ok) return;
        const spec = this.#changed(found.pipeline.spec, { kind, random });
        await noted(() => pipeline.specification.update({ spec, reprocess: false, limited: false }));
        return;
      }
      case "update in vain":
        this.failures.push(...(await updateInVain(this, { name: plan.name, random })));
        return;
      case "submit again": {
        const found = await pipeline.lifecycle.inspect();
        if (!found.ok) return;
        const other = random.chance(0.3) ? { outputBranch: "elsewhere" } : {};
        const spec = { ...found.pipeline.spec, ...other };
        const answer = await noted(() =>
          pipeline.specification.update({ spec, reprocess: false, limited: random.chance(0.5) }),
        );
        if (answer.ok && "outputBranch" in other)
          this.failures.push(`pipeline ${plan.name} changed its output`);
        return;
      }
      case "stop pipeline":
      case "start pipeline": {
        const call = kind === "stop pipeline" ? "stop" : "start";
        await noted(() =>
          isByHttp ? this.#http("POST", `/pipelines/${plan.name}/${call}`) : pipeline.lifecycle[call](),
        );
        return;
      }
      case "stop job":
      case "retry job":
      case "run all again":
        return await this.#askOfJob(kind, { name: plan.name, random });
      case "delete pipeline": {
        const keepOutput = random.chance(0.3);
        const path = `/pipelines/${plan.name}?force=true&keepOutput=${keepOutput}`;
        await noted(() =>
          isByHttp ? this.#http("DELETE", path) : pipeline.lifecycle.destroy({ keepOutput }),
        );
        if (random.chance(0.8)) await this.create(plan);
        return;
      }
      default:
        await this.create(plan);
    }
  }

  /** Somebody stops a job or has one tried again. */
  async #askOfJob(
    kind: "stop job" | "retry job" | "run all again",
    { name, random }: { name: string; random: Random },
  ): Promise<void> {
    const { jobs } = this.pipeline(name);
    const listed = (await jobs.list({ limit: 10 })).jobs;
    const isAny = kind !== "stop job" || random.chance(0.2);
    const some = isAny ? listed : listed.filter(({ finishedAt }) => finishedAt === null);
    if (some.length === 0) return;
    const { id } = random.pick(some);
    if (kind === "stop job") {
      await this.#noted({ kind, of: name, job: id }, () => jobs.stop(id));
      return;
    }
    const retry = { job: id, every: kind === "run all again", ...(random.chance(0.5) && { key: "k" }) };
    const ask = () => this.#noted({ kind, of: name }, () => jobs.retry(retry));
    const first = await ask();
    // As who has not heard the answer.
    const again = random.chance(0.4) ? await ask() : first;
    if (!first.ok || !again.ok || again.job.id === first.job.id) return;
    const made = await jobs.view(first.job.id);
    if (made?.finishedAt === null)
      this.failures.push(`the job ${made.id} was to be made by a retry, and so was ${again.job.id}`);
  }

  async #curate({ kind }: JobsStep, random: Random): Promise<void> {
    const { name } = random.pick(this.pipelines);
    const repo = kind.endsWith("input") ? random.pick(this.inputs) : name;
    const branch = this.branch(repo);
    switch (kind) {
      case "tag input":
      case "tag output": {
        const log = await branch.history.list({ limit: 20 });
        if (!log.ok || log.commits.length === 0) return;
        await branch.tags.create({ name: "seen", commit: random.pick(log.commits).id, force: true });
        return;
      }
      case "erase input":
      case "erase output": {
        const page = await branch.files.versions({ prefix: "", limit: 100 });
        const versions = page.ok
          ? page.entries.flatMap((each) => (each.kind === "version" ? [each] : []))
          : [];
        if (versions.length === 0) return;
        const { path, version } = random.pick(versions);
        const operation = { kind, of: repo, erased: [{ path, version }] };
        await this.#noted(operation, () =>
          eraseThroughForks((address) => this.branch(address.repo, address.branch), {
            address: { repo, branch: "master" },
            versions: [{ path, version }],
            forks: { mayErase: () => true },
          }),
        );
        return;
      }
      case "look":
        this.failures.push(...(await lookAt(this, { name, random })));
        return;
      case "plan update":
        this.failures.push(...(await planAt(this, { name, random })));
        return;
      case "keep output":
        this.#isKeptShort = true;
        await branch.settings.change({ keep: { commits: 1 + random.below(3) } });
        return;
      case "lose upload":
        return await this.#loseUpload(name, random);
      case "fence output": {
        const { uid, isThere } = this.rows(name);
        const to = random.chance(0.7) ? branch : this.branch(name, "errors");
        const status = await to.lifecycle.status();
        if (isThere && status.ok && status.claimedBy === name) await to.output.claim({ pipeline: name, uid });
        return;
      }
      case "tell again":
        await this.pipeline(name).admin.announce();
        return;
      case "ask for nothing": {
        const asked = random.chance(0.7) ? name : NEVER;
        this.failures.push(...(await askForNothing(this.pipeline(asked), { name: asked, random })));
        return;
      }
      default: {
        const { jobs } = await this.pipeline(name).jobs.list({ limit: 20 });
        if (jobs.length === 0) return;
        const { id } = random.pick(jobs);
        await this.pipeline(name).datums.list({ job: id, limit: 100, why: true });
        await this.pipeline(name).jobs.wait({ id, waitMs: random.next() * 5_000 });
      }
    }
  }

  async #lead({ kind }: JobsStep, random: Random): Promise<void> {
    const node = random.pick(NODES);
    const agent = this.agents.get(node);
    switch (kind) {
      case "kill node":
        agent?.die();
        await scheduler.wait(random.next() * 12_000);
        this.startNode(node);
        return;
      case "freeze node":
        if (agent) agent.frozenUntil = this.simulation.world.now + random.next() * 60_000;
        return;
      case "node leaves":
        if (agent) await leave(agent);
        this.startNode(node);
        return;
      default:
        await this.#http("POST", `/nodes/${node}/${kind === "drain node" ? "drain" : "resume"}`);
    }
  }

  /** Notes an operation from when it is asked for to its answer. */
  async #noted<T extends { readonly ok: boolean; readonly job?: string | { readonly id: string } }>(
    what: Pick<Operation, "kind" | "of" | "job" | "erased">,
    work: () => Promise<T>,
  ): Promise<T> {
    const never = { ended: Number.POSITIVE_INFINITY, endedAt: Number.POSITIVE_INFINITY };
    const operation: Operation = { ...what, begun: Date.now(), ...never, ok: false };
    this.operations.push(operation);
    const answer = await work();
    operation.ended = Date.now();
    operation.endedAt = this.simulation.world.now;
    operation.ok = answer.ok;
    if (typeof answer.job === "object") operation.job = answer.job.id;
    const reason = "reason" in answer ? String(answer.reason) : "refused";
    if (!answer.ok) operation.reason = reason;
    this.tally.add(`outcome ${what.kind}: ${answer.ok ? "done" : reason}`);
    return answer;
  }

  /** The same through the entry of the gateway. */
  async #http(method: "POST" | "DELETE", path: string): Promise<{ readonly ok: boolean }> {
    const { status } = await this.simulation.gateway.send({ method, path, level: "root" });
    return { ok: status < 300 };
  }

  /** A specification that an update changes: each of them is another version. */
  #changed(before: PipelineSpec, { kind, random }: { kind: UpdateKind; random: Random }): PipelineSpec {
    const version = ++this.#versions;
    const description = `version ${version}`;
    switch (kind) {
      case "update code":
        return { ...before, transform: { ...before.transform, cmd: [`${before.transform.cmd[0]}+`] } };
      case "update settings":
        return { ...before, datumTimeout: `${1000 + version}s` };
      case "update terms": {
        const { jobTimeout: _, ...kept } = before;
        return {
          ...{ ...kept, description },
          parallelism_spec: random.pick([
            { strategy: "CONSTANT", constant: 1 + random.below(3) },
            { strategy: "COEFFICIENT", coefficient: 1 },
          ]),
          ...(random.chance(0.3) && { jobTimeout: `${30 + random.below(60)}s` }),
        };
      }
      case "update container": {
        const { container, ...transform } = before.transform;
        return { ...before, transform: container ? transform : { ...transform, container: "required" } };
      }
      case "update skips":
        return { ...before, onDatumFailure: before.onDatumFailure === "skip" ? "fail" : "skip" };
      case "update egress": {
        const { egress: _, ...kept } = before;
        // No store is gone back to: nobody would take out of it what it has of before.
        const egress = { URL: `s3://outside/${version}` };
        return { ...kept, description, ...(random.chance(0.7) && { egress }) };
      }
      default:
        return { ...before, description, inputs: this.#changedInputs(before.inputs, random) };
    }
  }

  /** Somebody ends an upload that results or merges name: of what no file has, the bytes are gone, and it is done again. */
  async #loseUpload(name: string, random: Random): Promise<void> {
    const rows = this.rows(name);
    let uploads: readonly string[] = [];
    for (let looks = 0; looks < 20 && uploads.length === 0; looks++) {
      await scheduler.wait(random.next() * 500);
      uploads = rows.isThere ? rows.newUploads : [];
    }
    if (uploads.length === 0) return;
    const upload = random.pick(uploads);
    for (const key of rows.keysOf(upload)) this.redone.add(key);
    await this.branch(name).uploads.abort({ upload });
  }

  /** Other files of the same repos, those since another commit, or a repo more or less. */
  #changedInputs(before: PipelineSpec["inputs"], random: Random): PipelineSpec["inputs"] {
    const [first, ...others] = before;
    if (!first) return before;
    const glob = random.pick(GLOBS);
    switch (random.below(4)) {
      case 0:
      case 1:
        return [{ ...first, glob }, ...others];
      case 2: {
        const { from: _, ...whole } = first;
        const commits = this.recorder(first.repo.name).events.filter(({ kind }) => kind === "commit");
        const from = commits.length > 0 ? { repo: first.repo, ID: random.pick(commits).id } : undefined;
        return [{ ...whole, ...(from && random.chance(0.7) && { from }) }, ...others];
      }
      default: {
        if (others.length > 0) return [first];
        const repo = { name: random.pick(this.inputs) };
        return [first, { name: "second", repo, branch: "master", glob: "/*", lazy: random.chance(0.5) }];
      }
    }
  }

  spec({ name, inputs, skips }: PipelinePlan): PipelineSpec {
    return PipelineSpec.parse({
      pipeline: { name },
      transform: { image: "none", cmd: ["v"] },
      inputs: inputs.map(({ repo, glob }) => ({ repo: { name: repo }, glob })),
      datumTries: TRIES,
      ...(skips && { onDatumFailure: "skip" }),
    });
  }
}

type UpdateKind = Extract<JobsStep["kind"], `update ${string}`>;

/** Waits until an agent has left in good order. */
export async function leave(agent: Agent): Promise<void> {
  agent.frozenUntil = 0;
  const left = Promise.withResolvers<void>();
  agent.leaving(left.resolve);
  await left.promise;
  agent.die();
}
