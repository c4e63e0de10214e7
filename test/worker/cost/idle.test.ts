// @module-tag rest
import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import {
  HEARTBEAT_MS,
  LEASE_WAIT_MS,
  QUIET_HEARTBEAT_MS,
  SOCKET_PING,
  SOCKET_PING_MS,
  SOCKET_PONG,
} from "../../../protocol/runner.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { Waiters } from "../../../worker/objects/waiters.ts";
import { dollarsOf, pricesOf, type TimedBill, timedBillsOf } from "../../support/cost/bill.ts";
import { HOURS } from "../../support/cost/month.ts";
import { makePipeline, makeRepo } from "../pipeline/support.ts";
import { type AccessKey, ask, beginIsolate, openNodeSocket, pingAlways, send } from "./gateway.ts";
import { metered } from "./meter.ts";
import { comeToRest } from "./rest.ts";
import { Time } from "./time.ts";

const PAGE = env.TEST_COST_PAGE;
const IDLE = timedBillsOf(PAGE, "idle for an hour");

const MINUTE_MS = 60_000;
/** Seven minutes, in which each node beats equally often, and the alarm of those that have sockets rings once a minute. */
const COUNTED_MS = 10 * (HEARTBEAT_MS + QUIET_HEARTBEAT_MS);
const HOUR_MS = 60 * MINUTE_MS;

/** Until a worker asks again that heard of nothing to do, on average (jitteredBackoff in runner/worker/worker.ts). */
const PAUSE_MS = 3000;

const NODES = 2;
const PIPELINES = 10;

let key: AccessKey;
const pipelines = Array.from({ length: PIPELINES }, (_, n) => `idle-${n}`);
const nodes = Array.from({ length: NODES }, (_, n) => `node-${n}`);

/** Objects that may have something to do by themselves; stubs from before anything is counted. */
let objects: DurableObjectStub<undefined>[] = [];

/** So often it is looked whether an alarm is due; milliseconds. */
const RING_MS = 10_000;

const fleet = env.FLEET.getByName("fleet") as unknown as DurableObjectStub<undefined>;

/** Alarms ring when they are due. */
function startAlarms(time: Time): void {
  const ring = async (): Promise<void> => {
    time.after(RING_MS, ring);
    for (const object of [...objects, fleet]) {
      const alarm = await runInDurableObject(object, (_, { storage }) => storage.getAlarm());
      if (alarm !== null && alarm <= Date.now()) await runDurableObjectAlarm(object);
    }
  };
  time.after(RING_MS, ring);
}

/** What nodes hear over their sockets but answers to pings; each hears one when it opens. */
let wakeUps = 0;
/** What they said over them. */
let pings = 0;
/** What comes in over a socket is charged as so much of a call, whether the object is woken for it or not. */
const CALLS_A_MESSAGE = 1 / 20;

/** A node as its agent is that has nothing to do: it says that it lives, and its workers ask for datums, unless they may rest. */
function startNode(time: Time, name: string): void {
  let erasedTo: string | null = null;
  let idle = new Set<string>();
  const workers = new Set<string>();
  const listen = async (): Promise<void> => {
    const socket = await openNodeSocket(name, key);
    socket.addEventListener("message", ({ data }) => {
      if (data !== SOCKET_PONG) wakeUps++;
    });
    socket.accept();
    const ping = async (): Promise<void> => {
      time.after(SOCKET_PING_MS, ping);
      socket.send(SOCKET_PING);
      pings++;
    };
    time.after(SOCKET_PING_MS, ping);
  };
  const beat = async (): Promise<void> => {
    // By the second one all nodes are known, so that no worker has to move to another.
    const isFirst = erasedTo === null;
    time.after(isFirst ? HEARTBEAT_MS : HEARTBEAT_MS + QUIET_HEARTBEAT_MS, beat);
    const work = [...workers].map((pipeline) => ({ pipeline, workers: 1, running: 0 }));
    const bounds = { running: 8, workers: 64 };
    const self = { node: name, executor: "docker", capacity: 8, bounds, work, erasedTo };
    const quiet = !isFirst && { quiet: true };
    const told = await ask("POST /runner/heartbeat", { ...self, ...quiet }, key);
    erasedTo = told.erased.upTo;
    if (isFirst) return await listen();
    const shares = told.workers as { pipeline: string; idle?: true }[];
    idle = new Set(shares.filter((share) => share.idle).map(({ pipeline }) => pipeline));
    for (const { pipeline } of shares) {
      if (workers.has(pipeline)) continue;
      workers.add(pipeline);
      time.after(offset(pipelines, pipeline, LEASE_WAIT_MS + PAUSE_MS), () => poll(pipeline));
    }
  };
  const poll = async (pipeline: string): Promise<void> => {
    const body = { pipeline, node: name, worker: `${name}/${pipeline}/0`, max: 1 };
    const before = waits;
    let isAnswered = false;
    const answered = ask("POST /runner/lease", body, key).finally(() => {
      isAnswered = true;
      time.answers.delete(answered);
    });
    time.answers.add(answered);
    while (waits === before && !isAnswered) await scheduler.wait(1);
    time.after(LEASE_WAIT_MS, async () => {
      expect(await answered).toMatchObject({ slot: true, datums: [], tasks: [] });
      if (!idle.has(pipeline)) time.after(PAUSE_MS, () => poll(pipeline));
    });
  };
  time.after(offset(nodes, name, HEARTBEAT_MS), beat);
}

