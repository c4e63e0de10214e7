// @module-tag rest
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { Control } from "../../support/control.ts";
import {
  type DevServer,
  ROOT,
  sluice,
  sluiceCommand,
  sluiceEnv,
  sluiceOk,
  startDevServer,
} from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { foundIn } from "../../support/found-in.ts";
import { isGone, signedExchange } from "../../support/http.ts";
import { start } from "../../support/processes.ts";
import { seededRandom, testSeed } from "../../support/random.ts";
import { objectTarget, S3 } from "../../support/s3.ts";
import { alarmTimes, letTimePass, overdue, storedState } from "../../support/stored-state.ts";

/** Issue-sized: SLUICE_ERASURES=600, which is with 8 kills. */
const ERASURES = Number(process.env.SLUICE_ERASURES ?? 150);
const ERASURES_PER_KILL = 75;
const KILLS = Math.floor(ERASURES / ERASURES_PER_KILL);
/** Clients side by side. */
const CLIENTS = 6;
/** A gateway that starts again is killed once more at a random moment of this span: that is while it scrubs. */
const START_MS = 1500;
const DAY_MS = 24 * 3_600_000;
const MOST_RESTS = 15;

const PARENT = "master.history";
const FORK = "fork.history";
/** What all has that is erased, and nothing else: names, metadata and bytes. */
const GONE = `gone-${randomUUID()}`;

let server: DevServer;
beforeAll(async () => {
  server = await startDevServer();
});
afterAll(() => server?.stop());

test(`${ERASURES} erasures in a branch and its fork with ${KILLS} kills lose nothing and leave nothing`, {
  timeout: 120_000 + ERASURES * 2000,
}, async () => {
  const random = seededRandom(testSeed());
  const history = new History({ random });
  await history.begin();
  for (let kill = 1; kill <= KILLS; kill++) {
    const running = history.run({ until: kill * ERASURES_PER_KILL });
    await eventually("most of the round is done", () => history.erased >= (kill - 0.3) * ERASURES_PER_KILL, {
      withinMs: 300_000,
    });
    await server.kill9();
    expect(storedState(server.data).missing).toEqual([]);
    await killAtStart(random() * START_MS);
    await server.restart();
    await running;
    await history.verify();
  }
  await history.run({ until: ERASURES });
  await rest();
  await sluiceOk(server, "admin", "scrub");
  expect(foundIn(server.data, [GONE])).toEqual({});
  await history.verify();
  const { missing, orphans, condemned } = storedState(server.data);
  expect({ missing, orphans, condemned }).toEqual({ missing: [], orphans: [], condemned: 0 });
  expect(await sluice(server, "fsck")).toMatchObject({ code: 0 });
  console.log(`${history.erased} erased with ${KILLS} kills, ${history.kept} files kept`);
  // The runtime is another one since the scrub.
  await server.kill9();
  await server.restart();
});

/** Starts the gateway, and kills it after a while. */
async function killAtStart(afterMs: number): Promise<void> {
  const { port } = new URL(server.endpoint);
  const command = sluiceCommand(["dev", "--runners", "0", "--port", port, "--data", server.data]);
  const started = start(command, { cwd: ROOT, env: sluiceEnv(server) });
  await pause(afterMs);
  await started.kill9();
}

/** Time passes until no object has anything left to do. */
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

/** Clients that put files and erase some of them. What they are told is done must be so whatever crashes. */
class History {
  readonly #s3 = new S3(server);
  readonly #control = new Control(server);
  readonly #random: () => number;
  /** Files that stay, by their buckets and keys. */
  readonly #kept = new Map<string, string>();
  /** Of files that were there when the fork was made. */
  readonly #before: string[] = [];
  #begun = 0;
  erased = 0;

  constructor({ random }: { random: () => number }) {
    this.#random = random;
  }

  get kept(): number {
    return this.#kept.size;
  }

