import { randomBytes } from "node:crypto";
import { stageMany } from "../support/bulk-commit.ts";
import { Connections } from "../support/closed-loop.ts";
import { Control } from "../support/control.ts";
import type { Figure } from "../support/figure.ts";
import { shortCount } from "../support/flatness.ts";
import type { Bench, Row } from "../support/row.ts";
import { type BenchGateway, startBenchGateway } from "../support/servers.ts";
import { type SignedRequest, signed } from "../support/signing.ts";
import { percentile } from "../support/stats.ts";
import { pathOf } from "../support/trees.ts";

const SIZE_BYTES = 4096;
const CONNECTIONS = 16;
const KEYS = 64;
const BUCKET = "master.beside";
/** Requests of one load: it ends well before what goes on beside it. */
const REQUESTS = { full: 3000, quick: 600 } as const;
/** Files of a large commit, and of a branch that goes. */
const FILES = { full: 300_000, quick: 30_000 } as const;
/** The first of each is a warm-up, beside nothing. */
const ROUNDS = { full: 3, quick: 1 } as const;

/** The slowest hundredth may take so long when nothing else goes on, in milliseconds; twice that beside long work. */
const AT_MOST_MS = { GET: 10, HEAD: 10, PUT: 20 } as const;
const BESIDE = 2;
const METHODS = ["GET", "HEAD", "PUT"] as const;
type Method = (typeof METHODS)[number];

/** How long the slowest hundredth of requests takes, alone and beside long work in another branch of the same gateway. */
export const tails: Row = {
  name: "tails",
  title:
    "4 KiB objects at 16 connections: the slowest hundredth alone, beside a large commit and beside a branch that goes",
  onlyWhenNamed: true,
  async run(bench) {
    const gateway = await startBenchGateway();
    const stage = new Stage(bench, gateway);
    try {
      await stage.begin();
      const files = shortCount(FILES[bench.scale]);
      return [
        ...(await stage.measure({ beside: "nothing else", start: async () => undefined })),
        ...(await stage.measure({
          beside: `a commit of ${files} files to another branch`,
          start: () => stage.applyCommit(),
        })),
        ...(await stage.measure({
          beside: `another branch of ${files} files goes`,
          start: () => stage.deleteBranch(),
        })),
      ];
    } finally {
      await stage.end();
      await gateway.stop();
    }
  },
};

/** What goes on beside the requests. `start` resolves once it has begun; what it resolves to resolves in the end. */
interface Load {
  readonly beside: string;
  start(): Promise<{ over: Promise<void> } | undefined>;
}

class Stage {
  readonly #bench: Bench;
  readonly #gateway: BenchGateway;
  readonly #control: Control;
  readonly #connections: Connections;
  #branches = 0;

  constructor(bench: Bench, gateway: BenchGateway) {
    this.#bench = bench;
    this.#gateway = gateway;
    this.#control = new Control(gateway.door);
    this.#connections = new Connections(gateway.endpoint, { count: CONNECTIONS });
  }

  /** Makes the keys, and has each kind of request done some thousand times. */
  async begin(): Promise<void> {
    await this.#connections.send(await signed(this.#gateway.door, { method: "PUT", path: `/${BUCKET}` }));
    for (const method of ["PUT", ...METHODS] as const) {
      for (let round = 0; round < 2; round++) await this.#connections.load(await this.#requests(method));
    }
  }

  async end(): Promise<void> {
    await Promise.all([this.#connections.close(), this.#control.close()]);
  }

  async measure({ beside, start }: Load): Promise<Figure[]> {
    const figures: Figure[] = [];
    for (const method of METHODS) {
      const values: number[] = [];
      for (let round = 0; round < ROUNDS[this.#bench.scale]; round++) {
        const requests = await this.#requests(method);
        const work = await start();
        const { latencies } = await this.#connections.load(requests);
        values.push(percentile(latencies, 99));
        await work?.over;
      }
      const atMost = AT_MOST_MS[method] * (beside === "nothing else" ? 1 : BESIDE);
      const what = `${method} beside ${beside}: p99`;
      figures.push({ what, unit: "ms", values, compare: "nothing", target: { atMost } });
    }
    return figures;
  }

  /** Publishes a large commit. It is brought before, which is the work of this process, too. */
  async applyCommit(): Promise<{ over: Promise<void> }> {
    const { address, session } = await this.#staged();
    return { over: this.#control.finishSession(address, session) };
  }

  /** Deletes a large branch, whose rows go from then on. */
  async deleteBranch(): Promise<undefined> {
    const { address, session } = await this.#staged();
    await this.#control.finishSession(address, session);
    const path = `/${address.branch}.${address.repo}`;
    await this.#connections.send(await signed(this.#gateway.door, { method: "DELETE", path }));
  }

  async #staged() {
    this.#branches += 1;
    const address = { repo: `large-${this.#branches}`, branch: "master" };
    await this.#control.createBranch(address);
    const session = await stageMany(this.#control, { address, puts: FILES[this.#bench.scale], pathOf });
    return { address, session };
  }

  #requests(method: Method): Promise<SignedRequest[]> {
    return Promise.all(
      Array.from({ length: REQUESTS[this.#bench.scale] }, (_, i) =>
        signed(this.#gateway.door, {
          method,
          path: `/${BUCKET}/key-${i % KEYS}`,
          ...(method === "PUT" && { body: randomBytes(SIZE_BYTES) }),
        }),
      ),
    );
  }
}
