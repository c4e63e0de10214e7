import { createHash } from "node:crypto";
import type { z } from "zod";
import {
  Assignment,
  Finished,
  Lease,
  type LeasedDatum,
  type Outcome,
  type Output,
} from "../../protocol/runner.ts";
import { Control } from "./control.ts";
import type { Door } from "./keys.ts";

type Leased = z.infer<typeof Lease>;

/** A runner that speaks the wire and runs nothing: what a datum "does" is a function of the test. */
export class FakeRunner {
  readonly #control: Control;
  readonly #node: string;

  constructor(door: Door, { node }: { node: string }) {
    this.#control = new Control(door);
    this.#node = node;
  }

  get #worker(): string {
    return `${this.#node}/0`;
  }

  heartbeat(): Promise<z.infer<typeof Assignment>> {
    const body = { node: this.#node, executor: "fake", capacity: 1 };
    return this.#control.call("POST", "/runner/heartbeat", { body, answers: Assignment });
  }

  lease(pipeline: string, { max = 1, signal }: { max?: number; signal?: AbortSignal } = {}): Promise<Leased> {
    const body = { pipeline, node: this.#node, worker: this.#worker, max };
    return this.#control.call("POST", "/runner/lease", {
      body,
      answers: Lease,
      ...(signal ? { signal } : {}),
    });
  }

  /** Reports outcomes; answers the leases that were lost before. */
  async finish(pipeline: string, outcomes: readonly Outcome[]): Promise<string[]> {
    const body = { pipeline, worker: this.#worker, outcomes };
    return (await this.#control.call("POST", "/runner/finish", { body, answers: Finished })).lost;
  }

  /** Leases and finishes until `count` datums of a pipeline are done; answers them in the order of their leases. */
  async work(pipeline: string, { count, outputs = namesAsOutput }: Work): Promise<LeasedDatum[]> {
    const done: LeasedDatum[] = [];
    await this.heartbeat();
    while (done.length < count) {
      const { datums } = await this.lease(pipeline, { max: Math.min(8, count - done.length) });
      if (datums.length === 0) continue;
      const lost = await this.finish(
        pipeline,
        datums.map((datum) => succeeded(datum, outputs(datum))),
      );
      if (lost.length > 0) throw new Error(`leases lost: ${lost.join(", ")}`);
      done.push(...datums);
    }
    return done;
  }
}

interface Work {
  readonly count: number;
  readonly outputs?: (datum: LeasedDatum) => readonly Output[];
}

/** The outcome of a datum that went well. */
export function succeeded({ lease }: LeasedDatum, outputs: readonly Output[]): Outcome {
  return { lease, state: "success", exitCode: 0, outputs: [...outputs], millis: 1 };
}

/** A small file in `/pfs/out`. */
export function smallOutput(path: string, text: string): Output {
  const bytes = Buffer.from(text);
  const digest = createHash("sha256").update(bytes).digest("hex");
  return { path, digest, size: bytes.length, bytes: bytes.toString("base64") };
}

/** What a datum is made of, e.g. `left:a1 right:b2`. */
export function nameOf({ inputs }: LeasedDatum): string {
  return inputs.map(({ name, path }) => `${name}:${path}`).join(" ");
}

function namesAsOutput(datum: LeasedDatum): Output[] {
  const name = nameOf(datum);
  return [smallOutput(name.replaceAll(/[^A-Za-z0-9]/g, "-"), name)];
}
