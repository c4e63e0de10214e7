import { createHash, randomBytes } from "node:crypto";
import { Connections } from "../support/closed-loop.ts";
import { interleaved } from "../support/pairs.ts";
import type { Bench, Row } from "../support/row.ts";
import { type BenchGateway, startBareWorker, startBenchGateway } from "../support/servers.ts";
import { type SignedRequest, signed } from "../support/signing.ts";

const SIZE_BYTES = 4096;
const CONNECTIONS = 16;
const BUCKET = "master.small";
const READ_KEYS = 64;
/** Requests of one half of a pair. */
const REQUESTS = { full: { get: 6000, put: 3000 }, quick: { get: 3000, put: 1500 } } as const;

/** Small files in and out: what a request costs beside its bytes. The empty Worker gets the very same requests. */
export const smallObjects: Row = {
  name: "small-objects",
  title: "4 KiB objects, SigV4 in the header, 16 connections, against an empty Worker",
  async run(bench) {
    const gateway = await startBenchGateway();
    const empty = await startBareWorker("empty");
    const ours = new Connections(gateway.endpoint, { count: CONNECTIONS });
    const other = new Connections(empty.endpoint, { count: CONNECTIONS });
    try {
      await ours.send(await signed(gateway.door, { method: "PUT", path: `/${BUCKET}` }));
      const requests = new Requests(gateway, REQUESTS[bench.scale]);
      await ours.requestsPerSecond(
        await requests.puts({ folder: "read", count: READ_KEYS, payload: "signed" }),
      );
      const compare = (prepare: () => Promise<SignedRequest[]>) =>
        compareLoads(bench, { ours, other, prepare });
      return [
        {
          ...COMMON,
          what: "GET 4 KiB",
          pairs: await compare(() => requests.gets()),
          target: { atLeast: 0.3 },
        },
        {
          ...COMMON,
          what: "PUT 4 KiB, unsigned payload",
          pairs: await compare(() => requests.nextPuts("unsigned")),
          target: { atLeast: 0.15 },
        },
        {
          ...COMMON,
          what: "PUT 4 KiB, signed payload",
          pairs: await compare(() => requests.nextPuts("signed")),
          target: { atLeast: 0.15 },
        },
      ];
    } finally {
      await Promise.all([ours.close(), other.close()]);
      await Promise.all([gateway.stop(), empty.stop()]);
    }
  },
};

/** Each kind of request is fast only after some thousands of them, on either side. */
const WARM_UPS = 3;
const COMMON = { unit: "req/s", against: "empty Worker", compare: "ratio" } as const;

interface Loads {
  readonly ours: Connections;
  readonly other: Connections;
  readonly prepare: () => Promise<SignedRequest[]>;
}

function compareLoads({ pairs }: Bench, { ours, other, prepare }: Loads) {
  return interleaved(pairs, {
    ours: async () => ours.requestsPerSecond(await prepare()),
    other: async () => other.requestsPerSecond(await prepare()),
    warmUps: WARM_UPS,
  });
}

type Payload = "signed" | "unsigned";

/** Makes requests for the gateway. */
class Requests {
  readonly #gateway: BenchGateway;
  readonly #counts: { readonly get: number; readonly put: number };
  #batches = 0;

  constructor(gateway: BenchGateway, counts: { readonly get: number; readonly put: number }) {
    this.#gateway = gateway;
    this.#counts = counts;
  }

  async gets(): Promise<SignedRequest[]> {
    const each = await Promise.all(
      Array.from({ length: READ_KEYS }, (_, i) =>
        signed(this.#gateway.door, { method: "GET", path: objectPath("read", i) }),
      ),
    );
    return Array.from({ length: this.#counts.get }, (_, i) => each[i % READ_KEYS] as SignedRequest);
  }

  /** Of keys and contents that were never there before: one that changes nothing would make no commit. */
  nextPuts(payload: Payload): Promise<SignedRequest[]> {
    this.#batches += 1;
    return this.puts({ folder: `batch-${this.#batches}`, count: this.#counts.put, payload });
  }

  puts(batch: { folder: string; count: number; payload: Payload }): Promise<SignedRequest[]> {
    return Promise.all(
      Array.from({ length: batch.count }, (_, i) => {
        const body = randomBytes(SIZE_BYTES);
        const path = objectPath(batch.folder, i);
        const hash = createHash("sha256").update(body).digest("hex");
        const payload = batch.payload === "signed" ? { payload: hash } : {};
        return signed(this.#gateway.door, { method: "PUT", path, body, ...payload });
      }),
    );
  }
}

function objectPath(folder: string, index: number): string {
  return `/${BUCKET}/${folder}/${index}`;
}
