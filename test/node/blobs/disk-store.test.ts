import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Miniflare } from "miniflare";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bundleWorker } from "../../../embedded/bundle/bundle.ts";
import { removePartials } from "../../../embedded/data/folders.ts";
import { readRuntimeConfig, startRuntime } from "../../../embedded/workerd/runtime.ts";
import { workerdEnvironment } from "../../../embedded/workerd/workerd.ts";
import { ROOT } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { freePort } from "../../support/ports.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { READ_CASE_NAMES } from "../../worker/blobs/read-case-names.ts";
import { STORE_CASES } from "../../worker/blobs/store-cases.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
let runtime: Miniflare;
let endpoint: string;
let path: string;

beforeAll(async () => {
  const folder = scratchFolder();
  const stateDir = join(folder, "state");
  path = join(folder, "blobs");
  for (const each of [path, stateDir]) mkdirSync(each);
  const listen = { host: "127.0.0.1", port: await freePort() };
  runtime = await startRuntime({
    ...readRuntimeConfig(join(ROOT, "wrangler.toml")),
    code: await bundleWorker(join(ROOT, "test/worker/blobs/disk-case-worker.ts")),
    stateDir,
    workerdEnv: workerdEnvironment(folder),
    bindings: { DISK: { type: "disk", path, writable: true } },
    objectClasses: [],
    listen,
    log: silent,
  });
  endpoint = `http://${listen.host}:${listen.port}`;
});

afterAll(() => runtime?.dispose());

describe("a blob store on the disk service", () => {
  const names = [...STORE_CASES.map(({ name }) => name), ...READ_CASE_NAMES];
  for (const [index, name] of names.entries())
    test(name, async () => {
      const response = await fetch(`${endpoint}/${index}`);
      expect(`${response.status} ${await response.text()}`).toBe("204 ");
    });

  test("leaves a file that is known as partial if a blob is not written to its end", async () => {
    const [whole, stalled] = ["whole", "stalled"];
    const inFolder = (): string[] => readdirSync(join(path, "b/a7"));
    mkdirSync(join(path, "b/a7"), { recursive: true });
    writeFileSync(join(path, "b/a7", whole), "bytes");
    const sending = new AbortController();
    fetch(`${endpoint}/${stalled}`, { signal: sending.signal }).catch(() => undefined);
    await eventually("a part of it is on disk", () => inFolder().some((name) => name.includes(stalled)));
    expect(inFolder()).not.toContain(stalled);
    const now = { wall: Date.now() + 60_000, steady: 0 };
    await removePartials(path, { start: now, now: () => now });
    expect(inFolder()).toEqual([whole]);
    sending.abort();
  });
});
