import { JobPage } from "../../../protocol/pipelines.ts";
import { Control } from "../control.ts";
import { eventually } from "../eventually.ts";
import type { Answer } from "../http.ts";
import type { Door } from "../keys.ts";
import { S3 } from "../s3.ts";
import { type Operation, Surprise, same } from "./operations.ts";

const KEYS = 12;
const PATIENCE = { withinMs: 300_000 };

export interface PipelinesOptions {
  readonly door: Door;
  /** The pipeline's name; its input is the repo `<name>-in`. */
  readonly name: string;
  readonly random: () => number;
}

/**
 * One pipeline that comes, changes, stops, starts and goes, over an input that changes meanwhile. Its output follows
 * from the input and the version of its command alone, so that in the end everything about it is known.
 */
export class Pipelines {
  readonly operations: readonly Operation[];
  readonly #options: PipelinesOptions;
  readonly #control: Control;
  readonly #s3: S3;
  readonly #input: string;
  readonly #files = new Map<string, string>();
  #state: "absent" | "running" | "stopped" = "absent";
  #version = 0;
  #texts = 0;

  constructor(options: PipelinesOptions) {
    this.#options = options;
    this.#control = new Control(options.door);
    this.#s3 = new S3(options.door);
    this.#input = `master.${options.name}-in`;
    this.operations = [
      { name: "commit", weight: 20, act: () => this.#commit() },
      { name: "uncommit", weight: 4, act: () => this.#uncommit() },
      { name: "create", weight: 2, act: () => this.#create() },
      { name: "update", weight: 2, act: () => this.#update() },
      { name: "stop", weight: 1.5, act: () => this.#order("stop", "stopped") },
      { name: "start", weight: 3, act: () => this.#order("start", "running") },
      { name: "stop-job", weight: 2, act: () => this.#stopJob() },
      { name: "delete-pipeline", weight: 0.5, act: () => this.#delete() },
    ];
  }

  async begin(): Promise<void> {
    await this.#s3.createBucket(this.#input);
    await this.#commit();
  }

  /** Nothing is stuck: every job has ended, and one more commit brings the output to what input and command say. */
  async verify(): Promise<void> {
    if (this.#state === "absent") await this.#create();
    if (this.#state === "stopped") await this.#order("start", "running");
    await this.#update();
    await this.#commit();
    const { name } = this.#options;
    await eventually(`every job of ${name} has ended, the last one well`, () => this.#isAtRest(), PATIENCE);
    for (const { id, finishedAt } of await this.#control.jobs(name)) {
      same(`job ${id} of ${name} has ended`, { found: finishedAt !== null, expected: true });
    }
    const found = await Promise.all(
      (await this.#s3.keys(`master.${name}`)).map(async (key) => {
        return [key, (await this.#s3.get(`master.${name}`, key))?.toString()];
      }),
    );
    const expected = [...this.#files].map(([key, text]) => [key, `version ${this.#version}\n${text}`]);
    same(`the output of ${name}`, { found, expected: expected.toSorted() });
  }

  async #isAtRest(): Promise<boolean> {
    const job = await this.#newestJob();
    if (job?.state === "failure") throw new Surprise(`job ${job.id} failed: ${job.reason}`);
    return job?.state === "success" && job.inputs[0]?.commit === (await this.#s3.headCommit(this.#input));
  }

  async #commit(): Promise<void> {
    const key = `file-${Math.floor(this.#options.random() * KEYS)}`;
    this.#texts += 1;
    const text = `text ${this.#texts}\n`;
    await this.#s3.put(this.#input, key, text);
    this.#files.set(key, text);
  }

  async #uncommit(): Promise<void> {
    const key = `file-${Math.floor(this.#options.random() * KEYS)}`;
    await this.#s3.delete(this.#input, key);
    this.#files.delete(key);
  }

  /** One of that name that is there is refused; the name of one that was deleted is free when all of it is gone. */
  async #create(): Promise<void> {
    if (this.#state !== "absent") {
      const { status } = await this.#control.ask("POST", "/pipelines", this.#spec());
      return same(`a second creation of ${this.#options.name}`, { found: status, expected: 409 });
    }
    this.#version += 1;
    const create = async (): Promise<boolean> => {
      const answer = await this.#control.ask("POST", "/pipelines", this.#spec());
      if (answer.status !== 409) this.#good(answer, 201);
      return answer.status === 201;
    };
    await eventually(`${this.#options.name} is created`, create, PATIENCE);
    this.#state = "running";
  }

  async #update(): Promise<void> {
    if (this.#state === "absent") return this.#commit();
    this.#version += 1;
    const query = "?update=true&reprocess=true";
    this.#good(await this.#control.ask("POST", `/pipelines${query}`, this.#spec()), 200);
  }

  async #order(order: "stop" | "start", state: "stopped" | "running"): Promise<void> {
    const answer = await this.#control.ask("POST", `/pipelines/${this.#options.name}/${order}`);
    if (this.#state === "absent") {
      return same(`${order} of a pipeline that is not there`, { found: answer.status, expected: 404 });
    }
    this.#good(answer, 200);
    this.#state = state;
  }

  /** The job may end meanwhile: then there is nothing to stop. */
  async #stopJob(): Promise<void> {
    const job = await this.#newestJob();
    if (!job) return this.#commit();
    const answer = await this.#control.ask("POST", `/jobs/${job.id}/stop`);
    if (answer.status !== 409) this.#good(answer, 200);
  }

  async #delete(): Promise<void> {
    const answer = await this.#control.ask("DELETE", `/pipelines/${this.#options.name}`);
    if (this.#state === "absent") {
      return same("deletion of a pipeline that is not there", { found: answer.status, expected: 404 });
    }
    if (answer.status >= 300) throw new Surprise(`DELETE answered ${answer.status}: ${answer.text}`);
    this.#state = "absent";
  }

  async #newestJob(): Promise<JobPage["jobs"][number] | undefined> {
    const path = `/jobs?pipeline=${this.#options.name}&limit=1`;
    return (await this.#control.call("GET", path, { answers: JobPage })).jobs[0];
  }

  #good(answer: Answer, status: number): void {
    if (answer.status !== status) {
      throw new Surprise(`expected ${status}, got ${answer.status}: ${answer.text}`);
    }
  }

  #spec(): unknown {
    const { name } = this.#options;
    const stdin = [`{ echo version ${this.#version}; cat $in; } > /pfs/out/$(basename $in)`];
    return {
      pipeline: { name },
      transform: { image: "busybox", cmd: ["sh", "-e"], stdin },
      parallelism_spec: { strategy: "CONSTANT", constant: 1 },
      inputs: [{ name: "in", repo: { name: `${name}-in` }, glob: "/*" }],
    };
  }
}
