import { mkdir, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { expect } from "vitest";
import type { RunnerConfig } from "../../../../runner/agent/config.ts";
import type { ParentLog } from "../../../../runner/lib/log.ts";
import { type Runner, startRunner } from "../../../../runner/main.ts";
import { removeTree } from "../../../../runner/pfs/remove.ts";
import { FakeGateway, KEY } from "./fake-gateway.ts";

/** An expectation that comes true sooner or later; the time only bounds a hang. */
export function soon<T>(probe: () => T) {
  return expect.poll(probe, { interval: 20 });
}

/** Silent, unless somebody looks for a cause. */
export const log: ParentLog = pino({ level: process.env.SLUICE_TEST_LOG ?? "silent" });

/** A gateway, a data folder, and the agents on them; `close` leaves nothing behind. */
export class Stage {
  readonly gateway = new FakeGateway();
  readonly #dir: string;
  readonly #runners: Runner[] = [];

  private constructor(dir: string) {
    this.#dir = dir;
  }

  static async open(): Promise<Stage> {
    const stage = new Stage(await mkdtemp(join(tmpdir(), "sluice-runner-")));
    await mkdir(stage.dataDir);
    await stage.gateway.start();
    return stage;
  }

  get dataDir(): string {
    return join(this.#dir, "data");
  }

  /** A file that commands may wait for. It is not there yet. */
  get gate(): string {
    return join(this.#dir, "gate");
  }

  config(more: Partial<RunnerConfig> = {}): RunnerConfig {
    const { endpoint } = this.gateway;
    const machine = { executor: "process", dataDir: this.dataDir, cacheBytes: 1e9, limits: {} } as const;
    const bounds = { maxRunning: 16, maxWorkers: 256 };
    return { endpoint, ...KEY, node: "n1", ...machine, ...bounds, ...more };
  }

  async runner(more: Partial<RunnerConfig> = {}): Promise<Runner> {
    const runner = await startRunner(this.config(more), { log });
    this.#runners.push(runner);
    return runner;
  }

  /** Waits until so many outcomes other than "returned" have been recorded. */
  async reported(count: number): Promise<void> {
    const outcomes = () => this.gateway.outcomes.filter(({ state }) => state !== "returned").length;
    await soon(outcomes).toBeGreaterThanOrEqual(count);
  }

  /** Stops the agents, and what they run. */
  async endRunners(): Promise<void> {
    for (const runner of this.#runners) runner.kill();
    await Promise.all(this.#runners.map((runner) => runner.done));
  }

  async close(): Promise<void> {
    await this.endRunners();
    await this.gateway.stop();
    await removeTree(this.#dir);
    expect(this.gateway.violations).toEqual([]);
  }
}
