import { readdirSync, readFileSync } from "node:fs";
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import { suiteOf } from "./test/support/suite.ts";

const suite = suiteOf(process.env);

/** The files of which the quick suite has no test: it need not start them to learn that. */
const restFiles = readdirSync("test", { recursive: true, encoding: "utf8" })
  .map((file) => `test/${file}`)
  .filter((file) => /^test\/(worker|node)\/.*\.test\.ts$/.test(file))
  .filter((file) => readFileSync(file, "utf8").startsWith("// @module-tag rest\n"));
const exclude = suite === "quick" ? restFiles : [];

export default defineConfig(async () => ({
  test: {
    reporters: ["./test/support/reporter.ts"],
    tags: [{ name: "rest", description: "What `npm run test:rest` runs, and `npm test` does not." }],
    tagsFilter: { quick: ["!rest"], rest: ["rest"], full: [] }[suite],
    slowTestThreshold: 5000,
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
                SLUICE_ACCESS_KEY_ID: "test-root",
                SLUICE_SECRET_ACCESS_KEY: "test-root-secret",
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
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: "node",
          include: ["test/node/**/*.test.ts"],
          exclude,
          testTimeout: 60_000,
          hookTimeout: 60_000,
          // Mostly they wait: for leases to end, for processes. Each keeps to its own folders, ports and containers.
          maxWorkers: suite === "quick" ? 3 : 2,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
}));
