import { createHash, randomBytes } from "node:crypto";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { bucketName } from "../../protocol/names.ts";
import { scratchFolder } from "../../test/support/scratch.ts";
import { Connections } from "../support/closed-loop.ts";
import { Control } from "../support/control.ts";
import type { Figure } from "../support/figure.ts";
import { interleaved } from "../support/pairs.ts";
import type { Bench, Row } from "../support/row.ts";
import { type BenchGateway, startBenchGateway } from "../support/servers.ts";
import { type SignedRequest, signed } from "../support/signing.ts";
import { bytesIn } from "../support/stored-bytes.ts";
import { growTree, pathOf } from "../support/trees.ts";
import { type Probe, probeDuring, waitFigures, waitsWithout } from "../support/waits.ts";

const CONNECTIONS = 16;
/** Keys that are overwritten again and again, and commits that the branch keeps. */
const KEYS = 1000;
const KEPT = 100;
/** Larger than what a row holds, so that each version is a blob. */
const BLOB_BYTES = 5000;
const SMALL_BYTES = 4096;
/** Requests of one half of a pair; overwrites of the long run; files of the branch that goes. */
const SCALE = {
  full: { puts: 3000, overwrites: 200_000, files: 1_000_000 },
  quick: { puts: 1500, overwrites: 20_000, files: 50_000 },
} as const;
/** Requests that are made ready at a time. */
const BATCH = 2000;
/** What others keep of their speed, and the longest that they wait. */
const SHARE = 0.7;
const AT_MOST_MS = 100;
/** How long they are looked at. */
const PROBED_MS = 10_000;
/** What is left of a branch beside what lives, and how soon. */
const AT_MOST = 1.5;
const WITHIN_MS = 5 * 60 * 1000;
const LOOK_MS = 2000;
const LATELY = "of what lives and was written within 5 minutes";
/** The branch of the long run. */
const BOUNDED = { repo: "bounded", branch: "master" };
const JSON_TYPE = { "content-type": "application/json" };

/** What giving history back costs those who write and read meanwhile, and what is left of it. */
export const retention: Row = {
  name: "retention",
  title:
    "a branch that keeps 100 commits under overwrites, and a branch that is deleted: others meanwhile, and what is left",
  onlyWhenNamed: true,
  async run(bench) {
    const dataDir = scratchFolder();
    const gateway = await startBenchGateway(dataDir);
    const load = new Load(gateway);
    try {
      return [
        await writesWhileGivingBack(bench, load),
        ...(await othersWhilePurging(bench, load)),
        ...(await sizeUnderOverwrites(bench, { load, blobs: join(dataDir, "blobs") })),
      ];
    } finally {
      await load.close();
      await gateway.stop();
    }
  },
};

/** Overwrites of a branch that keeps 100 commits, against one that keeps all. */
async function writesWhileGivingBack(bench: Bench, load: Load): Promise<Figure> {
  const count = SCALE[bench.scale].puts;
  for (const bucket of ["master.all", "master.newest"]) await load.makeBucket(bucket);
  await load.keep("newest");
  const half = (bucket: string) => async () =>
    load.connections.requestsPerSecond(await load.overwrites({ bucket, count, bytes: SMALL_BYTES }));
  return {
    what: `PUT 4 KiB over ${KEYS} keys, keeping ${KEPT} commits`,
    unit: "req/s",
    against: "keeping all",
    pairs: await interleaved(bench.pairs, {
      ours: half("master.newest"),
      other: half("master.all"),
      warmUps: 1,
    }),
    compare: "ratio",
    target: { atLeast: SHARE },
  };
}

/** PUTs into one branch, and how long others wait, while another one that was deleted goes. */
async function othersWhilePurging(bench: Bench, load: Load): Promise<Figure[]> {
  const { files, puts } = SCALE[bench.scale];
  const tree = await growTree(load.control, files);
  const bucket = "master.beside";
  await load.makeBucket(bucket);
  const rate = async () =>
    load.connections.requestsPerSecond(await load.overwrites({ bucket, count: puts, bytes: SMALL_BYTES }));
  await rate();
  const before = await rate();
  const probes: Probe[] = [
    {
      what: "GET from the branch whose rows go",
      call: () => load.send("GET", `/master.tree-${files}/${pathOf(0, files)}`),
    },
    { what: "PUT into another branch", call: () => load.send("PUT", `/${bucket}/probe`) },
  ];
  const { waits: alone } = await probeDuring(probes, () => setTimeout(PROBED_MS));
  await load.send("DELETE", `/${tree.branch}.${tree.repo}`);
  const during = await rate();
  await load.makeBucket(`${tree.branch}.${tree.repo}`);
  await load.send("PUT", `/master.tree-${files}/${pathOf(0, files)}`);
  const { waits } = await probeDuring(probes, () => setTimeout(PROBED_MS));
  return [
    {
      what: `PUT 4 KiB while a deleted branch of ${files} files goes`,
      unit: "req/s",
      against: "before",
      pairs: [{ ours: during, other: before }],
      compare: "ratio",
      target: { atLeast: SHARE },
    },
    ...waitFigures(waits, { atMostMs: AT_MOST_MS }),
    ...waitsWithout(alone),
  ];
}

