import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { seededRandom, testSeed } from "../../support/random.ts";
import { REST } from "../../support/suite.ts";
import { KillLoad } from "./kill-load.ts";

/** The kill comes at a random moment of this span; long enough for a multi-chunk PUT to be under way, stored or done. */
const SPAN_MS = 700;

let server: DevServer;
beforeEach(async () => {
  server = await startDevServer();
});
afterEach(() => server?.stop());

const TIMEOUT = { timeout: 240_000 };
test(
  "a gateway killed at 3 random moments keeps every acknowledged PUT whole and every commit whole or absent",
  TIMEOUT,
  () => killed({ rounds: 3 }),
);
test(
  "a gateway killed at 20 random moments keeps every acknowledged PUT whole and every commit whole or absent",
  {
    ...REST,
    ...TIMEOUT,
  },
  () => killed({ rounds: 20 }),
);

async function killed({ rounds }: { rounds: number }): Promise<void> {
  const random = seededRandom(testSeed());
  const load = new KillLoad(server);
  await load.createBucket();
  const promised = () => load.acknowledged.puts > 0 && load.acknowledged.commits > 0;

  for (let round = 0; round < rounds; round++) {
    const before = load.sent;
    const running = load.run(round);
    await pause(random() * SPAN_MS);
    // A few short rounds on a busy machine may end before anything was promised.
    if (round === rounds - 1) await eventually("a PUT and a commit were acknowledged", promised);
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
}
