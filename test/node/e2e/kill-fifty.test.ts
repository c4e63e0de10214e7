// @module-tag rest
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { seededRandom, testSeed } from "../../support/random.ts";
import { KillRound } from "./kill-rounds.ts";

const ROUNDS = 50;
/** One kill of so many comes while the pipelines are made, the others at a random moment of the span after that. */
const EARLY = 5;
const EARLY_SPAN_MS = 150;
const SPAN_MS = 500;

let server: DevServer;
beforeAll(async () => {
  server = await startDevServer();
});
afterAll(() => server?.stop());

test("a gateway killed at 50 random moments makes exactly one job for each commit, with one right commit", {
  timeout: 600_000,
}, async () => {
  const random = seededRandom(testSeed());
  const rounds: KillRound[] = [];
  for (let number = 0; number < ROUNDS; number++) {
    const round = new KillRound(server, { number, random });
    rounds.push(round);
    const stop = new AbortController();
    const isEarly = number % EARLY === 0;
    const creating = round.create();
    if (!isEarly) await creating;
    const living = Promise.all([creating, isEarly || round.write(), isEarly || round.work(stop.signal)]);
    await pause(random() * (isEarly ? EARLY_SPAN_MS : SPAN_MS));
    await server.kill9();
    stop.abort();
    await server.restart();
    await living;
    if (isEarly) await round.write();
  }
  // What a kill swallowed is leased again when its lease has run out: in all rounds at the same time.
  await Promise.all(rounds.map((round) => round.finish()));
  expect(rounds).toHaveLength(ROUNDS);
});
