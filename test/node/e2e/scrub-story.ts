import { randomUUID } from "node:crypto";
import { z } from "zod";
import { CommitPage } from "../../../protocol/commits.ts";
import { FileErased } from "../../../protocol/files.ts";
import { Control } from "../../support/control.ts";
import { eventually } from "../../support/eventually.ts";
import { FakeRunner, smallOutput, succeeded } from "../../support/fake-runner.ts";
import { signedExchange } from "../../support/http.ts";
import type { Door } from "../../support/keys.ts";
import { objectTarget, S3 } from "../../support/s3.ts";

/** A text that is nowhere else. */
function secret(what: string): string {
  return `${what}-${randomUUID()}`;
}

/**
 * What somebody put and then wants gone from everywhere: a small file with its name and its metadata, what a commit said, the
 * copy in a fork, and what a pipeline made of it and printed.
 */
export class ScrubStory {
  readonly bytes = secret("bytes");
  readonly name = secret("name");
  readonly meta = secret("meta");
  readonly message = secret("message");
  readonly outputName = secret("output");
  readonly outputBytes = secret("made");
  readonly #repo: string;
  readonly #door: Door;
  readonly #s3: S3;
  readonly #control: Control;

  constructor(door: Door, { repo }: { repo: string }) {
    this.#door = door;
    this.#repo = repo;
    this.#s3 = new S3(door);
    this.#control = new Control(door);
  }

  /** All that must be found nowhere in the end. */
  get secrets(): string[] {
    return [this.bytes, this.name, this.meta, this.message, this.outputName, this.outputBytes];
  }

  get #bucket(): string {
    return `master.${this.#repo}`;
  }

  get #pipeline(): string {
    return `${this.#repo}-lines`;
  }

  /** Puts the file, and says something of its commit. */
  async put(): Promise<void> {
    await this.#s3.createBucket(this.#bucket);
    const headers = {
      "x-amz-meta-of": this.meta,
      "x-sluice-commit-message": this.message,
      "content-type": `text/${this.meta}`,
    };
    const body = this.bytes.padEnd(3000, this.bytes);
    const target = objectTarget(this.#bucket, this.name);
    const put = await signedExchange(this.#door, { method: "PUT", target, headers, body });
    if (put.status !== 200) throw new Error(put.text);
  }

  /** Erases the file, in forks too, and redacts its commit. */
  async eraseFile(): Promise<void> {
    const page = await this.#control.call("GET", `${this.#branch}/commits`, { answers: CommitPage });
    const said = page.commits.find(({ message }) => message === this.message);
    await this.#erase(this.#repo, this.name);
    await this.#control.call("POST", `${this.#branch}/commits/${said?.id}/redact`, { answers: z.unknown() });
  }

  /** Puts it, forks the branch, and has a pipeline make something of it. */
  async tell(): Promise<void> {
    await this.put();
    await this.#control.createPipeline({
      pipeline: { name: this.#pipeline },
      transform: { image: "ignored:1", cmd: ["true"] },
      parallelism_spec: { strategy: "CONSTANT", constant: 1 },
      inputs: [{ repo: { name: this.#repo }, glob: "/*" }],
    });
    await this.#run({ [this.outputName]: this.outputBytes.padEnd(2000, this.outputBytes) });
    const fork = { name: "fork", from: { repo: this.#repo, branch: "master" } };
    await this.#control.call("POST", `/repos/${this.#repo}/branches`, { body: fork, answers: z.unknown() });
    await this.#s3.put(this.#bucket, "kept", "kept");
    await this.#run({ kept: "kept" });
  }

  /** Erases it everywhere, redacts the commit, and has the pipeline do so many more jobs. */
  async erase({ jobs }: { jobs: number }): Promise<void> {
    await this.eraseFile();
    await this.#erase(this.#pipeline, this.outputName);
    for (let job = 1; job <= jobs; job++) {
      const kept = `kept ${job}`;
      await this.#s3.put(this.#bucket, "kept", kept);
      await this.#run({ kept });
      await eventually(`the job of '${kept}' ended`, async () => (await this.#made()) === kept);
    }
  }

  /** What is to be there, whatever was erased. */
  async verify({ jobs }: { jobs: number }): Promise<void> {
    for (const bucket of [this.#bucket, `fork.${this.#repo}`, `master.${this.#pipeline}`]) {
      const keys = await this.#s3.keys(bucket);
      if (keys.some((key) => this.secrets.includes(key))) throw new Error(`${bucket} has ${keys}`);
    }
    const kept = String(await this.#s3.get(this.#bucket, "kept"));
    const made = await this.#made();
    if (kept !== `kept ${jobs}` || made !== `kept ${jobs}`) throw new Error(`kept: ${kept}, made: ${made}`);
  }

  async #made(): Promise<string> {
    return String(await this.#s3.get(`master.${this.#pipeline}`, "kept"));
  }

  get #branch(): string {
    return `/repos/${this.#repo}/branches/master`;
  }

  async #erase(repo: string, path: string): Promise<void> {
    const { erased } = await this.#control.call("POST", `/repos/${repo}/branches/master/erasures`, {
      body: { path, allVersions: true, forks: true },
      answers: FileErased,
    });
    if (erased.length === 0) throw new Error(`nothing of ${path} was erased`);
  }

  /** Runs the next datum, which prints what it reads. */
  async #run(outputs: Readonly<Record<string, string>>): Promise<void> {
    const runner = new FakeRunner(this.#door, { node: this.#repo });
    await runner.heartbeat();
    for (;;) {
      const { datums } = await runner.lease(this.#pipeline);
      const [datum] = datums;
      if (!datum) continue;
      const lines = datum.inputs.map(({ path }) => `${path}: ${this.bytes}`);
      if (datum.inputs.some(({ path }) => path === this.name)) {
        await runner.print(this.#pipeline, { lease: datum.lease, seq: 0, lines });
      }
      const files = Object.entries(outputs).map(([path, text]) => smallOutput(path, text));
      await runner.finish(this.#pipeline, [succeeded(datum, files)]);
      return;
    }
  }
}
