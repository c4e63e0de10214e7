import { setTimeout as pause } from "node:timers/promises";
import type { Door } from "../keys.ts";
import { seededRandom } from "../random.ts";
import { S3 } from "../s3.ts";
import { Objects } from "./objects.ts";
import { choose, type Operation } from "./operations.ts";
import { Pipelines } from "./pipelines.ts";

/** Clients that put, read and delete, and the branches that they share. */
const CLIENTS = 16;
const REPOS = 4;
const PIPELINES = 3;
/** Of all operations; each makes a job or changes what jobs do, and a job costs more than an operation. */
const PIPELINE_SHARE = 0.02;

export interface SoakOptions {
  readonly door: Door;
  readonly seed: number;
  readonly seconds: number;
  /** Operations a second, of all clients together, at most. */
  readonly rate: number;
  /** Told once a second or so, with the operations so far. */
  readonly look?: (operations: number) => void;
}

export interface SoakReport {
  readonly seconds: number;
  /** How often each operation was done. */
  readonly counts: Readonly<Record<string, number>>;
}

interface Client {
  readonly operations: readonly Operation[];
  verify(): Promise<void>;
}

/**
 * Random operations side by side on one gateway, which must have a runner. Each client knows what its part must look
 * like and holds every outcome against that. In the end everything comes to rest and is held against it again. Throws
 * at the first surprise, with the seed that gives the same operations again.
 */
export async function soak(options: SoakOptions): Promise<SoakReport> {
  const { door, seed } = options;
  const random = seededRandom(seed);
  const own = (): (() => number) => seededRandom(Math.floor(random() * 2 ** 32));
  const s3 = new S3(door);
  for (let repo = 0; repo < REPOS; repo++) await s3.createBucket(`master.soak-${repo}`);
  const objects = Array.from({ length: CLIENTS }, (_, client) => {
    return new Objects({ door, repo: `soak-${client % REPOS}`, prefix: `client-${client}/`, random: own() });
  });
  const pipelines = Array.from({ length: PIPELINES }, (_, number) => {
    return new Pipelines({ door, name: `soak-pipeline-${number}`, random: own() });
  });
  for (const pipeline of pipelines) await pipeline.begin();

  const run = new Run(options);
  const rates = { objects: options.rate * (1 - PIPELINE_SHARE), pipelines: options.rate * PIPELINE_SHARE };
  await Promise.all([
    ...objects.map((client) => run.of(client, { random: own(), rate: rates.objects / CLIENTS })),
    ...pipelines.map((client) => run.of(client, { random: own(), rate: rates.pipelines / PIPELINES })),
  ]);
  const report = run.report();
  await Promise.all([...objects, ...pipelines].map((client) => told(seed, () => client.verify())));
  return report;
}

class Run {
  readonly #options: SoakOptions;
  readonly #startedAt = performance.now();
  readonly #counts: Record<string, number> = {};
  #failed = false;
  #lookedAt = 0;

  constructor(options: SoakOptions) {
    this.#options = options;
  }

  report(): SoakReport {
    return { seconds: this.#seconds, counts: this.#counts };
  }

  /** One operation after the other, at the rate or as fast as they are answered, until the time is up or anything surprised. */
  async of(client: Client, { random, rate }: { random: () => number; rate: number }): Promise<void> {
    for (let done = 0; this.#seconds < this.#options.seconds && !this.#failed; done++) {
      const earlyMs = (done / rate - this.#seconds) * 1000;
      if (earlyMs > 0) await pause(earlyMs);
      const { name, act } = choose(client.operations, random);
      try {
        await told(this.#options.seed, act, name);
      } catch (error) {
        this.#failed = true;
        throw error;
      }
      this.#counts[name] = (this.#counts[name] ?? 0) + 1;
      this.#look();
    }
  }

  get #seconds(): number {
    return (performance.now() - this.#startedAt) / 1000;
  }

  #look(): void {
    if (this.#seconds - this.#lookedAt < 1) return;
    this.#lookedAt = this.#seconds;
    this.#options.look?.(Object.values(this.#counts).reduce((sum, count) => sum + count, 0));
  }
}

async function told(seed: number, act: () => Promise<void>, what = "the end"): Promise<void> {
  try {
    await act();
  } catch (error) {
    throw new Error(`${what}, seed ${seed}: ${error instanceof Error ? error.message : error}`, {
      cause: error,
    });
  }
}
