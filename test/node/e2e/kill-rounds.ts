import { setTimeout as pause } from "node:timers/promises";
import { expect } from "vitest";
import type { LeasedDatum, Output } from "../../../protocol/runner.ts";
import { Control } from "../../support/control.ts";
import { FakeRunner, smallOutput, succeeded } from "../../support/fake-runner.ts";
import { isGone } from "../../support/http.ts";
import type { Door } from "../../support/keys.ts";
import { S3 } from "../../support/s3.ts";

/** Commits that a round makes at most. */
const COMMITS = 8;

/**
 * One round of a gateway's life: two pipelines, one behind the other, commits to the first, and a runner for both.
 * Whoever meets a gateway that is gone asks again what may be asked again; a commit may not, it counts if it was
 * acknowledged.
 */
export class KillRound {
  readonly #s3: S3;
  readonly #control: Control;
  readonly #runner: FakeRunner;
  readonly #repo: string;
  readonly #pipelines: readonly [string, string];
  readonly #acknowledged: string[] = [];
  readonly #random: () => number;

  constructor(door: Door, { number, random }: { number: number; random: () => number }) {
    this.#s3 = new S3(door);
    this.#control = new Control(door);
    this.#runner = new FakeRunner(door, { node: `node-${number}` });
    this.#repo = `in-${number}`;
    this.#pipelines = [`first-${number}`, `second-${number}`];
    this.#random = random;
  }

  /** Creates everything, as often as it takes. */
  async create(): Promise<void> {
    const [first, second] = this.#pipelines;
    await again(async () => this.#s3.ask("PUT", `/master.${this.#repo}`));
    for (const spec of [copySpec(first, this.#repo), copySpec(second, first)]) {
      await again(async () => {
        const { status, text } = await this.#control.ask("POST", "/pipelines", spec);
        // Killed before it answered, it was made all the same.
        if (status !== 201 && status !== 409) throw new Error(`${status} ${text}`);
      });
    }
  }

  /** Commits one file after the other until the gateway is gone. */
  async write(): Promise<void> {
    await untilGone(async () => {
      for (let n = 0; n < COMMITS; n++) {
        const key = `file-${n}`;
        await this.#s3.put(`master.${this.#repo}`, key, key);
        this.#acknowledged.push(key);
        await pause(this.#random() * 30);
      }
    });
  }

  /** Runs the datums of both pipelines until the gateway is gone, or it is told to stop. */
  async work(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#pipelines.map((name) => untilGone(() => this.#workOn(name, signal))));
  }

  /** Runs what is left, and holds the gateway to what it promised. */
  async finish(): Promise<void> {
    const keys = await this.#s3.keys(`master.${this.#repo}`);
    expect(keys).toEqual(expect.arrayContaining(this.#acknowledged));
    if (keys.length === 0) return;
    const stop = new AbortController();
    const working = this.work(stop.signal);
    for (const pipeline of this.#pipelines) await this.#verify(pipeline, keys);
    stop.abort();
    await working;
  }

  /** Each file came with a commit of its own: each has one job, and each job one commit and one new datum. */
  async #verify(pipeline: string, keys: readonly string[]): Promise<void> {
    const jobs = await this.#control.ended(pipeline, { count: keys.length, withinMs: 240_000 });
    expect(new Set(jobs.map(({ state, reason }) => reason ?? state))).toEqual(new Set(["success"]));
    expect(jobs.map(({ datums }) => datums)).toEqual(
      keys.map((_, n) => ({ total: n + 1, processed: 1, skipped: n, failed: 0 })),
    );
    for (const ids of [
      jobs.map(({ inputs }) => inputs[0]?.commit),
      jobs.map(({ outputCommit }) => outputCommit),
    ]) {
      expect(new Set(ids).size).toBe(keys.length);
    }
    const bucket = `master.${pipeline}`;
    expect(await this.#s3.keys(bucket)).toEqual(keys);
    for (const key of keys) expect((await this.#s3.get(bucket, key))?.toString()).toBe(textOf(pipeline, key));
    expect(await this.#s3.headCommit(bucket)).toBe(jobs.at(-1)?.outputCommit);
  }

  async #workOn(pipeline: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const { datums } = await this.#runner.lease(pipeline, { max: 2, signal });
      if (datums.length === 0) continue;
      const outcomes = datums.map((datum) => succeeded(datum, [outputOf(pipeline, datum)]));
      // What was lost, somebody else reports.
      await this.#runner.finish(pipeline, outcomes);
    }
  }
}

function copySpec(name: string, repo: string): object {
  return {
    pipeline: { name },
    transform: { image: "busybox", cmd: ["true"] },
    parallelism_spec: { strategy: "CONSTANT", constant: 1 },
    inputs: [{ name: "in", repo: { name: repo }, glob: "/*" }],
  };
}

function outputOf(pipeline: string, { inputs }: LeasedDatum): Output {
  const path = inputs[0]?.path ?? "";
  return smallOutput(path, textOf(pipeline, path));
}

function textOf(pipeline: string, path: string): string {
  return `${pipeline} made this of ${path}`;
}

async function untilGone(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!isGone(error) && !(error instanceof Error && error.name === "AbortError")) throw error;
  }
}

async function again(work: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await work();
      return;
    } catch (error) {
      if (!isGone(error)) throw error;
      await pause(20);
    }
  }
}
