// @module-tag rest
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { seededRandom, testSeed } from "../../support/random.ts";
import { KillLoad } from "./kill-load.ts";

/** The kill comes at a random moment of this span; long enough for a multi-chunk PUT to be under way, stored or done. */
const SPAN_MS = 700;

const ROUNDS = 20;

let server: DevServer;
beforeEach(async () => {
  server = await startDevServer();
});
afterEach(() => server?.stop());

test(`a gateway killed at ${ROUNDS} random moments keeps every acknowledged PUT whole and every commit whole or absent`, {
  timeout: 240_000,
}, async () => {
  const random = seededRandom(testSeed());
  const load = new KillLoad(server);
  await load.createBucket();
  const promised = () => load.acknowledged.puts > 0 && load.acknowledged.commits > 0;

  for (let round = 0; round < ROUNDS; round++) {
    const before = load.sent;
    const running = load.run(round);
    await pause(random() * SPAN_MS);
    // A few short rounds on a busy machine may end before anything was promised.
    if (round === ROUNDS - 1) await eventually("a PUT and a commit were acknowledged", promised);
    await server.kill9();
    await running;
    await server.restart();
    await load.verify(before);
  }

  // What an earlier round was promised, a later kill must not take.
  await load.verify({ puts: 0, commits: 0 });
  const { puts, commits } = load.acknowledged;
  console.log(`${puts} PUTs and ${commits} commits were acknowledged, of`, load.sent);
  expect(puts).toBeGreaterThan(0);
  expect(commits).toBeGreaterThan(0);
});
