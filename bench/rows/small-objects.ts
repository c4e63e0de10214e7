import { createHash, randomBytes } from "node:crypto";
import { MAX_COMMIT_OPERATIONS } from "../../protocol/files.ts";
import { seededRandom } from "../../test/support/random.ts";
import { commitTexts } from "../support/bulk-commit.ts";
import { Connections } from "../support/closed-loop.ts";
import { Control } from "../support/control.ts";
import type { Figure } from "../support/figure.ts";
import { shortCount } from "../support/flatness.ts";
import { interleaved } from "../support/pairs.ts";
import type { Bench, Row } from "../support/row.ts";
import { type BenchGateway, startBareWorker, startBenchGateway } from "../support/servers.ts";
import { type SignedRequest, signed } from "../support/signing.ts";
import { percentile } from "../support/stats.ts";

const SIZE_BYTES = 4096;
const CONNECTIONS = 16;
const ADDRESS = { repo: "small", branch: "master" };
const BUCKET = "master.small";
const FEW_KEYS = 64;
const MANY_KEYS = { full: 100_000, quick: 10_000 } as const;
/** Requests of one half of a pair. */
const REQUESTS = { full: { get: 6000, put: 3000 }, quick: { get: 900, put: 450 } } as const;
/** Of so many reads and a PUT beside them. */
const READS_A_PUT = 20;
const ZIPF = 0.99;

/** What the table of targets asks of an empty Worker's rate, and in milliseconds of the slowest hundredth. */
const PUT = 0.15;
const READ_MS = 10;
const PUT_MS = 20;
const FROM_MEMORY = { get: 0.33, head: 0.4 };
const FROM_ROWS = { get: 0.24, head: 0.24 };

/** Small files in and out: what a request costs beside its bytes. The empty Worker gets the very same requests. */
export const smallObjects: Row = {
  name: "small-objects",
  title: "4 KiB objects, SigV4 in the header, 16 connections, against an empty Worker",
  async run(bench) {
    const gateway = await startBenchGateway();
    const empty = await startBareWorker("empty");
    const control = new Control(gateway.door);
    const ours = new Connections(gateway.endpoint, { count: CONNECTIONS });
    const other = new Connections(empty.endpoint, { count: CONNECTIONS });
    try {
      await control.createBranch(ADDRESS);
      const manyKeys = MANY_KEYS[bench.scale];
      for (const keys of [FEW_KEYS, manyKeys]) await fill(control, keys);
      const requests = new Requests(gateway, REQUESTS[bench.scale]);
      const figures: Figure[] = [];
      for (const load of [
        ...loadsOf(requests, keySets(manyKeys)),
        ...(["unsigned", "signed"] as const).map((payload) => ({
          what: `PUT, new, ${payload} payload`,
          prepare: () => requests.newPuts(payload),
          atLeast: PUT,
          slowestMs: PUT_MS,
        })),
      ]) {
        figures.push(...(await compareLoads(bench, { ours, other, load })));
      }
      return figures;
    } finally {
      await Promise.all([ours.close(), other.close(), control.close()]);
      await Promise.all([gateway.stop(), empty.stop()]);
    }
  },
};

/** Keys that are there, and which of them come next. */
interface KeySet {
  readonly what: string;
  readonly keys: number;
  readonly pick: () => number;
  readonly held: typeof FROM_MEMORY;
}

function keySets(manyKeys: number): KeySet[] {
  const random = seededRandom(28);
  const many = shortCount(manyKeys);
  return [
    { what: `${FEW_KEYS} keys`, keys: FEW_KEYS, pick: inTurn(FEW_KEYS), held: FROM_MEMORY },
    {
      what: `${many} keys, uniform`,
      keys: manyKeys,
      pick: () => Math.floor(random() * manyKeys),
      held: FROM_ROWS,
    },
    { what: `${many} keys, Zipf ${ZIPF}`, keys: manyKeys, pick: zipf(manyKeys, random), held: FROM_ROWS },
  ];
}

function inTurn(count: number): () => number {
  let next = 0;
  return () => next++ % count;
}

/** The key of rank `r` comes as often as 1 / r ^ ZIPF. Ranks are spread over the keys, so that neighbours are not alike. */
function zipf(count: number, random: () => number): () => number {
  const upTo = new Float64Array(count);
  let sum = 0;
  for (let rank = 0; rank < count; rank++) {
    sum += 1 / (rank + 1) ** ZIPF;
    upTo[rank] = sum;
  }
  return () => {
    const wanted = random() * sum;
    let [low, high] = [0, count - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((upTo[middle] as number) <= wanted) low = middle + 1;
      else high = middle;
    }
    // A prime that divides none of the counts.
    return (low * 48_271) % count;
  };
}

/** What is sent in one figure, and what is asked of it. */
interface Load {
  readonly what: string;
  readonly prepare: () => Promise<SignedRequest[]>;
  readonly atLeast: number;
  /** Of the hundredth request that takes longest, in milliseconds; absent: not told, since the requests differ. */
  readonly slowestMs?: number;
}

