import { randomUUID } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Command } from "commander";
import { bundleWorker } from "../embedded/bundle/bundle.ts";
import { applyMigrations } from "../embedded/data/migrations.ts";
import { waitUntilHealthy } from "../embedded/health.ts";
import { claimPort } from "../embedded/port.ts";
import { type Binding, readRuntimeConfig, startRuntime, WORKER_NAME } from "../embedded/workerd/runtime.ts";
import { workerdEnvironment } from "../embedded/workerd/workerd.ts";
import { type Door, ROOT_KEY } from "../test/support/keys.ts";
import { removeScratch, scratchFolder } from "../test/support/scratch.ts";
import { HOST, log, ROOT } from "./support/servers.ts";
import { signed, type ToSign } from "./support/signing.ts";
import { percentile } from "./support/stats.ts";

/*
 * A planet on one machine: the gateway in three regions, each a Worker of its own with what it keeps near its readers, over one
 * set of objects, one D1 and one bucket of R2, which are all in Virginia. Each call of these from elsewhere is a far trip, which
 * takes as long as the wire does.
 */

/**
 * Round trips to Virginia in milliseconds: medians of a month between Azure's regions East US, Germany West Central and Australia East, as
 * of 2023-07-21 (https://learn.microsoft.com/en-us/azure/networking/azure-network-latency).
 */
const FAR_MS = { Virginia: 0, Frankfurt: 87, Sydney: 204 } as const;
/** A little longer than anything is answered without asking. */
const LATER_MS = 5100;
const FRESH = "master.planet";
const NEAR = "near.planet";
const WHOLE_BYTES = 64 * 1024;
const SMALL_BYTES = 1024;

interface Sample {
  readonly ms: number;
  readonly trips: number;
}

interface Region {
  readonly name: string;
  readonly door: Door;
  readonly samples: Map<string, Sample[]>;
}

/** A read, of the first file of its own up to the last. */
interface Read {
  readonly what: string;
  readonly method: "GET" | "HEAD";
  readonly path: (file: string) => string;
  readonly isBare?: true;
}

await new Command("npm run planet --")
  .description(
    "Asks a gateway in three regions, with the wire between them simulated, and prints how long it takes.",
  )
  .option("--times <n>", "how often each is asked", Number, 20)
  .action(async ({ times }: { times: number }) => {
    const { regions, stop } = await startRegions();
    try {
      await measure(regions, times);
      print(regions);
    } finally {
      await stop();
    }
  })
  .parseAsync();

