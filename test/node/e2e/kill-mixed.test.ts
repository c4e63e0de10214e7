// @module-tag rest
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type DevServer, sluice, startDevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { seededRandom, testSeed } from "../../support/random.ts";
import { alarmTimes, letTimePass, overdue, storedState } from "../../support/stored-state.ts";
import { MixedLoad } from "./kill-mixed.ts";

/** `npm run test:kills` has 200. */
const KILLS = Number(process.env.SLUICE_KILLS ?? 12);
/** The kill comes at a random moment of this span. */
const SPAN_MS = 1500;
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** More times than work of a branch waits for one after the other. */
const MOST_RESTS = 15;
/** How long the gateway is away after a kill: graces and uploads run out in the middle of the work. */
const AWAY_MS = [0, 0, 30_000, 3 * MINUTE_MS, 90 * MINUTE_MS] as const;

let server: DevServer;
beforeAll(async () => {
  server = await startDevServer();
});
afterAll(() => server?.stop());

test(`a gateway killed ${KILLS} times under mixed load keeps what it acknowledged, whole, and nothing else`, {
  timeout: 60_000 + KILLS * 30_000,
}, async () => {
  const random = seededRandom(testSeed());
  const load = new MixedLoad(server, { random });
  await load.begin();
  for (let kill = 0; kill < KILLS; kill++) {
    const running = load.run();
    await pause(random() * SPAN_MS);
    await server.kill9();
    await running;
    expect(storedState(server.data).missing).toEqual([]);
    letTimePass(server.data, load.oneOf(AWAY_MS));
    await server.restart();
    await load.verify();
  }
  expect(load.acknowledged).toBeGreaterThan(0);
  await rest();
  await load.verify();
  const { missing, orphans, named, condemned } = storedState(server.data);
  console.log(`${load.acknowledged} rounds of work, ${named} blobs, ${orphans.length} of no name`);
  expect({ missing, condemned, orphans }).toEqual({ missing: [], condemned: 0, orphans: [] });
  expect(await sluice(server, "fsck")).toMatchObject({ code: 0 });
});

/** Time passes until no object has anything left to do: what runs out has run out, and has been given back. */
async function rest(): Promise<void> {
  for (let time = 0; time < MOST_RESTS; time++) {
    if (alarmTimes(server.data).length === 0) return;
    await server.kill9();
    letTimePass(server.data, 8 * DAY_MS);
    await server.restart();
    await eventually("nothing is due any more", () => {
      const left = overdue(server.data);
      if (left.length > 0) throw new Error(left.join(", "));
      return true;
    });
  }
  throw new Error("an alarm stands for ever");
}
