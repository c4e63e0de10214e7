// @module-tag rest
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { describe, expect, test } from "vitest";
import { readHolder } from "../../../embedded/data/holder.ts";
import { type AccessKey, readRootKey } from "../../../embedded/data/keys.ts";
import { startGateway } from "../../../embedded/host.ts";
import { healthy, ROOT, sluice, sluiceCommand, sluiceEnv } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { ROOT_KEY } from "../../support/keys.ts";
import { memoryDisk } from "../../support/memory-disk.ts";
import { Disk, type Fate } from "../../support/plug/disk.ts";
import { lacksStrace, type Recording, readRecording, recorded } from "../../support/plug/recording.ts";
import { freePort } from "../../support/ports.ts";
import { start } from "../../support/processes.ts";
import { seededRandom, testSeed } from "../../support/random.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { letTimePass, storedState, tablesNaming } from "../../support/stored-state.ts";
import { PlugLoad } from "./plug-load.ts";

/** Disks that a gateway is started on; `npm run test:plug` has 1000. */
const IMAGES = Number(process.env.SLUICE_PLUG_IMAGES ?? 40);
/** Of each cut: all that was not flushed is lost, all is there, and mixes. */
const FATES = ["lost", "kept", "mixed", "mixed", "mixed"] as const;
/** Gateways that run at a time. */
const AT_ONCE = 2;
const ROUNDS = 3;
const GARBAGE = 12;
const MINUTE_MS = 60_000;
const HOST = "127.0.0.1";

const absent = await lacksStrace();
const silent = { debug() {}, info() {}, warn() {}, error() {} };

describe.skipIf(absent)("the plug pulled (strace)", () => {
  test(`a gateway started on any of ${IMAGES} disks that a power cut may leave has all that it acknowledged, and fsck is clean`, {
    timeout: 120_000 + IMAGES * 10_000,
  }, async () => {
    const random = seededRandom(testSeed());
    const first = await recordFirstStart();
    const later = await recordCollection();
    const cuts = IMAGES / FATES.length;
    const ofFirst = Math.floor(cuts / 2);
    const wrong = [
      ...(await verify(first, { cuts: cutsOf(first, { count: ofFirst, random }), random })),
      ...(await verify(later, { cuts: cutsOf(later, { count: cuts - ofFirst, random }), random })),
    ];
    expect(wrong).toEqual([]);
  });

  test("of a gateway with --sync off, a power cut loses files that were acknowledged", {
    timeout: 120_000,
  }, async () => {
    const random = seededRandom(testSeed());
    const run = await recordFirstStart("--sync", "off");
    const last = run.recording.after(Math.max(...run.load.acknowledgements()));
    const wrong = await verify(run, { cuts: [last], random });
    expect(wrong.filter((line) => line.startsWith("lost: "))).not.toEqual([]);
    expect(wrong.filter((line) => line.startsWith("kept: "))).toEqual([]);
  });
});

/** A run of a gateway, and what its clients know. */
interface Run {
  /** The folder that was recorded, as the run left it. */
  readonly folder: string;
  /** As it was before. */
  readonly disk: Disk;
  readonly recording: Recording;
  readonly load: PlugLoad;
  /** From when on the gateway was ready, with a key of its own. */
  readonly readyAt: number;
  readonly rootKey: AccessKey;
}

interface Recorded {
  /** The folder that is recorded, with the data folder in it. */
  readonly folder: string;
  readonly load: PlugLoad;
  readonly options?: readonly string[];
  /** What clients do, once the gateway is ready. */
  readonly work: () => Promise<void>;
}

/** The first start over a folder that is not there, and some load. */
async function recordFirstStart(...options: readonly string[]): Promise<Run> {
  const load = new PlugLoad();
  return record({
    ...{ folder: scratchFolder(), load, options },
    async work() {
      await load.begin();
      await load.run(ROUNDS);
    },
  });
}

/** A start over a folder with files whose bytes go now, beside some load. */
async function recordCollection(): Promise<Run> {
  const folder = scratchFolder();
  const data = dataIn(folder);
  const load = new PlugLoad();
  const gateway = await startGateway({ host: HOST, port: 0, dataDir: data, log: silent });
  load.moveTo({ endpoint: gateway.endpoint, ...gateway.rootKey });
  await load.begin();
  await load.leaveGarbage(GARBAGE);
  await eventually("all of it is to be deleted", () => storedState(data).condemned === GARBAGE);
  await gateway.stop();
  letTimePass(data, 5 * MINUTE_MS);
  const garbage = blobsIn(data);
  expect(garbage).toHaveLength(GARBAGE);
  return record({
    ...{ folder, load },
    async work() {
      await load.run(ROUNDS);
      await eventually("the bytes of deleted files are gone", () => {
        return !garbage.some((blob) => existsSync(join(data, "blobs", blob)));
      });
    },
  });
}

