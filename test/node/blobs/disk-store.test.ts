import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Miniflare } from "miniflare";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bundleWorker } from "../../../embedded/bundle/bundle.ts";
import { readRuntimeConfig } from "../../../embedded/bundle/wrangler-config.ts";
import { startRuntime } from "../../../embedded/workerd/runtime.ts";
import { workerdEnvironment } from "../../../embedded/workerd/workerd.ts";
import { ROOT } from "../../support/dev-server.ts";
import { freePort } from "../../support/ports.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { STORE_CASES } from "../../worker/blobs/store-cases.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
let runtime: Miniflare;
let endpoint: string;

beforeAll(async () => {
  const folder = scratchFolder();
  const [path, stateDir] = [join(folder, "blobs"), join(folder, "state")];
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
  for (const [index, { name }] of STORE_CASES.entries())
    test(name, async () => {
      const response = await fetch(`${endpoint}/${index}`);
      expect(`${response.status} ${await response.text()}`).toBe("204 ");
    });
});
