import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

export default defineConfig(async () => ({
  test: {
    reporters: ["default", "./test/support/reporter.ts"],
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
          setupFiles: ["test/worker/setup.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: "node",
          include: ["test/node/**/*.test.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          // Mostly they wait: for leases to end, for processes. Each keeps to its own folders, ports and containers.
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
}));
