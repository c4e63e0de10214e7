import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout } from "node:timers/promises";
import { bucketName } from "../../protocol/names.ts";
import { scratchFolder } from "../../test/support/scratch.ts";
import { stageTexts } from "../support/bulk-commit.ts";
import { Connections } from "../support/closed-loop.ts";
import { Control } from "../support/control.ts";
import type { Figure } from "../support/figure.ts";
import type { Bench, Row } from "../support/row.ts";
import { type BenchGateway, startBenchGateway } from "../support/servers.ts";
import { signed, type ToSign } from "../support/signing.ts";
import { bytesIn } from "../support/stored-bytes.ts";
import {
  joinWaits,
  type Probe,
  probeDuring,
  type Waits,
  waitFigures,
  waitsWithout,
} from "../support/waits.ts";

const ADDRESS = { repo: "rows", branch: "master" };
const BUCKET = bucketName(ADDRESS);
/** Each commit of the history overwrites all files; those of `blobs` are too large for a row. */
const SCALE = {
  full: { commits: 300, rows: 6700, blobs: 300 },
  quick: { commits: 130, rows: 1000, blobs: 50 },
} as const;
const BLOB_BYTES = 5000;
const SMALL_BYTES = 100;
const KEPT = 100;
const CONNECTIONS = 16;
/** What others wait for. */
const AT_MOST_MS = 100;
/** How near the rows and the bytes come to what is kept. */
const NEAR = 0.05;
/** Rows go at a quarter of the gateway's time at most, and others have the rest. */
const GIVE_UP_MS = 60 * 60 * 1000;
/** How long the same calls are made before. */
const ALONE_MS = 60_000;
const LOOK_MS = 2000;

/** A long history that is given up at once, down to the newest commits. */
export const retentionRows: Row = {
  name: "retention-rows",
  title:
    "two million rows of history, of which a branch keeps 100 commits: what is left, and how long others wait",
  onlyWhenNamed: true,
  async run(bench) {
    const dataDir = scratchFolder();
    const gateway = await startBenchGateway(dataDir);
    const control = new Control(gateway.door);
    const connections = new Connections(gateway.endpoint, { count: CONNECTIONS });
    try {
      return await shrink(bench, { gateway, control, connections, dataDir });
    } finally {
      await connections.close();
      await control.close();
      await gateway.stop();
    }
  },
};

interface Setting {
  readonly gateway: BenchGateway;
  readonly control: Control;
  readonly connections: Connections;
  readonly dataDir: string;
}

async function shrink(bench: Bench, setting: Setting): Promise<Figure[]> {
  const { commits, rows, blobs } = SCALE[bench.scale];
  const { connections, dataDir } = setting;
  const send = async (request: ToSign): Promise<void> => {
    await connections.send(await signed(setting.gateway.door, request));
  };
  await setting.control.createBranch(ADDRESS);
  const started = performance.now();
  for (let version = 0; version < commits; version++) await writeCommit(bench, { ...setting, send, version });
  const before = storedIn(dataDir);
  bench.say(`${before.rows} rows and ${before.bytes} bytes of blobs in ${secondsSince(started)} s`);

  const { waits: alone } = await probeDuring(probes(send), () => setTimeout(ALONE_MS));
  await setting.control.keep(ADDRESS, KEPT);
  const asked = performance.now();
  // Each PUT is a commit: soon the newest 100 are all of that one file.
  const kept = { rows: rows + blobs + KEPT + 1, bytes: blobs * BLOB_BYTES };
  // Nobody is probed while what is stored is counted, which takes this process half a second.
  let waits: readonly Waits[] = [];
  do {
    const more = await probeDuring(probes(send), () => setTimeout(LOOK_MS));
    waits = joinWaits(waits, more.waits);
  } while (!isNear(storedIn(dataDir), kept) && performance.now() - asked <= GIVE_UP_MS);
  const left = storedIn(dataDir);
  bench.say(`${left.rows} rows and ${left.bytes} bytes of blobs after ${secondsSince(asked)} s`);
  return [
    { what: "rows before", unit: "rows", values: [before.rows], compare: "nothing", target: null },
    {
      what: "until what is left is what is kept",
      unit: "s",
      values: [secondsSince(asked)],
      compare: "nothing",
      target: null,
    },
    offBy("rows left", left.rows / kept.rows),
    offBy("bytes of blobs left", left.bytes / kept.bytes),
    ...waitFigures(waits, { atMostMs: AT_MOST_MS }),
    ...waitsWithout(alone),
  ];
}

function probes(send: (request: ToSign) => Promise<void>): Probe[] {
  const file = `/${BUCKET}/${blobPath(0)}`;
  return [
    { what: "GET of a file", call: () => send({ method: "GET", path: file }) },
    {
      what: "list of a folder",
      call: () => send({ method: "GET", path: `/${BUCKET}?list-type=2&prefix=blob` }),
    },
    {
      what: "PUT into the branch",
      call: () => send({ method: "PUT", path: `/${BUCKET}/probe`, body: randomBytes(SMALL_BYTES) }),
    },
  ];
}

/** One commit that overwrites every file. */
async function writeCommit(
  bench: Bench,
  { control, send, version }: Setting & { send: (request: ToSign) => Promise<void>; version: number },
): Promise<void> {
  const { rows, blobs } = SCALE[bench.scale];
  const session = await control.openSession(ADDRESS);
  const puts = Array.from({ length: blobs }, (_, file) => file);
  const putNext = async (): Promise<void> => {
    for (let file = puts.pop(); file !== undefined; file = puts.pop()) {
      const path = `/${session.toLowerCase()}.${BUCKET}/${blobPath(file)}`;
      await send({ method: "PUT", path, body: randomBytes(BLOB_BYTES) });
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, putNext));
  const files = Array.from({ length: rows }, (_, file) => ({
    path: `row/${file}`,
    text: `${file} in version ${version}`,
  }));
  await stageTexts(control, { address: ADDRESS, session, files });
  await control.finishSession(ADDRESS, session);
}

function blobPath(file: number): string {
  return `blob/${file}`;
}

interface Stored {
  /** Versions of files, in all branches. */
  readonly rows: number;
  readonly bytes: number;
}

function isNear(stored: Stored, kept: Stored): boolean {
  return [stored.rows / kept.rows, stored.bytes / kept.bytes].every((share) => Math.abs(share - 1) <= NEAR);
}

/** As it lies in the data folder. */
function storedIn(dataDir: string): Stored {
  const folder = join(dataDir, "state/do/sluice-Branch");
  let rows = 0;
  for (const name of readdirSync(folder)) {
    if (!/^[0-9a-f]{64}\.sqlite$/.test(name)) continue;
    const database = new DatabaseSync(join(folder, name), { readOnly: true });
    rows += Number(database.prepare("SELECT count(*) AS n FROM files").get()?.n);
    database.close();
  }
  return { rows, bytes: bytesIn(join(dataDir, "blobs")) };
}

/** Too little would be as bad as too much. */
function offBy(what: string, share: number): Figure {
  return {
    what: `${what}: off from what is kept, of it`,
    unit: "x",
    values: [Math.abs(share - 1)],
    compare: "nothing",
    target: { atMost: NEAR },
  };
}

function secondsSince(started: number): number {
  return Math.round((performance.now() - started) / 1000);
}
