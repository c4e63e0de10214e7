import { expect } from "vitest";
import { type Job, JobPage } from "../../../../protocol/pipelines.ts";
import type { Tree } from "../../../simulator/history/states.ts";
import { Control } from "../../../support/control.ts";
import { eventually } from "../../../support/eventually.ts";
import { inTurns } from "../../../support/in-turns.ts";
import type { Door } from "../../../support/keys.ts";
import { objectTarget, S3 } from "../../../support/s3.ts";
import { contentOf } from "./contents.ts";
import type { History } from "./history.ts";
import { Life } from "./life.ts";
import type { Load, Work } from "./load.ts";
import { listed, putAt, removeAt } from "./works/files.ts";

const REPO = "in";
/** One reads what the other makes. */
const PIPELINES = ["first", "second"] as const;
const KEYS = ["file-0", "file-1", "file-2", "file-3", "file-4"];
const SIZE = 900;
/** Commits that clients ask for until the log is read: as many jobs as runners that die can run meanwhile. */
const MOST_COMMITS = 6;
/** How long jobs may take that wait for leases of runners that are gone. */
const WITHIN_MS = 120_000;

/** Each file with a line before it: the naive computation of both pipelines. */
function computed(pipeline: string, bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${pipeline}\n`), bytes]);
}

function specOf(pipeline: string, repo: string): object {
  const script = `for f in /pfs/${repo}/*; do { echo ${pipeline}; cat "$f"; } > "/pfs/out/\${f##*/}"; done`;
  return {
    pipeline: { name: pipeline },
    transform: { image: "busybox", cmd: ["sh", "-e"], stdin: [script] },
    inputs: [{ repo: { name: repo }, glob: "/*" }],
  };
}

/** Two pipelines, one behind the other, whose input clients write to; and what their jobs must have made. */
export class Jobs {
  readonly #history: History;
  readonly #control: Control;
  readonly #s3: S3;
  readonly #input = new Life({ repo: REPO, branch: "master" }, { mostCommits: MOST_COMMITS });
  readonly #ended = new Map<string, Map<string, Job>>(PIPELINES.map((name) => [name, new Map()]));
  /** Of each commit that a pipeline read or made, what must be in it. */
  readonly #trees = new Map<string, Tree>();
  readonly #bytes = new Map<string, Buffer>();

  constructor(door: Door, history: History) {
    this.#history = history;
    this.#control = new Control(door);
    this.#s3 = new S3(door);
  }

