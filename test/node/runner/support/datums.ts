import { mkdir, mkdtemp, readdir, realpath } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import type { LeasedDatum, Outcome } from "../../../../protocol/runner.ts";
import type { Transform } from "../../../../protocol/spec.ts";
import type { Cache } from "../../../../runner/cache/cache.ts";
import { findBubblewrap, findUnshare } from "../../../../runner/executors/detect.ts";
import { type Executor, NodeCondition, type Sandbox } from "../../../../runner/executors/executor.ts";
import { readRootEntries } from "../../../../runner/executors/process/machine.ts";
import { processExecutor } from "../../../../runner/executors/process/process.ts";
import { Client } from "../../../../runner/gateway/client.ts";
import { Gateway } from "../../../../runner/gateway/gateway.ts";
import { findTool } from "../../../../runner/lib/system-calls.ts";
import { PipeStock } from "../../../../runner/pfs/lazy/pipe-stock.ts";
import { removeTree } from "../../../../runner/pfs/remove.ts";
import type { SecretSource } from "../../../../runner/secrets/source.ts";
import { DatumRunner } from "../../../../runner/worker/datum.ts";
import { REST } from "../../../support/suite.ts";
import { openCache } from "./caches.ts";
import { FakeGateway, KEY } from "./fake-gateway.ts";

const TOOLS = [
  { name: "bubblewrap", find: findBubblewrap, tool: "bwrap" },
  { name: "unshare", find: findUnshare, tool: "setpriv" },
];

const found = await Promise.all(
  TOOLS.map(async (one) => ({ ...one, absent: (await findTool(one.tool)) === undefined })),
);
const quick = found.find(({ absent }) => !absent);

/** The tools that the process executor may use, and whether this machine lacks one. The first that is here is the quick suite's. */
export const JAILS = found.map((one) => ({ ...one, options: one === quick ? { tags: [] } : REST }));
export type JailTool = (typeof JAILS)[number];

type Input = LeasedDatum["inputs"][number];

/** Datums as a worker runs them, one by one, with the real executor and a fake gateway. */
export class DatumStage {
  readonly gateway = new FakeGateway();
  readonly dir: string;
  readonly #executor: Executor;
  #client!: Client;
  #cache!: Cache;
  #sandbox!: Sandbox;
  #datums!: DatumRunner;
  #made = 0;

  private constructor(dir: string, executor: Executor) {
    this.dir = dir;
    this.#executor = executor;
  }

  static async open({ find }: JailTool, secrets: SecretSource): Promise<DatumStage> {
    const dir = await realpath(await mkdtemp(join(tmpdir(), "sluice-datums-")));
    const jail = await find({ root: await readRootEntries(), dataDir: dir });
    if (typeof jail === "string") throw new Error(jail);
    const stage = new DatumStage(dir, processExecutor(jail));
    await stage.#start(secrets);
    return stage;
  }

  async #start(secrets: SecretSource): Promise<void> {
    await this.gateway.start();
    await mkdir(join(this.dir, "worker"));
    this.#client = new Client({ endpoint: this.gateway.endpoint, ...KEY });
    const gateway = new Gateway(this.#client);
    this.#sandbox = await this.#executor.prepare({
      ...{ dir: join(this.dir, "worker"), image: "any", pipeline: "edges", pullSecrets: [] },
      signal: new AbortController().signal,
    });
    this.#cache = openCache(this.dir, { gateway });
    const pipes = new PipeStock(join(this.dir, "pipes"));
    const served = { for: () => secrets };
    this.#datums = new DatumRunner({
      ...{ gateway, cache: this.#cache, pipes },
      ...{ secrets: served, pipeline: "edges", executor: this.#executor },
    });
  }

  get cache(): Cache {
    return this.#cache;
  }

  /** An input of one file. */
  file(path: string, bytes: string | Buffer, more: Partial<Input> = {}): Input {
    return input({ path, kind: "file", content: this.gateway.store(bytes), ...more });
  }

  /** An input of these files, as a folder. */
  folder(files: Record<string, string | Buffer>, more: Partial<Input> = {}): Input {
    const entries = Object.entries(files).map(([path, bytes]) => ({
      ...{ path, kind: "file" as const },
      ...this.gateway.store(bytes),
    }));
    const whole = input(more);
    this.gateway.files.set(
      whole.commit,
      entries.sort((a, b) => (a.path < b.path ? -1 : 1)),
    );
    return whole;
  }

  /** Runs a datum to its outcome. Its folder is gone then, and nothing is left of it. */
  async run(
    transform: Partial<Transform>,
    inputs: Input[],
    more: { signal?: AbortSignal; datumTimeout?: string } = {},
  ): Promise<Outcome> {
    this.#made += 1;
    const work = {
      datum: { lease: `lease-${this.#made}`, job: "job-1", datum: "datum-1", inputs },
      transform: { image: "any", cmd: ["sh"], ...transform },
      limited: false,
      output: { repo: "edges", branch: "master" },
      pfs: join(this.dir, `datum-${this.#made}`),
      signal: new AbortController().signal,
      ...more,
    };
    const staged = await this.#datums.stage(work);
    try {
      if (!staged.ok) {
        if (staged.failure instanceof NodeCondition) throw staged.failure;
        return staged.failure;
      }
      const ran = await this.#datums.run(work, { sandbox: this.#sandbox, lazy: staged.lazy });
      return await this.#datums.conclude(work, ran);
    } finally {
      await removeTree(work.pfs);
    }
  }

  /** Runs a shell script. */
  sh(script: string, ...inputs: Input[]): Promise<Outcome> {
    return this.run({ stdin: script.split("\n") }, inputs);
  }

  output(outcome: Outcome, path: string): string | undefined {
    return this.gateway.outputBytes(outcome, path)?.toString();
  }

  /** How often contents were asked for. */
  get fetches(): number {
    return this.gateway.requests.filter((request) => request.includes("/contents/")).length;
  }

  async close(): Promise<void> {
    await this.#executor.close();
    await this.#client.close();
    await this.gateway.stop();
    expect(await readdir(join(this.dir, "agents/1/incoming"))).toEqual([]);
    await removeTree(this.dir);
    expect(this.gateway.violations).toEqual([]);
  }
}

function input(more: Partial<Input>): Input {
  return {
    ...{ name: "in", repo: "images", branch: "master", commit: "c1", path: "", kind: "dir", content: null },
    ...{ lazy: true, from: null },
    ...more,
  };
}
