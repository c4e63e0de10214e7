import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { REST } from "../../support/suite.ts";
import { type FakeAgent, startFakeAgent } from "./support/fake-agent.ts";
import { FakeExecutor } from "./support/fake-executor.ts";
import { Stage, soon } from "./support/running.ts";

let stage: Stage;
let executor: FakeExecutor;
let agent: FakeAgent;
let letFinish: () => void;

beforeEach(async () => {
  stage = await Stage.open();
  executor = new FakeExecutor();
  const { promise: finish, resolve } = Promise.withResolvers<undefined>();
  executor.onRun = () => finish;
  letFinish = () => resolve(undefined);
  stage.gateway.workers = [{ pipeline: "edges", count: 2 }];
  agent = startFakeAgent({ endpoint: stage.gateway.endpoint, dataDir: stage.dataDir, executor });
});

/** Starts the agent anew, with room for so much. */
async function startAgain(room: { maxRunning: number; maxWorkers?: number }): Promise<void> {
  await agent.kill();
  const { endpoint } = stage.gateway;
  agent = startFakeAgent({ endpoint, dataDir: stage.dataDir, executor, ...room });
}

afterEach(async () => {
  letFinish();
  await agent.kill();
  await stage.close();
});

const work = () => stage.gateway.work.get("n1");

describe("a heartbeat", () => {
  test("tells the workers of each pipeline and the commands that run", REST, async () => {
    await soon(work).toEqual([{ pipeline: "edges", workers: 2, running: 0 }]);
    stage.gateway.add("a");
    await soon(work).toEqual([{ pipeline: "edges", workers: 2, running: 1 }]);
    stage.gateway.add("b");
    await soon(work).toEqual([{ pipeline: "edges", workers: 2, running: 2 }]);
    letFinish();
    await soon(work).toEqual([{ pipeline: "edges", workers: 2, running: 0 }]);
  });
});

describe("a node of few run permits", () => {
  /** The most commands that ran at once. */
  const most = { running: 0 };
  let running = 0;

  beforeEach(() => {
    Object.assign(most, { running: 0 });
    executor.onRun = async () => {
      running += 1;
      most.running = Math.max(most.running, running);
      await new Promise((resolve) => setTimeout(resolve, 20));
      running -= 1;
      return undefined;
    };
  });

  const names = (count: number) => Array.from({ length: count }, (_, n) => `f${n}`);

  test("runs no more commands at once than it may, whatever workers it has, and tells the gateway", async () => {
    stage.gateway.workers = [{ pipeline: "edges", count: 12 }];
    await startAgain({ maxRunning: 2 });
    await soon(() => work()?.[0]?.workers).toBe(12);
    expect(stage.gateway.bounds.get("n1")).toEqual({ running: 2, workers: 256 });
    stage.gateway.add(...names(30));
    await stage.reported(30);
    expect(most.running).toBe(2);
    // Nothing was leased that had no place.
    expect(stage.gateway.outcomes.filter(({ state }) => state === "returned")).toEqual([]);
  });

  test(
    "serves a pipeline of one worker while another one has more work than it could ever do",
    REST,
    async () => {
      stage.gateway.others.set("single", []);
      stage.gateway.workers = [
        { pipeline: "edges", count: 20 },
        { pipeline: "single", count: 1 },
      ];
      await startAgain({ maxRunning: 1 });
      stage.gateway.add(...names(400));
      await stage.reported(3);
      const queue = stage.gateway.others.get("single") ?? [];
      const [datum] = stage.gateway.queue;
      if (!datum) throw new Error("the other pipeline has come to its end");
      queue.push({ ...datum, datum: "of-single" });
      stage.gateway.wake();
      const isHeld = () => [...stage.gateway.held.values()].some(({ datum }) => datum?.datum === "of-single");
      await soon(() => queue.length === 0 && !isHeld()).toBe(true);
      expect(stage.gateway.queue.length).toBeGreaterThan(0);
      expect(most.running).toBe(1);
    },
  );

  test("has no more workers than it may, and of each pipeline a fair share", REST, async () => {
    stage.gateway.others.set("single", []);
    stage.gateway.workers = [
      { pipeline: "edges", count: 400 },
      { pipeline: "single", count: 1 },
    ];
    await startAgain({ maxRunning: 2, maxWorkers: 5 });
    await soon(work).toEqual([
      { pipeline: "edges", workers: 4, running: 0 },
      { pipeline: "single", workers: 1, running: 0 },
    ]);
  });
});

describe("a node that the gateway drains", () => {
  test(
    "finishes what runs, gives back the rest and its slots, lives on, and works again afterwards",
    REST,
    async () => {
      stage.gateway.add("a", "b", "c", "d", "e", "f");
      await soon(work).toEqual([{ pipeline: "edges", workers: 2, running: 2 }]);
      stage.gateway.workers = [];
      // Both workers are told with the next beat; they end when their commands have.
      await soon(() => stage.gateway.queue.length + runningNow()).toBe(6);
      letFinish();
      await soon(work).toEqual([]);
      expect(stage.gateway.left).toHaveLength(2);
      expect(stage.gateway.held.size).toBe(0);
      expect([...stage.gateway.nodes]).toEqual(["n1"]);
      const done = stage.gateway.outcomes.filter(({ state }) => state === "success").length;
      expect(done + stage.gateway.queue.length).toBe(6);
      expect(done).toBeGreaterThanOrEqual(2);
      stage.gateway.workers = [{ pipeline: "edges", count: 2 }];
      await stage.reported(6);
    },
  );

  test("ends when it is told to while it drains", REST, async () => {
    stage.gateway.add("a");
    await soon(work).toEqual([{ pipeline: "edges", workers: 2, running: 1 }]);
    stage.gateway.workers = [];
    await soon(() => stage.gateway.left.length).toBe(1);
    agent.drain();
    letFinish();
    await agent.done;
    expect([...stage.gateway.nodes]).toEqual([]);
    expect(stage.gateway.left).toHaveLength(2);
    expect(stage.gateway.outcomes).toMatchObject([{ state: "success" }]);
  });
});

function runningNow(): number {
  return work()?.reduce((sum, { running }) => sum + running, 0) ?? 0;
}