  /** A parent with files that its fork has copies of. */
  async begin(): Promise<void> {
    await this.#s3.createBucket(PARENT);
    for (let n = 0; n < ERASURES / 5; n++) {
      const key = `before/${GONE}-${n}`;
      await this.#put(PARENT, key, this.#body(`${GONE}-b${n}`));
      this.#before.push(key);
    }
    await this.#keep(PARENT, "before/kept");
    const from = { repo: "history", branch: "master" };
    await this.#control.call("POST", "/repos/history/branches", {
      body: { name: "fork", from },
      answers: z.unknown(),
    });
    await eventually(
      "the fork can be read",
      async () => (await this.#s3.keys(FORK)).length === ERASURES / 5 + 1,
    );
    this.#kept.set(`${FORK}/before/kept`, this.#kept.get(`${PARENT}/before/kept`) ?? "");
  }

  /** Erases until so many are, over restarts of the gateway. */
  async run({ until }: { until: number }): Promise<void> {
    const client = async () => {
      while (this.#begun < until) {
        await this.#step(this.#begun++);
        this.erased++;
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
  }

  /** What was kept reads, and what was erased is not there. */
  async verify(): Promise<void> {
    for (const [name, body] of this.#kept) {
      const [bucket = "", ...key] = name.split("/");
      const found = await this.#s3.get(bucket, key.join("/"));
      if (String(found) !== body) throw new Error(`${name} is lost, or another one`);
    }
    for (const bucket of [PARENT, FORK]) {
      const there = (await this.#s3.keys(bucket)).filter((key) => key.includes(GONE));
      const left = there.filter((key) => !this.#before.includes(key));
      if (left.length > 0) throw new Error(`${bucket} has ${left.join(", ")}`);
    }
  }

  /** One file that comes and goes, and now and then one that stays, which may have its bytes. */
  async #step(n: number): Promise<void> {
    const inherited = n % 3 === 0 ? this.#before.pop() : undefined;
    if (inherited !== undefined) return await this.#erase(PARENT, inherited);
    const bucket = n % 3 === 1 ? FORK : PARENT;
    const key = `dir-${n % 7}/${GONE}-${n}`;
    await this.#put(bucket, key, this.#body(`${GONE}-${n}`));
    if (n % 4 === 0) await this.#put(bucket, key, this.#body(`${GONE}-${n}-again`));
    if (n % 5 === 0) await this.#keep(bucket, `kept/${n}`);
    if (n % 6 === 0) await again(() => this.#s3.delete(bucket, key));
    await this.#erase(bucket, key);
  }

  async #keep(bucket: string, key: string): Promise<void> {
    const body = this.#body(`kept-${bucket}-${key}`);
    await this.#put(bucket, key, body);
    this.#kept.set(`${bucket}/${key}`, body);
  }

  async #put(bucket: string, key: string, body: string): Promise<void> {
    // Metadata of what stays must not look like something erased.
    const headers = { "x-amz-meta-of": key.includes(GONE) ? GONE : "kept" };
    await again(async () => {
      const asked = { method: "PUT", target: objectTarget(bucket, key), headers, body };
      const { status, text } = await signedExchange(server, asked);
      if (status !== 200) throw new Error(`PUT ${key}: ${status} ${text}`);
    });
  }

  async #erase(bucket: string, path: string): Promise<void> {
    const [branch, repo] = bucket.split(".");
    await again(async () => {
      const body = { path, allVersions: true, forks: true };
      const answer = await this.#control.ask("POST", `/repos/${repo}/branches/${branch}/erasures`, body);
      // It was done, although the answer did not come.
      if (answer.status >= 300 && answer.status !== 404)
        throw new Error(`${path}: ${answer.status} ${answer.text}`);
    });
  }

  /** In a row of the branch, or in a blob. */
  #body(text: string): string {
    return `${text} `.padEnd(this.#random() < 0.6 ? 3000 : 60_000, `${text} `);
  }
}

/** Asks as often as it takes, over restarts. */
async function again(ask: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await ask();
      return;
    } catch (error) {
      if (!isGone(error) && !/\b503\b/.test(String(error))) throw error;
      await pause(50);
    }
  }
}
