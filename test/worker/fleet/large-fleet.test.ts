// @module-tag rest
import { env, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import {
  HEARTBEAT_MS,
  QUIET_HEARTBEAT_MS,
  SOCKET_PONG,
  SOCKET_RETURN_MS,
  WakeUp,
} from "../../../protocol/runner.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { type AccessKey, ask, openNodeSocket, pingAlways, send } from "../cost/gateway.ts";
import { metered } from "../cost/meter.ts";
import { comeToRest } from "../cost/rest.ts";
import { Time } from "../cost/time.ts";
import { makePipeline, makeRepo } from "../pipeline/support.ts";

const NODES = 1000;
const PIPELINES = 100;
const SECOND_MS = 1000;
const MINUTE = 60;
/** Those that came beat together for some time, since each was woken by the others. */
const SETTLED_SECONDS = 4 * MINUTE;
const TIMERS_MS = 2;
/** As in worker/fleet/fleet.ts. */
const WAKE_UPS_APART_MS = 100;

/** Of what a second may have at most: calls of all objects together, and queries of D1. */
const MAX_CALLS = 500;
const MAX_D1_QUERIES = 100;

/** As in runner/agent/agent.ts. */
const WOKEN_APART_MS = 1000;

const fleet = env.FLEET.getByName("fleet") as unknown as DurableObjectStub<undefined>;
const time = new Time();
let key: AccessKey;

let seed = 1;
/** From 0 to 1, the same in each run. */
function chance(): number {
  seed = (seed * 16_807) % 2_147_483_647;
  return seed / 2_147_483_647;
}

/** A node as its agent is that runs nothing and has a socket. */
class QuietNode {
  /** The pipelines that its workers were woken for. */
  readonly wokenFor = new Set<string>();
  readonly #name: string;
  #erasedTo: string | null = null;
  #beganAt = 0;
  /** The next heartbeat's: one that was to come before, by itself or woken, is none that comes later. */
  #turn = 0;
  /** Of the heartbeat that it was last woken for. */
  #wokenTurn: number | undefined;

  constructor(name: string) {
    this.#name = name;
  }

  async start(): Promise<void> {
    await this.#ask({});
    await this.listen();
    this.#beatAfter(chance() * QUIET_HEARTBEAT_MS);
  }

  /** Opens a socket, and hears the first wake-up over it. */
  async listen(): Promise<void> {
    const socket = await openNodeSocket(this.#name, key);
    const heard = Promise.withResolvers<void>();
    socket.addEventListener("message", ({ data }) => {
      heard.resolve();
      if (data === SOCKET_PONG) return;
      const { beat, work = [] } = WakeUp.parse(JSON.parse(String(data)));
      if (beat) this.#wake(beat.withinMs);
      for (const pipeline of work) this.wokenFor.add(pipeline);
    });
    socket.accept();
    await heard.promise;
  }

  #wake(withinMs: number): void {
    if (this.#wokenTurn === this.#turn) return;
    this.#wokenTurn = this.#turn;
    const apart = this.#beganAt + WOKEN_APART_MS - Date.now();
    this.#beatAfter(Math.max(chance() * withinMs, apart));
  }

  #beatAfter(ms: number): void {
    const turn = this.#turn;
    time.after(ms, async () => {
      if (turn === this.#turn) await this.#beat();
    });
  }

  async #beat(): Promise<void> {
    this.#turn++;
    this.#beganAt = Date.now();
    this.#beatAfter(HEARTBEAT_MS + QUIET_HEARTBEAT_MS * (0.8 + chance() * 0.4));
    await this.#ask({ quiet: true });
  }

  async #ask(quiet: { quiet?: true }): Promise<void> {
    const self = { node: this.#name, executor: "docker", capacity: 8, bounds: { running: 8, workers: 64 } };
    const body = { ...self, work: [], erasedTo: this.#erasedTo, ...quiet };
    this.#erasedTo = (await ask("POST /runner/heartbeat", body, key)).erased.upTo;
  }
}

const names = Array.from({ length: PIPELINES }, (_, n) => `large-${n}`);
const nodes = Array.from({ length: NODES }, (_, n) => new QuietNode(`node-${n}`));

/** Lets so many seconds pass, and is told of each. */
async function goOn(seconds: number, passed: () => void): Promise<void> {
  for (let second = 0; second < seconds; second++) {
    await time.pass(SECOND_MS);
    // For the object's own timers: it sends wake-ups a moment later.
    await scheduler.wait(TIMERS_MS);
    if ((await alarm()) <= Date.now()) await runDurableObjectAlarm(fleet);
    passed();
  }
}

/** The most that a second of a minute has. */
async function busiestSecond(): Promise<{ calls: number; d1Queries: number }> {
  return await metered(async (sofar) => {
    const most = { calls: 0, d1Queries: 0 };
    let before = sofar();
    await goOn(MINUTE, () => {
      const after = sofar();
      for (const of of ["calls", "d1Queries"] as const) most[of] = Math.max(most[of], after[of] - before[of]);
      before = after;
    });
    return most;
  });
}

/** When the object's alarm rings, which the clock of the test does not do by itself. */
async function alarm(): Promise<number> {
  const at = await runInDurableObject(fleet, (_, { storage }) => storage.getAlarm());
  return at ?? Number.POSITIVE_INFINITY;
}

async function liveNodes(): Promise<number> {
  return (await openCatalogue(env.DB).nodes.alive(Date.now())).length;
}

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
  await pingAlways(fleet);
});

async function startAll(): Promise<void> {
  const made = await ask("POST /keys", { level: "runner", description: "runners" });
  key = { id: made.id, secret: made.secret };
  await makeRepo("large-input");
  for (const name of names) await makePipeline({ name, globs: { "large-input": "/*" } });
  await comeToRest([
    env.BRANCH.getByName("master.large-input"),
    ...names.map((name) => env.PIPELINE.getByName(name)),
    ...names.map((name) => env.BRANCH.getByName(`master.${name}`)),
  ]);
  for (const node of nodes) await node.start();
  await goOn(SETTLED_SECONDS, () => {});
}

afterAll(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test("a thousand nodes that have nothing to do ask little of objects and of D1", async () => {
  await startAll();
  const most = await busiestSecond();
  expect(most.calls).toBeLessThan(MAX_CALLS);
  expect(most.d1Queries).toBeLessThan(MAX_D1_QUERIES);
}, 280_000);

test("as in the minute after their object was deployed anew, which forgets none", async () => {
  // A timer of its own would keep it from going.
  await scheduler.wait(2 * WAKE_UPS_APART_MS);
  await evictDurableObject(fleet, { webSockets: "close" });
  for (const node of nodes) time.after(chance() * SOCKET_RETURN_MS, () => node.listen());
  const most = await busiestSecond();
  expect(most.calls).toBeLessThan(MAX_CALLS);
  expect(most.d1Queries).toBeLessThan(MAX_D1_QUERIES);
  expect(await liveNodes()).toBe(NODES);
}, 280_000);

test("each of them is woken for a commit before any time has passed", async () => {
  const committedAt = Date.now();
  await send("PUT /master.large-input/a", { body: "1" });
  const woken = () => nodes.filter(({ wokenFor }) => wokenFor.size === PIPELINES).length;
  // Not by expect.poll, which moves the clock on.
  while (woken() < NODES) await scheduler.wait(TIMERS_MS);
  expect(Date.now()).toBe(committedAt);
}, 280_000);
