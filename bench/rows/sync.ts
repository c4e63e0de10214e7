import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { flush } from "../../embedded/data/flush.ts";
import { type BigBody, bigBody } from "../support/big-body.ts";
import { Connections } from "../support/closed-loop.ts";
import { interleaved } from "../support/pairs.ts";
import type { Bench, Row } from "../support/row.ts";
import { type BenchGateway, startBenchGateway } from "../support/servers.ts";
import { type SignedRequest, signed } from "../support/signing.ts";
import { transfer } from "../support/transfer.ts";

const SMALL_BYTES = 64 * 1024;
const LARGE_BYTES = { full: 1024 ** 3, quick: 256 * 1024 ** 2 } as const;
const CONNECTIONS = 16;
/** Requests of one half of a pair. */
const REQUESTS = { full: 1500, quick: 600 } as const;
const BUCKET = "master.sync";
/** Flushes of the disk itself that are measured. */
const FLUSHES = 50;

/** What it costs that bytes are on the disk before they are acknowledged. */
export const sync: Row = {
  name: "sync",
  title: "PUTs whose bytes are flushed before they are named, against --sync off on the same disk",
  async run(bench) {
    const gateways = {
      on: await startBenchGateway(),
      off: await startBenchGateway(undefined, { SLUICE_SYNC: "off" }),
    };
    try {
      return [
        {
          ...{ what: "flush of 64 KiB and its folder, the disk alone", unit: "ms" },
          ...{ values: Array.from({ length: FLUSHES }, flushMs), compare: "nothing", target: null },
        },
        {
          ...{ what: "PUT 64 KiB, 16 connections", unit: "req/s", ...COMMON },
          ...{ pairs: await smallPuts(bench, gateways), target: { atLeast: 0.7 } },
        },
        {
          ...{ what: `PUT ${LARGE_BYTES[bench.scale] / 1024 ** 2} MiB`, unit: "MB/s", ...COMMON },
          ...{ pairs: await largePuts(bench, gateways), target: { atLeast: 0.85 } },
        },
      ];
    } finally {
      await Promise.all([gateways.on.stop(), gateways.off.stop()]);
    }
  },
};

const COMMON = { against: "--sync off", compare: "ratio" } as const;

interface Gateways {
  readonly on: BenchGateway;
  readonly off: BenchGateway;
}

/** One file is written, flushed, and its folder flushed; milliseconds of the flushes. */
function flushMs(): number {
  const folder = mkdtempSync(join(tmpdir(), "sluice-flush-"));
  const file = openSync(join(folder, "file"), "w");
  try {
    writeSync(file, randomBytes(SMALL_BYTES));
    const startedAt = performance.now();
    fsyncSync(file);
    flush(folder);
    return performance.now() - startedAt;
  } finally {
    closeSync(file);
    rmSync(folder, { recursive: true });
  }
}

async function smallPuts({ pairs, scale }: Bench, gateways: Gateways) {
  const on = await side(gateways.on, REQUESTS[scale]);
  const off = await side(gateways.off, REQUESTS[scale]);
  try {
    return await interleaved(pairs, { ours: on.rate, other: off.rate, warmUps: 2 });
  } finally {
    await Promise.all([on.close(), off.close()]);
  }
}

async function side({ endpoint, door }: BenchGateway, count: number) {
  const connections = new Connections(endpoint, { count: CONNECTIONS });
  await connections.send(await signed(door, { method: "PUT", path: `/${BUCKET}` }));
  let batches = 0;
  const requests = (): Promise<SignedRequest[]> => {
    batches += 1;
    // Of keys and contents that were never there before: one that changes nothing would make no commit.
    const paths = Array.from({ length: count }, (_, n) => `/${BUCKET}/batch-${batches}/${n}`);
    return Promise.all(
      paths.map((path) => signed(door, { method: "PUT", path, body: randomBytes(SMALL_BYTES) })),
    );
  };
  return {
    rate: async () => connections.requestsPerSecond(await requests()),
    close: () => connections.close(),
  };
}

async function largePuts({ pairs, scale }: Bench, { on, off }: Gateways) {
  const body = bigBody(LARGE_BYTES[scale], { seed: "sync" });
  return interleaved(pairs, { ours: () => largePut(on, body), other: () => largePut(off, body) });
}

/** MB/s. What is there already would not be written twice, so the bucket is a new one each time. */
async function largePut({ endpoint, door, dropBlobs }: BenchGateway, body: BigBody): Promise<number> {
  const connections = new Connections(endpoint, { count: 1 });
  const bucket = `/master.sync-${randomBytes(4).toString("hex")}`;
  await connections
    .send(await signed(door, { method: "PUT", path: bucket }))
    .finally(() => connections.close());
  const request = await signed(door, {
    method: "PUT",
    path: `${bucket}/object`,
    payload: "UNSIGNED-PAYLOAD",
  });
  const { seconds } = await transfer(endpoint, { request, pieces: body.pieces(), size: body.size });
  dropBlobs();
  return body.size / 1e6 / seconds;
}
