// @module-tag rest
import { afterEach, expect, test } from "vitest";
import { type DevServer, startDevServer, startRunner } from "../../support/dev-server.ts";
import type { Started } from "../../support/processes.ts";
import { testSeed } from "../../support/random.ts";
import { soak } from "../../support/soak/soak.ts";

let server: DevServer | undefined;
let runner: Started | undefined;
afterEach(async () => {
  await runner?.stop();
  await server?.stop();
});

test("random operations side by side do what a model says, and leave nothing stuck", {
  timeout: 900_000,
}, async () => {
  server = await startDevServer();
  runner = startRunner(server, { node: "soak" });
  const { counts } = await soak({ door: server, seed: testSeed(), seconds: 30, rate: 200 });
  for (const name of ["put", "copy", "multipart", "open-commit", "commit", "update"]) {
    expect(counts[name] ?? 0, name).toBeGreaterThan(0);
  }
});