/** Overwrites without a pause, with a tag on the first commit; then how soon it is back at what lives. */
async function sizeUnderOverwrites(
  bench: Bench,
  { load, blobs }: { load: Load; blobs: string },
): Promise<Figure[]> {
  const { overwrites } = SCALE[bench.scale];
  const bucket = bucketName(BOUNDED);
  await load.makeBucket(bucket);
  await load.keep(BOUNDED.repo);
  const blobsBefore = bytesIn(blobs);
  await load.overwritten({ bucket, count: 1, bytes: BLOB_BYTES });
  await load.tag(BOUNDED.repo, "first");
  const written: number[] = [];
  const most = { rows: 0, bytes: 0 };
  const started = performance.now();
  for (let done = 0; done < overwrites; done += BATCH) {
    await load.overwritten({ bucket, count: BATCH, bytes: BLOB_BYTES });
    written.push(performance.now());
    const lately = written.filter((at) => performance.now() - at <= WITHIN_MS);
    const allowed = {
      rows: KEYS + lately.length * BATCH,
      bytes: liveBytes() + lately.length * BATCH * BLOB_BYTES,
    };
    most.rows = Math.max(most.rows, (await load.control.rows(BOUNDED)) / allowed.rows);
    most.bytes = Math.max(most.bytes, (bytesIn(blobs) - blobsBefore) / allowed.bytes);
  }
  const ended = performance.now();
  bench.say(`${overwrites} overwrites in ${((ended - started) / 1000).toFixed(1)} s`);
  const isBack = async () =>
    (await load.control.rows(BOUNDED)) <= AT_MOST * KEYS &&
    bytesIn(blobs) - blobsBefore <= AT_MOST * liveBytes();
  while (!(await isBack()) && performance.now() - ended < 2 * WITHIN_MS) await setTimeout(LOOK_MS);
  const seconds = (performance.now() - ended) / 1000;
  const rows = await load.control.rows(BOUNDED);
  return [
    {
      what: `until ${overwrites} overwrites are back at ${AT_MOST}x of what lives`,
      unit: "s",
      values: [seconds],
      compare: "nothing",
      target: { atMost: WITHIN_MS / 1000 },
    },
    measured("rows left, of those that live", "x", { value: rows / KEYS, atMost: AT_MOST }),
    measured("blob folder, of what lives", "x", {
      value: (bytesIn(blobs) - blobsBefore) / liveBytes(),
      atMost: AT_MOST,
    }),
    measured(`rows at most meanwhile, ${LATELY}`, "x", { value: most.rows, atMost: 1 }),
    measured(`blob folder at most meanwhile, ${LATELY}`, "x", { value: most.bytes, atMost: 1 }),
  ];
}

function measured(what: string, unit: string, { value, atMost }: { value: number; atMost: number }): Figure {
  return { what, unit, values: [value], compare: "nothing", target: { atMost } };
}

function liveBytes(): number {
  return KEYS * BLOB_BYTES;
}

/** What this row sends. */
class Load {
  readonly connections: Connections;
  readonly control: Control;
  readonly #gateway: BenchGateway;
  #next = 0;

  constructor(gateway: BenchGateway) {
    this.#gateway = gateway;
    this.connections = new Connections(gateway.endpoint, { count: CONNECTIONS });
    this.control = new Control(gateway.door);
  }

  async send(method: "GET" | "PUT" | "DELETE", path: string): Promise<Buffer> {
    return await this.connections.send(await signed(this.#gateway.door, { method, path }));
  }

  async makeBucket(bucket: string): Promise<void> {
    await this.send("PUT", `/${bucket}`);
  }

  async keep(repo: string): Promise<void> {
    await this.control.keep({ repo, branch: "master" }, KEPT);
  }

  async tag(repo: string, name: string): Promise<void> {
    await this.#put(`/api/v1/repos/${repo}/branches/master/tags/${name}`, { force: false });
  }

  async overwritten(asked: { bucket: string; count: number; bytes: number }): Promise<void> {
    await this.connections.each(await this.overwrites(asked), () => {});
  }

  /** Each of the keys in turn, with bytes that never were. */
  overwrites({
    bucket,
    count,
    bytes,
  }: {
    bucket: string;
    count: number;
    bytes: number;
  }): Promise<SignedRequest[]> {
    return Promise.all(
      Array.from({ length: count }, () => {
        const path = `/${bucket}/key-${this.#next++ % KEYS}`;
        return signed(this.#gateway.door, { method: "PUT", path, body: randomBytes(bytes) });
      }),
    );
  }

  async close(): Promise<void> {
    await Promise.all([this.connections.close(), this.control.close()]);
  }

  async #put(path: string, json: unknown): Promise<void> {
    const body = Buffer.from(JSON.stringify(json));
    const payload = createHash("sha256").update(body).digest("hex");
    await this.connections.send(
      await signed(this.#gateway.door, { method: "PUT", path, body, payload, headers: JSON_TYPE }),
    );
  }
}