async function startRegions(): Promise<{ regions: Region[]; stop(): Promise<void> }> {
  const dataDir = scratchFolder();
  const stateDir = join(dataDir, "state");
  mkdirSync(stateDir);
  const code = await bundleWorker(fileURLToPath(new URL("workers/region.js", import.meta.url)));
  const home = await bundleWorker(join(ROOT, "worker/index.ts"));
  const text = (value: string): Binding => ({ type: "text", value });
  const object = (exportName: string): Binding => ({
    type: "durable-object",
    worker: WORKER_NAME,
    exportName,
  });
  const bindings = {
    BRANCH: object("Branch"),
    PIPELINE: object("Pipeline"),
    FLEET: object("Fleet"),
    DB: { type: "d1", id: "sluice" },
    BLOBS: { type: "r2", name: "blobs" },
    SLUICE_ACCESS_KEY_ID: text(ROOT_KEY.accessKeyId),
    SLUICE_SECRET_ACCESS_KEY: text(ROOT_KEY.secretAccessKey),
    SLUICE_REQUEST_LOG: text("off"),
  } satisfies Record<string, Binding>;
  const regions: Region[] = [];
  const others: Record<string, object> = {};
  for (const [name, ms] of Object.entries(FAR_MS)) {
    const port = await claimPort(HOST, 0);
    others[name.toLowerCase()] = {
      code,
      bindings: { ...bindings, REGION: text(name), FAR_MS: text(`${ms}`) },
      objectClasses: [],
      listen: { host: HOST, port },
    };
    regions.push({ name, door: { endpoint: `http://${HOST}:${port}`, ...ROOT_KEY }, samples: new Map() });
  }
  const runtime = await startRuntime({
    ...readRuntimeConfig(join(ROOT, "wrangler.toml")),
    ...{ code: home, bindings, objectClasses: ["Branch", "Pipeline", "Fleet"] },
    others: others as never,
    stateDir,
    workerdEnv: workerdEnvironment(dataDir),
    log,
  });
  const stop = async () => {
    await runtime.dispose();
    removeScratch(dataDir);
  };
  try {
    await applyMigrations(await runtime.getD1Database("DB"), join(ROOT, "migrations"));
    await Promise.all(regions.map(({ door }) => waitUntilHealthy(door.endpoint)));
    return { regions, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function send({ door }: Region, request: ToSign): Promise<Response> {
  const { method, path, headers, body } = await signed(door, request);
  const answer = await fetch(`${door.endpoint}${path}`, { method, headers, body });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer;
}

/** Asks one thing, and notes how long it took and how often something was far for it. */
async function sample(region: Region, { what, ...request }: ToSign & { what: string }): Promise<void> {
  const { method, path, headers, body } = await signed(region.door, request);
  await tripsOf(region);
  const begun = performance.now();
  const answer = await fetch(`${region.door.endpoint}${path}`, { method, headers, body });
  await answer.arrayBuffer();
  const ms = performance.now() - begun;
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status}`);
  const all = region.samples.get(what) ?? [];
  region.samples.set(what, [...all, { ms, trips: await tripsOf(region) }]);
}

async function tripsOf({ door }: Region): Promise<number> {
  const { trips } = (await (await fetch(`${door.endpoint}/far`)).json()) as { trips: number };
  return trips;
}

async function measure(regions: readonly Region[], times: number): Promise<void> {
  const [home] = regions;
  if (!home) throw new Error("there is no region");
  for (const bucket of [FRESH, NEAR]) await send(home, { method: "PUT", path: `/${bucket}` });
  const settings = "/api/v1/repos/planet/branches/near/reads";
  const body = Buffer.from(JSON.stringify({ reads: "near" }));
  await send(home, { method: "PUT", path: settings, body, headers: { "content-type": "application/json" } });
  const reads = readsOf();
  const files = (read: Read) => Array.from({ length: times }, (_, n) => `${nameOf(read)}-${n}`);
  let commit = "";
  for (const bucket of [FRESH, NEAR]) {
    for (const file of reads.filter(({ isBare }) => !isBare).flatMap(files)) {
      const answer = await send(home, {
        method: "PUT",
        path: `/${bucket}/${file}`,
        body: bodyOf(WHOLE_BYTES),
      });
      if (bucket === FRESH) commit = answer.headers.get("x-amz-version-id") ?? "";
    }
  }
  for (const file of reads.filter(({ isBare }) => isBare).flatMap(files))
    await send(home, { method: "PUT", path: `/bare/${file}`, body: bodyOf(WHOLE_BYTES) });
  await Promise.all(
    regions.map(async (region) => {
      const ask = async (read: Read, file: string, when: string) =>
        await sample(region, {
          what: `${read.what}, ${when}`,
          method: read.method,
          path: read.path(file).replace("COMMIT", commit.toLowerCase()),
        });
      for (const read of reads) {
        for (const file of files(read)) {
          await ask(read, file, "first");
          if (!read.isBare) await ask(read, file, "again within 5 s");
        }
      }
      await setTimeout(LATER_MS);
      for (const read of reads) {
        if (read.isBare) continue;
        for (const file of files(read)) await ask(read, file, "again later");
      }
      for (const file of Array.from({ length: times }, (_, n) => `${region.name}-${n}`)) {
        const path = `/${FRESH}/put-${file}`;
        await sample(region, { what: "PUT of 1 KiB", method: "PUT", path, body: bodyOf(SMALL_BYTES) });
        await sample(region, {
          what: "PUT of 64 KiB",
          method: "PUT",
          path: `${path}-whole`,
          body: bodyOf(WHOLE_BYTES),
        });
        await sample(region, {
          what: "bare R2: PUT",
          method: "PUT",
          path: `/bare/put-${file}`,
          body: bodyOf(WHOLE_BYTES),
        });
      }
    }),
  );
}

/** Nobody else has these bytes. */
function bodyOf(bytes: number): Buffer {
  return Buffer.alloc(bytes, `${randomUUID()} `);
}

function readsOf(): Read[] {
  const methods = ["GET", "HEAD"] as const;
  return methods.flatMap((method): Read[] => [
    { what: `${method}, bucket of a commit`, method, path: (file) => `/COMMIT.${FRESH}/${file}` },
    { what: `${method}, newest state`, method, path: (file) => `/${FRESH}/${file}` },
    { what: `${method}, near reads`, method, path: (file) => `/${NEAR}/${file}` },
    { what: `bare R2: ${method}`, method, path: (file) => `/bare/${file}`, isBare: true },
  ]);
}

function nameOf({ what }: Read): string {
  return what.replace(/\W+/g, "-");
}

/** A table as the documentation has it: far trips, and the median and the slowest hundredth in milliseconds. */
function print(regions: readonly Region[]): void {
  console.log("*simulated*\n");
  console.log(`| far trips, p50 / p99 ms | ${regions.map(({ name }) => name).join(" | ")} |`);
  console.log(`|---|${regions.map(() => "---|").join("")}`);
  const asked = [...(regions[0]?.samples.keys() ?? [])];
  const sorted = [...Map.groupBy(asked, (what) => what.replace(/, (first|again.*)$/, "")).values()].flat();
  for (const what of sorted) {
    const cells = regions.map(({ samples }) => {
      const all = samples.get(what) ?? [];
      const of = (percent: number) =>
        Math.round(
          percentile(
            all.map(({ ms }) => ms),
            percent,
          ),
        );
      return `${percentile(
        all.map(({ trips }) => trips),
        50,
      )}, ${of(50)} / ${of(99)}`;
    });
    console.log(`| ${what} | ${cells.join(" | ")} |`);
  }
}