/** Each of several begins at another time within such a span. */
function offset(all: readonly string[], one: string, ms: number): number {
  return (all.indexOf(one) / all.length) * ms;
}

/** How often a call of an object began to wait for something. */
let waits = 0;

/** A wait by the clock of the test. It looks at the clock itself, as nobody else may end what an object waits for. */
async function waitByClock(ms: number): Promise<boolean> {
  const until = Date.now() + ms;
  waits++;
  while (Date.now() < until) await scheduler.wait(5);
  return false;
}

/** What an hour costs, as seven minutes of it do, once what has begun goes on evenly. */
async function hourOf(time: Time): Promise<TimedBill> {
  startAlarms(time);
  const [before, after] = await metered(async (sofar) => {
    const counts = () => {
      const bill = sofar();
      return { ...bill, calls: bill.calls + pings * CALLS_A_MESSAGE };
    };
    await time.pass(MINUTE_MS);
    const before = counts();
    const wokenBefore = wakeUps;
    await time.pass(COUNTED_MS);
    expect(wakeUps).toBe(wokenBefore);
    return [before, counts()];
  });
  // None is left behind.
  vi.setSystemTime(Date.now() + LEASE_WAIT_MS);
  await Promise.all(time.answers);
  const hour = (of: keyof TimedBill) => Math.round(((after[of] - before[of]) * HOUR_MS) / COUNTED_MS);
  return {
    ...{ requests: hour("requests"), calls: hour("calls"), secondsAtWork: hour("secondsAtWork") },
    ...{ rowsRead: hour("rowsRead"), rowsWritten: hour("rowsWritten") },
    ...{ classA: hour("classA"), classB: hour("classB"), d1Queries: hour("d1Queries") },
  };
}

beforeAll(async () => {
  // A late word of what an earlier file did must not be read by each heartbeat.
  await env.DB.prepare("DELETE FROM nodes").run();
  await openCatalogue(env.DB).erasedContents.beginAnew();
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
  beginIsolate();
  vi.spyOn(Waiters.prototype, "wait").mockImplementation(waitByClock);
  await pingAlways(fleet);
  const made = await ask("POST /keys", { level: "runner", description: "runners" });
  key = { id: made.id, secret: made.secret };
});

afterAll(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe("docs/cost.md says what is charged for in an hour", () => {
  // In this order: each has what those before it made.
  test("of a branch that was used before", async () => {
    await send("PUT /idle");
    for (let n = 0; n < 4; n++) await send(`PUT /idle/${n % 2}`, { body: `${n}` });
    await send("DELETE /idle/0");
    const from = { repo: "idle", branch: "master" };
    await ask("POST /repos/idle/branches", { name: "fork", from });
    objects = ["master.idle", "fork.idle"].map((bucket) => env.BRANCH.getByName(bucket));
    await comeToRest(objects);
    expect(await hourOf(new Time())).toEqual(IDLE["a branch"]?.cells);
  });

  test("of nodes while there are no pipelines", async () => {
    const time = new Time();
    for (const node of nodes) startNode(time, node);
    const hour = await hourOf(time);
    for (const node of nodes) await ask(`DELETE /runner/heartbeat?node=${node}`, undefined, key);
    expect(hour).toEqual(IDLE["2 nodes, and no pipelines"]?.cells);
  });

  test("of pipelines while there are no nodes", async () => {
    await makeRepo("idle-input");
    for (const name of pipelines) await makePipeline({ name, globs: { "idle-input": "/*" } });
    objects = [
      env.BRANCH.getByName("master.idle-input"),
      ...pipelines.map((name) => env.PIPELINE.getByName(name)),
      ...pipelines.map((name) => env.BRANCH.getByName(`master.${name}`)),
    ];
    await comeToRest(objects);
    expect(await hourOf(new Time())).toEqual(IDLE["10 pipelines, and no nodes"]?.cells);
  }, 40_000);

  test("of nodes that pipelines have nothing to do for", async () => {
    const time = new Time();
    for (const node of nodes) startNode(time, node);
    expect(await hourOf(time)).toEqual(IDLE["2 nodes, and 10 pipelines of one worker each"]?.cells);
  }, 40_000);

  test("and what it costs in a month", () => {
    const prices = pricesOf(PAGE);
    const bills = Object.values(IDLE);
    const told = bills.map(({ dollars }) => dollars);
    expect(told).toEqual(bills.map(({ cells }) => (dollarsOf(cells, prices) * HOURS).toFixed(2)));
  });
});
