// @module-tag rest
import { afterAll, beforeAll, expect, test } from "vitest";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { Tally } from "../tally.ts";
import { gatewayFuzz } from "./fuzzed.ts";

let server: DevServer;
let fuzz: Awaited<ReturnType<typeof gatewayFuzz>>;
beforeAll(async () => {
  server = await startDevServer();
  fuzz = await gatewayFuzz(server);
});
afterAll(() => server?.stop());

test.for([
  { name: "s3", runs: 12 },
  { name: "api", runs: 10 },
  { name: "archives", runs: 40 },
] as const)("whatever $name is asked, it answers in its form, what it acknowledged is there, and what it refused changed nothing", {
  timeout: 300_000,
}, async ({ name, runs }) => {
  const tally = new Tally();
  await fuzz[name].play({ runs }, tally);
  const { sent, good } = tally.sums;
  console.log(`${tally}\n${good} of ${sent} were done`);
  // What is refused at the first look finds nothing behind it.
  expect(good / sent).toBeGreaterThan(name === "archives" ? 0.05 : 0.3);
});