async function record({ folder, load, options = [], work }: Recorded): Promise<Run> {
  const data = dataIn(folder);
  const disk = new Disk(folder);
  const log = join(scratchFolder(), "recording");
  const port = await freePort();
  const endpoint = `http://${HOST}:${port}`;
  const command = [
    "dev",
    "--runners",
    "0",
    "--host",
    HOST,
    "--port",
    String(port),
    "--data",
    data,
    ...options,
  ];
  // The gateway makes a key of its own.
  const { HOME = "", NODE_COMPILE_CACHE = "" } = sluiceEnv({ endpoint, ...ROOT_KEY });
  const env = { HOME, NODE_COMPILE_CACHE };
  const started = start(recorded(sluiceCommand(command), log), { cwd: ROOT, env });
  try {
    await healthy(endpoint, started);
    const readyAt = Date.now();
    const rootKey = readRootKey(data);
    if (!rootKey) throw new Error("the gateway has no key");
    load.moveTo({ endpoint, ...rootKey });
    await work();
    // What records ends with the last that it records.
    process.kill(readHolder(data)?.pid ?? 0, "SIGKILL");
    await started.ended;
    return { folder, disk, recording: readRecording(log, folder), load, readyAt, rootKey };
  } finally {
    await started.stop();
  }
}

/** Some places of a recording, one in each stretch of it: before a flush, and after an acknowledgement. */
function cutsOf(
  { recording, load }: Run,
  { count, random }: { count: number; random: () => number },
): number[] {
  const flushes = recording.events.flatMap(({ kind, begun }) => (kind === "flush" ? [begun] : []));
  const answers = load.acknowledgements().map((at) => recording.after(at));
  const places = [...new Set([...flushes, ...answers])].sort((a, b) => a - b);
  const stretch = places.length / count;
  return Array.from({ length: count }, (_, n) => places[Math.floor((n + random()) * stretch)] ?? 0);
}

/** Starts a gateway on each disk that a cut may leave. Returns what is wrong with it, after the fate of what was not flushed. */
async function verify(
  run: Run,
  { cuts, random }: { cuts: readonly number[]; random: () => number },
): Promise<string[]> {
  const wrong: string[] = [];
  const events = run.recording.events.values();
  let next = events.next();
  for (const cut of cuts) {
    for (; !next.done && next.value.done < cut; next = events.next()) run.disk.apply(next.value);
    const images = FATES.map((fate) => {
      const folder = imageFolder();
      run.disk.leaveIn(folder, fateOf(fate, random));
      return { folder, fate };
    }).values();
    const one = async (): Promise<void> => {
      for (const { folder, fate } of images) {
        const found = await faultsOf(run, { folder, cut }).finally(() => removeScratch(folder));
        wrong.push(...found.map((fault) => `${fate}: cut at ${cut}: ${fault}`));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, one));
  }
  // With all that was recorded, the disk is as it really is: nothing escaped the recording.
  for (; !next.done; next = events.next()) run.disk.apply(next.value);
  const folder = imageFolder();
  run.disk.leaveIn(folder, fateOf("kept", random));
  expect(filesIn(folder)).toEqual(filesIn(run.folder));
  removeScratch(folder);
  return wrong;
}

function imageFolder(): string {
  return mkdtempSync(join(memoryDisk() ?? tmpdir(), "sluice-plug-"));
}

/** The digest of each file, but of what SQLite keeps in memory. */
function filesIn(folder: string): Record<string, string> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const paths = entries.flatMap((entry) => (entry.isFile() ? [join(entry.parentPath, entry.name)] : []));
  const lasting = paths.filter((path) => !path.endsWith("-shm")).sort();
  return Object.fromEntries(
    lasting.map((path) => [
      relative(folder, path),
      createHash("sha256").update(readFileSync(path)).digest("hex"),
    ]),
  );
}

function fateOf(fate: (typeof FATES)[number], random: () => number): Fate {
  if (fate !== "mixed") return () => fate === "kept";
  const share = random();
  return () => random() < share;
}

async function faultsOf(run: Run, { folder, cut }: { folder: string; cut: number }): Promise<string[]> {
  const data = dataIn(folder);
  const faults = [...run.disk.removed].flatMap((path) => {
    const blob = relative("data/blobs", path);
    const isForgotten = existsSync(join(folder, path)) && tablesNaming(data, [blob]).length === 0;
    return BLOB.test(blob) && isForgotten ? [`${blob} is back, and nothing names it`] : [];
  });
  const at = run.recording.at(cut);
  const gateway = await startGateway({ host: HOST, port: 0, dataDir: data, log: silent }).catch(String);
  if (typeof gateway === "string") return [...faults, `the gateway does not start: ${gateway}`];
  try {
    const { endpoint, rootKey } = gateway;
    if (at > run.readyAt) expect(rootKey).toEqual(run.rootKey);
    const door = { endpoint, ...rootKey };
    faults.push(...(await run.load.lost(door, at)));
    const { code, stdout, stderr } = await sluice(door, "fsck");
    if (code !== 0) faults.push(`fsck ends with ${code}: ${stdout}${stderr}`);
  } finally {
    await gateway.stop();
  }
  return faults;
}

const BLOB = /^b\/[^.]+\/[0-9a-f]{64}-/;

function blobsIn(data: string): string[] {
  const entries = readdirSync(join(data, "blobs"), { recursive: true, encoding: "utf8" });
  return entries.filter((entry) => BLOB.test(entry));
}

function dataIn(folder: string): string {
  return join(folder, "data");
}