function loadsOf(requests: Requests, sets: readonly KeySet[]): Load[] {
  return sets.flatMap((set) => {
    const { what, held } = set;
    const beside = (read: number) => Number(((READS_A_PUT + 1) / (READS_A_PUT / read + 1 / PUT)).toFixed(2));
    return [
      {
        what: `GET, ${what}`,
        prepare: () => requests.reads("GET", set),
        atLeast: held.get,
        slowestMs: READ_MS,
      },
      {
        what: `HEAD, ${what}`,
        prepare: () => requests.reads("HEAD", set),
        atLeast: held.head,
        slowestMs: READ_MS,
      },
      {
        what: `GET, ${what}, a PUT in ${READS_A_PUT}`,
        prepare: () => requests.readsAndPuts("GET", set),
        atLeast: beside(held.get),
      },
      {
        what: `HEAD, ${what}, a PUT in ${READS_A_PUT}`,
        prepare: () => requests.readsAndPuts("HEAD", set),
        atLeast: beside(held.head),
      },
      {
        what: `PUT, overwrite, ${what}`,
        prepare: () => requests.overwrites(set),
        atLeast: PUT,
        slowestMs: PUT_MS,
      },
    ];
  });
}

/** Each kind of request is fast only after some thousands of them, on either side. */
const WARM_UPS = 3;

async function compareLoads(
  { pairs }: Bench,
  { ours, other, load }: { ours: Connections; other: Connections; load: Load },
): Promise<Figure[]> {
  const { what, prepare, atLeast, slowestMs } = load;
  const latencies: (readonly number[])[] = [];
  const compared = await interleaved(pairs, {
    ours: async () => {
      const done = await ours.load(await prepare());
      latencies.push(done.latencies);
      return done.perSecond;
    },
    other: async () => other.requestsPerSecond(await prepare()),
    warmUps: WARM_UPS,
  });
  const took = (percent: number) => ({
    what: `${what}: p${percent}`,
    unit: "ms",
    values: latencies.slice(-pairs).map((all) => percentile(all, percent)),
    compare: "nothing" as const,
  });
  return [
    {
      what,
      unit: "req/s",
      against: "empty Worker",
      pairs: compared,
      compare: "ratio",
      target: { atLeast },
    },
    ...(slowestMs === undefined
      ? []
      : [
          { ...took(50), target: null },
          { ...took(99), target: { atMost: slowestMs } },
        ]),
  ];
}

async function fill(control: Control, keys: number): Promise<void> {
  for (let at = 0; at < keys; at += MAX_COMMIT_OPERATIONS) {
    const files = Array.from({ length: Math.min(MAX_COMMIT_OPERATIONS, keys - at) }, (_, i) => {
      const path = keyOf(`read-${keys}`, at + i);
      return { path, text: `${path}\n`.padEnd(SIZE_BYTES, "-") };
    });
    await commitTexts(control, { address: ADDRESS, files });
  }
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

  reads(method: "GET" | "HEAD", set: KeySet): Promise<SignedRequest[]> {
    return this.#many(this.#counts.get, () => this.#read(method, set));
  }

  /** A PUT comes behind each READS_A_PUT reads. */
  readsAndPuts(method: "GET" | "HEAD", set: KeySet): Promise<SignedRequest[]> {
    return this.#many(this.#counts.get, (i) =>
      i % (READS_A_PUT + 1) === READS_A_PUT ? this.#overwrite(set) : this.#read(method, set),
    );
  }

  overwrites(set: KeySet): Promise<SignedRequest[]> {
    return this.#many(this.#counts.put, () => this.#overwrite(set));
  }

  /** Of keys and contents that were never there before: one that changes nothing would make no commit. */
  newPuts(payload: Payload): Promise<SignedRequest[]> {
    this.#batches += 1;
    const folder = `batch-${this.#batches}`;
    return this.#many(this.#counts.put, (i) => this.#put(keyOf(folder, i), payload));
  }

  #many(count: number, request: (index: number) => Promise<SignedRequest>): Promise<SignedRequest[]> {
    return Promise.all(Array.from({ length: count }, (_, i) => request(i)));
  }

  #read(method: "GET" | "HEAD", { keys, pick }: KeySet): Promise<SignedRequest> {
    return signed(this.#gateway.door, { method, path: `/${BUCKET}/${keyOf(`read-${keys}`, pick())}` });
  }

  #overwrite({ keys, pick }: KeySet): Promise<SignedRequest> {
    return this.#put(keyOf(`read-${keys}`, pick()), "unsigned");
  }

  #put(key: string, sent: Payload): Promise<SignedRequest> {
    const body = randomBytes(SIZE_BYTES);
    const payload = sent === "signed" ? { payload: createHash("sha256").update(body).digest("hex") } : {};
    return signed(this.#gateway.door, { method: "PUT", path: `/${BUCKET}/${key}`, body, ...payload });
  }
}

function keyOf(folder: string, index: number): string {
  return `${folder}/${index}`;
}