  get count(): number {
    return PIPELINES.reduce((sum, name) => sum + (this.#ended.get(name)?.size ?? 0), 0);
  }

  /** Writes to the input of the first pipeline. */
  readonly work: Work = async (load) => {
    const life = this.#input;
    if (load.random() < 0.7 || !life.admits()) return;
    const key = load.oneOf(KEYS);
    await (load.random() < 0.8 ? putAt(load, { life, key, size: SIZE }) : removeAt(load, { life, key }));
  };

  async begin(load: Load): Promise<void> {
    await this.#s3.createBucket(this.#input.bucket);
    await load.add(this.#input);
    for (const [n, name] of PIPELINES.entries())
      await this.#control.createPipeline(specOf(name, PIPELINES[n - 1] ?? REPO));
  }

  /** Holds the jobs that have ended since the last time to the naive computation. The log of the input was read. */
  async look(): Promise<void> {
    for (const commit of this.#input.log.keys()) {
      const state = this.#input.stateOf(commit);
      if (!state || this.#trees.has(commit)) continue;
      this.#trees.set(commit, state.tree);
      for (const [path, digest] of state.tree) await this.#readInput({ commit, path, digest });
    }
    for (const name of PIPELINES) {
      const known = this.#ended.get(name) ?? new Map();
      for (const job of await this.#newJobs(name, known)) {
        const tree = this.#trees.get(job.inputs[0]?.commit ?? "");
        // The job that made its input may have ended since its pipeline was asked, and is looked at the next time.
        if (job.finishedAt === null || !tree) break;
        const before = [...known.values()].at(-1);
        known.set(job.id, job);
        this.#history.faults.push(...(await this.#faultsOf(job, { input: tree, before })));
      }
    }
  }

  /** All jobs come to their end: each commit of an input has made one, in their order. */
  async settle(): Promise<void> {
    let commits = [...this.#input.log.keys()];
    for (const name of PIPELINES) {
      await eventually(
        `${commits.length} jobs of ${name} have ended`,
        async () => {
          await this.look();
          const ended = this.#ended.get(name)?.size;
          if (ended !== commits.length) throw new Error(`${ended} of known commits have ended`);
          return true;
        },
        { withinMs: WITHIN_MS },
      );
      const jobs = [...(this.#ended.get(name)?.values() ?? [])];
      expect(jobs.map(({ inputs }) => inputs[0]?.commit)).toEqual(commits);
      commits = jobs.map(({ outputCommit }) => outputCommit ?? "none");
      expect(new Set(commits).size).toBe(commits.length);
      // There was no other commit after that of the last job.
      if (commits.length > 0) expect(await this.#s3.headCommit(`master.${name}`)).toBe(commits.at(-1));
    }
  }

  async end(): Promise<void> {
    for (const name of [...PIPELINES].reverse()) await this.#control.deletePipeline(name);
  }

  /** Whether it is what was written, those who read the log have seen. */
  async #readInput({
    commit,
    path,
    digest,
  }: {
    commit: string;
    path: string;
    digest: string;
  }): Promise<void> {
    if (this.#bytes.has(digest)) return;
    const target = `${objectTarget(this.#input.bucket, path)}?versionId=${commit}`;
    this.#bytes.set(digest, (await this.#s3.ask("GET", target)).body);
  }

  /** Oldest first. */
  async #newJobs(pipeline: string, known: ReadonlyMap<string, Job>): Promise<Job[]> {
    const newestFirst: Job[] = [];
    for (let after: string | null = ""; after !== null; ) {
      const from: string = after === "" ? "" : `&after=${encodeURIComponent(after)}`;
      const path = `/jobs?pipeline=${pipeline}&limit=100${from}`;
      const page: JobPage = await this.#control.call("GET", path, { answers: JobPage });
      newestFirst.push(...page.jobs.filter(({ id }) => !known.has(id)));
      after = page.jobs.some(({ id }) => known.has(id)) ? null : page.next;
    }
    return newestFirst.reverse();
  }

  async #faultsOf(job: Job, { input, before }: { input: Tree; before: Job | undefined }): Promise<string[]> {
    const name = `job ${job.id} of ${job.pipeline}`;
    if (job.state !== "success" || job.outputCommit === null) return [`${name} is ${JSON.stringify(job)}`];
    const read = before && this.#trees.get(before.inputs[0]?.commit ?? "");
    const fresh = [...input].filter(([path, digest]) => read?.get(path) !== digest);
    const datums = {
      total: input.size,
      processed: fresh.length,
      skipped: input.size - fresh.length,
      failed: 0,
    };
    const faults: string[] = [];
    if (JSON.stringify(job.datums) !== JSON.stringify(datums))
      faults.push(`${name} has the datums ${JSON.stringify(job.datums)}, not ${JSON.stringify(datums)}`);
    const tree = new Map([...input].map(([path, digest]) => [path, this.#computedOf(job.pipeline, digest)]));
    this.#trees.set(job.outputCommit, tree);
    return [...faults, ...(await this.#outputFaults(job, tree))];
  }

  async #outputFaults({ pipeline, outputCommit }: Job, tree: Tree): Promise<string[]> {
    const bucket = `master.${pipeline}`;
    const view = await this.#s3.ask("GET", `/${outputCommit?.toLowerCase()}.${bucket}?list-type=2`);
    const found = listed(view.text);
    const faults: string[] = [];
    if (JSON.stringify([...found]) !== JSON.stringify([...tree].sort()))
      faults.push(
        `${bucket}: ${outputCommit} has ${view.status} ${view.text}, not ${JSON.stringify([...tree])}`,
      );
    await inTurns([...tree], async ([path, digest]) => {
      const answer = await this.#s3.ask("GET", `${objectTarget(bucket, path)}?versionId=${outputCommit}`);
      if (!this.#bytes.get(digest)?.equals(answer.body))
        faults.push(`${bucket}: ${path} of ${outputCommit} is ${answer.status} ${answer.text.slice(0, 200)}`);
    });
    return faults;
  }

  #computedOf(pipeline: string, digest: string): string {
    const bytes = this.#bytes.get(digest) ?? Buffer.alloc(0);
    const made = contentOf(computed(pipeline, bytes));
    this.#bytes.set(made.digest, made.bytes);
    return made.digest;
  }
}
