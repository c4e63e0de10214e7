import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, realpath, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { expect } from "vitest";
import { FinishRequest, type Outcome } from "../../../protocol/runner.ts";
import type { RunnerConfig } from "../../../runner/agent/config.ts";
import type { Limits } from "../../../runner/limits/limits.ts";
import { type Runner, startRunner } from "../../../runner/main.ts";
import { removeTree } from "../../../runner/pfs/remove.ts";
import type { TestEngine } from "../../support/engines.ts";
import { leftovers, NOTHING } from "../../support/leftovers.ts";
import { FakeGateway, KEY } from "../runner/support/fake-gateway.ts";

export interface HostileOptions {
  readonly executor: RunnerConfig["executor"];
  readonly image: string;
  readonly limits: Limits;
  readonly engine?: TestEngine | undefined;
  /** Where the agent has its data; absent: in the test's own folder. */
  readonly dataDir?: string;
}

/** An expectation that comes true sooner or later; the time only bounds a hang. */
function patiently<T>(probe: () => T) {
  return expect.poll(probe, { timeout: 240_000, interval: 20 });
}

/** What nobody may read: it must turn up in no output. */
const SECRET = "nobody may read this";

/**
 * An agent with two workers on a fake gateway, whose datums are scripts, and beside it a folder that is none of its
 * business. `close` checks that nothing was changed there, that nothing of it got out, and that nothing is left.
 */
export class HostileStage {
  readonly gateway = new FakeGateway();
  readonly dir: string;
  readonly #options: HostileOptions;
  readonly #outcomes = new Map<string, Outcome>();
  #runner: Runner | undefined;
  #before = "";

  private constructor(dir: string, options: HostileOptions) {
    this.dir = dir;
    this.#options = options;
  }

  static async open(options: HostileOptions): Promise<HostileStage> {
    const dir = await realpath(await mkdtemp(join(tmpdir(), "sluice-hostile-")));
    const stage = new HostileStage(dir, options);
    await mkdir(stage.dataDir, { recursive: true });
    await mkdir(stage.canary);
    await writeFile(join(stage.canary, "secret"), SECRET, { mode: 0o600 });
    stage.#before = await stage.#foreign();
    await stage.gateway.start();
    stage.#watch();
    const { image, executor, limits } = options;
    stage.gateway.transform = { image, cmd: ["sh", "/pfs/in/script"] };
    stage.gateway.workers = [{ pipeline: "edges", count: 2 }];
    const { endpoint } = stage.gateway;
    stage.#runner = await startRunner(
      {
        ...{ endpoint, ...KEY, node: "n1", executor, dataDir: stage.dataDir, cacheBytes: 1e9 },
        ...{ limits, maxRunning: 16, maxWorkers: 256 },
      },
      { log: pino({ level: process.env.SLUICE_TEST_LOG ?? "silent" }) },
    );
    return stage;
  }

  get dataDir(): string {
    return this.#options.dataDir ?? join(this.dir, "data");
  }

  /** The folder that is none of its business. */
  get canary(): string {
    return join(this.dir, "canary");
  }

  /** Queues a script as a datum; `outcome` waits for what becomes of it. */
  queue(script: string): string {
    const content = this.gateway.store(`${script}\n`);
    this.gateway.addDatum({ path: "script", kind: "file", content });
    return content.digest;
  }

  async outcome(digest: string): Promise<Outcome> {
    await patiently(() => this.#outcomes.get(digest)?.state).toBeDefined();
    return this.#outcomes.get(digest) as Outcome;
  }

  /** Runs a script beside others and before one, which all succeed. Nothing is left of it then. */
  async beside(script: string): Promise<Outcome> {
    const [hostile, ...good] = [this.queue(script), ...[1, 2, 3].map((n) => this.#good(`beside-${n}`))];
    const outcome = await this.outcome(hostile as string);
    for (const digest of [...good, this.#good("after")]) {
      const settled = await this.outcome(digest);
      expect(settled).toMatchObject({ state: "success" });
      expect(this.gateway.outputBytes(settled, "copy")?.toString()).toMatch(/^good /);
    }
    await patiently(() => this.#datumFolders()).toEqual([]);
    return outcome;
  }

  #made = 0;
  #good(name: string): string {
    this.#made += 1;
    return this.queue(`echo "good ${name} ${this.#made}" > /pfs/out/copy`);
  }

  /** Says of each outcome whose it was: of its script's digest. */
  #watch(): void {
    this.gateway.before = ({ method, path, body }) => {
      if (method !== "POST" || !path.endsWith("/runner/finish")) return;
      for (const outcome of FinishRequest.parse(JSON.parse(body.toString())).outcomes) {
        const digest = this.gateway.held.get(outcome.lease)?.datum?.inputs[0]?.content?.digest;
        if (digest !== undefined && outcome.state !== "returned") this.#outcomes.set(digest, outcome);
      }
    };
  }

  async #datumFolders(): Promise<string[]> {
    const names = await readdir(join(this.dataDir, "agents"), { recursive: true }).catch(() => []);
    return names.filter((name) => /\/datum-[0-9]+$/.test(name));
  }

  /** All that is around the agent, in one word. */
  async #foreign(): Promise<string> {
    const hash = createHash("sha256");
    for (const name of (await readdir(this.canary)).sort()) {
      hash.update(name).update(await readFile(join(this.canary, name)));
    }
    hash.update(await readFile("/etc/shadow").catch(() => "not ours to read"));
    hash.update((await readdir("/")).sort().join("\n"));
    return hash.digest("hex");
  }

  async close(): Promise<void> {
    try {
      this.#runner?.kill();
      await this.#runner?.done;
      await this.gateway.stop();
      expect(this.gateway.violations).toEqual([]);
      await this.#expectUntouched();
      await this.#expectNothingLeft();
    } finally {
      await removeTree(this.dir);
    }
  }

  async #expectUntouched(): Promise<void> {
    expect(await this.#foreign()).toBe(this.#before);
    const shadow = await readFile("/etc/shadow", "utf8").catch(() => "");
    for (const bytes of this.gateway.contents.values()) {
      if (bytes.length > 1_000_000) continue;
      expect(bytes.includes(SECRET)).toBe(false);
      expect(shadow !== "" && bytes.includes(shadow)).toBe(false);
    }
  }

  async #expectNothingLeft(): Promise<void> {
    expect(await readdir(join(this.dataDir, "agents"))).toEqual([]);
    await removeTree(this.canary);
    await removeTree(this.dataDir);
    const { engine } = this.#options;
    expect(await leftovers({ folder: this.dir, ...(engine && { engine }) })).toEqual(NOTHING);
  }
}
