import { expect } from "vitest";
import { CommitPage } from "../../../protocol/commits.ts";
import { DatumPage, type Job, type JobDatum } from "../../../protocol/pipelines.ts";
import type { Control } from "../control.ts";
import { seededRandom } from "../random.ts";
import type { S3 } from "../s3.ts";
import { commitFiles } from "./many-files.ts";

/** Every so many files one is too large for a row, and goes by the blob store and the cache. */
const LARGE_EVERY = 40;
const SMALL_BYTES = 100;
const LARGE_BYTES = 200_000;

export interface WorkloadOptions {
  readonly s3: S3;
  readonly control: Control;
  /** Datums of the first job. */
  readonly datums: number;
  /** How long each of them takes at least. */
  readonly seconds: number;
  readonly image: string;
  readonly workers: number;
}

/**
 * Files, and two pipelines of which everything is known beforehand. `upper` writes each file in capitals, and its name
 * to one of ten lists that many datums share; `count` counts the lines of each list.
 */
export class Workload {
  readonly #options: WorkloadOptions;
  readonly #files = new Map<string, Buffer>();

  constructor(options: WorkloadOptions) {
    this.#options = options;
  }

  /** Makes the pipelines and commits the files; answers the job of `upper`. */
  async begin(): Promise<Job> {
    const { s3, control, datums, seconds, image, workers } = this.#options;
    await s3.createBucket("master.in");
    await control.createPipeline({
      pipeline: { name: "upper" },
      transform: { image, cmd: ["sh", "-e"], stdin: upper(seconds) },
      parallelism_spec: { strategy: "CONSTANT", constant: workers },
      inputs: [{ repo: { name: "in" }, glob: "/*" }],
    });
    await control.createPipeline({
      pipeline: { name: "count" },
      transform: { image, cmd: ["sh", "-e"], stdin: ["wc -l < $upper > /pfs/out/$(basename $upper)"] },
      parallelism_spec: { strategy: "CONSTANT", constant: 2 },
      inputs: [{ repo: { name: "upper" }, glob: "/lists/*" }],
    });
    for (let number = 0; number < datums; number++) this.#addFile(number);
    await commitFiles(control, { repo: "in", files: this.#files });
    const [job] = await control.jobs("upper");
    if (!job) throw new Error("the commit made no job");
    return job;
  }

  /** Both pipelines ended right, everything was done once, and the outputs are what they must be. */
  async verify(): Promise<void> {
    const { control, datums, s3 } = this.#options;
    const once = { total: datums, processed: datums, skipped: 0, failed: 0 };
    const [upper] = await control.ended("upper", { count: 1, withinMs: 120_000 });
    expect(upper).toMatchObject({ state: "success", reason: null, datums: once });
    const [count] = await control.ended("count", { count: 1, withinMs: 120_000 });
    const lists = Math.min(10, datums);
    expect(count).toMatchObject({
      state: "success",
      datums: { total: lists, processed: lists, skipped: 0, failed: 0 },
    });
    for (const job of [upper, count]) await this.#expectOneCommit(job);

    const ran = await datumsOf(control, upper?.id ?? "");
    expect(ran.map(({ inputs }) => inputs[0]?.path).toSorted()).toEqual([...this.#files.keys()].toSorted());
    expect(new Set(ran.map(({ id }) => id)).size).toBe(datums);
    // A fault of a node is none of the datum's.
    expect(ran.filter(({ state, tries }) => state !== "success" || tries > 0)).toEqual([]);
    await this.#expectOutputs();
    expect(await s3.keys("master.count")).toHaveLength(lists);
  }

  /** One more file costs one more datum. */
  async addOne(): Promise<void> {
    const { control, datums } = this.#options;
    const name = this.#addFile(datums);
    await commitFiles(control, { repo: "in", files: new Map([[name, this.#files.get(name) as Buffer]]) });
    const jobs = await control.ended("upper", { count: 2, withinMs: 120_000 });
    expect(jobs[1]).toMatchObject({
      state: "success",
      datums: { total: datums + 1, processed: 1, skipped: datums, failed: 0 },
    });
    await this.#expectOutputs();
  }

  #addFile(number: number): string {
    const name = `file-${String(number).padStart(5, "0")}`;
    const size = number % LARGE_EVERY === 0 ? LARGE_BYTES : SMALL_BYTES;
    this.#files.set(name, letters(size, number));
    return name;
  }

  async #expectOneCommit({ pipeline, id, outputCommit }: Job | undefined = never()): Promise<void> {
    const { control } = this.#options;
    const path = `/repos/${pipeline}/branches/master/commits`;
    const { commits } = await control.call("GET", path, { answers: CommitPage });
    expect(commits.map((commit) => [commit.id, commit.job])).toEqual([[outputCommit, id]]);
  }

  async #expectOutputs(): Promise<void> {
    const { s3 } = this.#options;
    const expected = outputsOf(this.#files);
    expect(await s3.keys("master.upper")).toEqual([...expected.keys()].toSorted());
    const wrong: string[] = [];
    const left = [...expected];
    const compare = async (): Promise<void> => {
      for (let next = left.pop(); next; next = left.pop()) {
        const [key, bytes] = next;
        if (!(await s3.get("master.upper", key))?.equals(bytes)) wrong.push(key);
      }
    };
    await Promise.all(Array.from({ length: 8 }, compare));
    expect(wrong).toEqual([]);
  }
}

/** What runs takes a while, so that faults hit it. */
function upper(seconds: number): string[] {
  return [
    "name=$(basename $in)",
    "mkdir /pfs/out/files /pfs/out/lists",
    `sleep ${seconds}`,
    "tr a-z A-Z < $in > /pfs/out/files/$name",
    "echo $name > /pfs/out/lists/$(echo $name | tail -c 2)",
  ];
}

/** The output branch after a job over these files: what datums share is put together in the order of their keys. */
function outputsOf(files: ReadonlyMap<string, Buffer>): Map<string, Buffer> {
  const outputs = new Map<string, Buffer>();
  for (const name of [...files.keys()].toSorted()) {
    const list = `lists/${name.at(-1)}`;
    outputs.set(`files/${name}`, Buffer.from(String(files.get(name)).toUpperCase()));
    outputs.set(list, Buffer.concat([outputs.get(list) ?? Buffer.alloc(0), Buffer.from(`${name}\n`)]));
  }
  return outputs;
}

function letters(size: number, seed: number): Buffer {
  const random = seededRandom(seed);
  return Buffer.from(Array.from({ length: size }, () => 97 + Math.floor(random() * 26)));
}

async function datumsOf(control: Control, job: string): Promise<JobDatum[]> {
  const datums: JobDatum[] = [];
  let after: string | null = "";
  while (after !== null) {
    const from: string = after === "" ? "" : `&after=${encodeURIComponent(after)}`;
    const path = `/jobs/${job}/datums?limit=1000${from}`;
    const page: DatumPage = await control.call("GET", path, { answers: DatumPage });
    datums.push(...page.datums);
    after = page.next;
  }
  return datums;
}

function never(): never {
  throw new Error("there is no such job");
}
