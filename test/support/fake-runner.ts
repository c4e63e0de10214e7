import { createHash } from "node:crypto";
import type { z } from "zod";
import {
  Assignment,
  Finished,
  Lease,
  type LeasedDatum,
  LogsTaken,
  type NodeBounds,
  type NodeWork,
  type Outcome,
  type Output,
  Renewed,
} from "../../protocol/runner.ts";
import { Control } from "./control.ts";
import { signatureHeaders } from "./http.ts";
import type { Door } from "./keys.ts";

type Leased = z.infer<typeof Lease>;

/** A runner that speaks the wire and runs nothing: what a datum "does" is a function of the test. */
export class FakeRunner {
  readonly #door: Door;
  readonly #control: Control;
  readonly #node: string;

  constructor(door: Door, { node }: { node: string }) {
    this.#door = door;
    this.#control = new Control(door);
    this.#node = node;
  }

  get #worker(): string {
    return `${this.#node}/0`;
  }

  heartbeat({
    work,
    bounds,
  }: {
    work?: readonly NodeWork[];
    bounds?: NodeBounds;
  } = {}): Promise<z.infer<typeof Assignment>> {
    const said = { ...(work && { work }), ...(bounds && { bounds }) };
    const body = { node: this.#node, executor: "fake", capacity: 1, ...said };
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

  /**
   * Asks as `lease` does: answers as soon as the call waits for something to do, with what comes of it; undefined
   * where the call does not wait. It goes on until `signal`.
   */
  async beginToWait(
    pipeline: string,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<{ leased: Promise<Leased> } | undefined> {
    const target = "/api/v1/runner/lease";
    const body = JSON.stringify({ pipeline, node: this.#node, worker: this.#worker, max: 1 });
    const ask = { method: "POST", target, headers: { "content-type": "application/json" }, body };
    const headers = await signatureHeaders(this.#door, ask);
    const request = { method: "POST", headers, body, ...(signal && { signal }) };
    const response = await fetch(`${this.#door.endpoint}${target}`, request);
    if (!response.ok || !response.body) throw new Error(`${response.status} ${await response.text()}`);
    // Who waits is sent a space now and then (worker/api/answer/slow.ts).
    const chunks = response.body.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]();
    const first = await chunks.next();
    if (first.done || !first.value.startsWith(" ")) return undefined;
    return { leased: restOf(chunks).then((rest) => Lease.parse(JSON.parse(first.value + rest))) };
  }

  /** Sends what a datum's command printed just now, as the entry `seq` of its lease, with the places of its lines that came on stderr; answers the leases that are lost. */
  async print(
    pipeline: string,
    {
      lease,
      seq,
      lines,
      stderr,
    }: { lease: string; seq: number; lines: readonly string[]; stderr?: readonly number[] },
  ): Promise<string[]> {
    const streams = stderr && lines.map((_, place) => (stderr.includes(place) ? 2 : 1)).join("");
    const entry = { lease, seq, dropped: 0, lines: lines.map((line) => [0, line]), streams };
    const body = { pipeline, worker: this.#worker, entries: [entry] };
    return (await this.#control.call("POST", "/runner/logs", { body, answers: LogsTaken })).lost;
  }

  /** Says why its worker can't work; null: it can. */
  async say(pipeline: string, trouble: string | null): Promise<void> {
    const body = { pipeline, worker: this.#worker, leases: [], trouble };
    await this.#control.call("POST", "/runner/renew", { body, answers: Renewed });
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
  return {
    lease,
    state: "success",
    exitCode: 0,
    outputs: [...outputs],
    millis: 1,
    ran: { executor: "process", image: null },
  };
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

async function restOf(chunks: AsyncIterator<string>): Promise<string> {
  let text = "";
  for (let next = await chunks.next(); !next.done; next = await chunks.next()) text += next.value;
  return text;
}
