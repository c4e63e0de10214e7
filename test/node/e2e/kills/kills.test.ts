// @module-tag rest
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Control } from "../../../support/control.ts";
import { type DevServer, sluice, sluiceOk, startDevServer } from "../../../support/dev-server.ts";
import { eventually } from "../../../support/eventually.ts";
import { foundIn } from "../../../support/found-in.ts";
import { seededRandom, testSeed } from "../../../support/random.ts";
import { S3 } from "../../../support/s3.ts";
import { alarmTimes, letTimePass, overdue, storedState } from "../../../support/stored-state.ts";
import { wholeDigest } from "./contents.ts";
import { Deaths } from "./deaths.ts";
import { Gate } from "./gate.ts";
import { History } from "./history.ts";
import { Jobs } from "./jobs.ts";
import { Load, REPO } from "./load.ts";
import { readKept, readOn } from "./log.ts";
import { givenUp, shortenHistories } from "./retention.ts";
import { eraseAll, erasedLeft, erasures } from "./works/erasures.ts";
import { BULK, FILES } from "./works/files.ts";
import { FORKS, finishFork, readTag, retire } from "./works/forks.ts";
import { OPEN_COMMITS, REVERTS } from "./works/open-commits.ts";
import { PARTS } from "./works/parts.ts";

/** `npm run test:kills` has 1,000. */
const KILLS = Number(process.env.SLUICE_KILLS ?? 16);
const KILLS_PER_ROUND = 8;
/** Writes to one branch that are answered before the last kill of a round. */
const LEAST_ANSWERED = 8;
/** Rounds after which fsck looks at everything. */
const ROUNDS_PER_FSCK = 10;
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** More times than work of a branch waits for one after the other. */
const MOST_RESTS = 15;
/** At multiples of this, output branches ask about what outcomes share: by the time in an id, which no test makes pass. */
const ASKED_TOGETHER_MS = 10 * MINUTE_MS;
/** How long the gateway is away after a kill: graces, leases and uploads run out in the middle of the work. */
const AWAY_MS = [0, 30_000, 3 * MINUTE_MS, 90 * MINUTE_MS] as const;
/** What all has that is erased, and nothing else. */
const SECRET = `gone-${randomUUID()}`;

let server: DevServer;
beforeAll(async () => {
  server = await startDevServer();
});
afterAll(() => server?.stop());

test(`${KILLS} kills of gateway, workerd and runners under mixed load lose nothing, mix nothing and leave nothing`, {
  timeout: 180_000 + KILLS * 10_000,
}, async () => {
  const random = seededRandom(testSeed());
  const gate = new Gate();
  const deaths = new Deaths(server, { gate, random });
  const history = new History();
  const jobs = new Jobs(server, history);
  const works = [...FILES, ...FILES, BULK, PARTS, OPEN_COMMITS, REVERTS, FORKS, erasures(SECRET)];
  const load = new Load(server, { gate, random, history, works: [...works, jobs.work, jobs.work] });
  await load.begin();
  await jobs.begin(load);
  try {
    for (let round = 1; deaths.all < KILLS; round++) {
      const running = load.run();
      // On a busy machine a round may come to its end before anything was promised.
      const promised = () => history.answered(`master.${REPO}`) >= LEAST_ANSWERED;
      await deaths.round(Math.min(KILLS_PER_ROUND, KILLS - deaths.all), () =>
        eventually("clients have been answered", promised),
      );
      await running;
      expect(storedState(server.data).missing).toEqual([]);
      // At last all leases of runners that are gone run out.
      await stayAway(deaths.all < KILLS ? load.oneOf(AWAY_MS) : 3 * MINUTE_MS);
      await deaths.restart();
      await compare(load, jobs);
      if (round % ROUNDS_PER_FSCK === 0) expect(await sluice(server, "fsck")).toMatchObject({ code: 0 });
    }
    await jobs.settle();
    await compare(load, jobs);
  } finally {
    tell(history, { deaths, jobs });
    await deaths.end();
  }
  expect(history.commits).toBeGreaterThan(0);
  expect(jobs.count).toBeGreaterThan(0);
  expect(await givenUp(load)).toBeGreaterThan(0);
  await rest();
  await sluiceOk(server, "admin", "scrub");
  expect(foundIn(server.data, [SECRET])).toEqual({});
  for (const life of history.lives.values()) expect(await readKept(server, life, wholeDigest)).toEqual([]);
  const { missing, orphans, condemned } = storedState(server.data);
  expect({ missing, orphans, condemned }).toEqual({ missing: [], orphans: [], condemned: 0 });
  expect(await sluice(server, "fsck")).toMatchObject({ code: 0 });

  await jobs.end();
  const s3 = new S3(server);
  for (const bucket of await s3.buckets()) expect((await s3.ask("DELETE", `/${bucket}`)).status).toBe(204);
  await rest();
  expect(storedState(server.data)).toEqual({ missing: [], orphans: [], named: 0, condemned: 0 });
});

