import { readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import { smallLimits } from "./test/simulator/limits/vite.ts";
import { loadWasm } from "./test/simulator/wasm.ts";
import { LongestFirst } from "./test/support/longest-first.ts";
import { memoryDisk } from "./test/support/memory-disk.ts";
import { suiteOf } from "./test/support/suite.ts";

const suite = suiteOf(process.env);

/** The files of which the quick suite has no test: it need not start them to learn that. */
const restFiles = readdirSync("test", { recursive: true, encoding: "utf8" })
  .map((file) => `test/${file}`)
  .filter((file) => /^test\/(worker|node|fuzz)\/.*\.test\.ts$/.test(file))
  .filter((file) => readFileSync(file, "utf8").startsWith("// @module-tag rest\n"));
const exclude = suite === "quick" ? restFiles : [];

/** Where the node tests put files: those of gigabytes among them belong on a disk. */
const NODE_TMPDIR = tmpdir();
// The runtime of the worker tests keeps its objects in the temporary folder of this process.
process.env.TMPDIR = memoryDisk() ?? NODE_TMPDIR;

/** Of tests in Node. Mostly they wait: for leases to end, for processes. Each keeps to its own folders, ports and containers. */
const maxWorkers = suite === "quick" ? 3 : 2;

/** When a wait for something gives up. It only bounds a hang: the default of a second fails on a slow machine. */
const patient = { poll: { timeout: 45_000 } };

export default defineConfig(async () => ({
  test: {
    reporters: ["./test/support/reporter.ts"],
    tags: [{ name: "rest", description: "What `npm run test:rest` runs, and `npm test` does not." }],
    tagsFilter: { quick: ["!rest"], rest: ["rest"], full: [] }[suite],
    slowTestThreshold: 5000,
    sequence: { sequencer: LongestFirst },
    // What the gateway and the runner log is shown for a test that fails.
    silent: "passed-only" as const,
    projects: [
      {
        plugins: [
          cloudflareTest({
            remoteBindings: false,
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: {
              cf: false,
              bindings: {
                TEST_MIGRATIONS: await readD1Migrations("./migrations"),
                TEST_COST_PAGE: readFileSync("docs/cost.md", "utf8"),
                SLUICE_ACCESS_KEY_ID: "test-root",
                SLUICE_SECRET_ACCESS_KEY: "test-root-secret",
                SLUICE_REQUEST_LOG: "off",
                SLUICE_BLOB_CACHE: "off",
                SLUICE_ROW_CACHE: "off",
              },
            },
          }),
        ],
        test: {
          name: "worker",
          include: ["test/worker/**/*.test.ts"],
          exclude,
          setupFiles: ["test/worker/setup.ts"],
          // A runtime's start takes longer than most files: as many as there are workers share them all.
          isolate: false,
          maxWorkers: 2,
          expect: patient,
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: "node",
          include: ["test/node/**/*.test.ts", "test/fuzz/**/*.test.ts"],
          exclude,
          env: { TMPDIR: NODE_TMPDIR },
          expect: patient,
          testTimeout: 60_000,
          hookTimeout: 60_000,
          maxWorkers,
          sequence: { groupOrder: 1 },
        },
      },
      {
        plugins: [
          {
            name: "wasm",
            enforce: "pre" as const,
            load: (id: string) => (id.endsWith(".wasm") ? loadWasm(id) : null),
          },
          smallLimits(),
        ],
        test: {
          name: "simulator",
          include: ["test/simulator/**/*.test.ts"],
          alias: { "cloudflare:workers": join(import.meta.dirname, "test/simulator/platform/workers.ts") },
          testTimeout: 300_000,
          maxWorkers,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
}));