/** Holds what the logs of all branches have to what was asked and answered; an error says what is wrong. */
async function compare(load: Load, jobs: Jobs): Promise<void> {
  const { history, door } = load;
  await eraseAll(load);
  await finishFork(load);
  await Promise.all(
    [...history.lives.values()].map(async (life) =>
      history.faults.push(...(await readOn(door, life, wholeDigest))),
    ),
  );
  history.compare();
  await shortenHistories(load, async () => {
    await readTag(load);
    history.faults.push(...(await erasedLeft(load)));
    await jobs.look();
  });
  if (history.faults.length > 0) throw new Error(history.faults.join("\n"));
  retire(load);
}

function tell(history: History, { deaths, jobs }: { deaths: Deaths; jobs: Jobs }): void {
  const { gateway, workerd, runner } = deaths.counts;
  const of = (what: string) => history.faults.filter((fault) => fault.includes(what)).length;
  const tally = [...history.tally].sort().map(([what, count]) => `  ${what}: ${count}`);
  console.log(
    `kills: ${gateway} of the gateway, ${workerd} of workerd, ${runner} of runners; ` +
      `${history.commits} commits, ${jobs.count} jobs; ${history.faults.length} faults, ` +
      `${of("lost")} lost, ${of("mixed")} mixed\n${tally.join("\n")}`,
  );
}

/** Lets time pass for a gateway that was killed. */
async function stayAway(ms: number): Promise<void> {
  // What was killed may hold a file for another moment.
  await eventually("the files are free", () => {
    letTimePass(server.data, ms);
    return true;
  });
}

/** The gateway is away for so long, and whatever waits for it is done. */
async function passTime(ms: number): Promise<void> {
  await server.kill9();
  await stayAway(ms);
  await server.restart();
  await eventually("nothing is due any more", () => {
    const left = overdue(server.data);
    if (left.length > 0) throw new Error(left.join(", "));
    return true;
  });
}

/** Time passes until no object has anything left to do: what runs out has run out, and has been given back. */
async function rest(): Promise<void> {
  for (let time = 0; time < MOST_RESTS; time++) {
    if (alarmTimes(server.data).every((at) => at % ASKED_TOGETHER_MS === 0)) return;
    await passTime(8 * DAY_MS);
  }
  throw new Error(`an alarm stands for ever: ${(await loops()).join("\n")}`);
}

/** What each branch has to do, and when. */
async function loops(): Promise<string[]> {
  const control = new Control(server);
  const buckets = await new S3(server).buckets();
  return Promise.all(
    buckets.map(async (bucket) => {
      const [branch, repo] = bucket.split(".");
      return `${bucket}: ${(await control.ask("GET", `/repos/${repo}/branches/${branch}/loops`)).text}`;
    }),
  );
}
