import { afterEach, beforeEach, describe, expect, test } from "vitest";
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
afterEach(async () => {
  letFinish();
  await agent.kill();
  await stage.close();
});

const work = () => stage.gateway.work.get("n1");

describe("a heartbeat", () => {
  test("tells the workers of each pipeline and the commands that run", async () => {
    await soon(work).toEqual([{ pipeline: "edges", workers: 2, running: 0 }]);
    stage.gateway.add("a");
    await soon(work).toEqual([{ pipeline: "edges", workers: 2, running: 1 }]);
    stage.gateway.add("b");
    await soon(work).toEqual([{ pipeline: "edges", workers: 2, running: 2 }]);
    letFinish();
    await soon(work).toEqual([{ pipeline: "edges", workers: 2, running: 0 }]);
  });
});

describe("a node that the gateway drains", () => {
  test("finishes what runs, gives back the rest and its slots, lives on, and works again afterwards", async () => {
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
  });

  test("ends when it is told to while it drains", async () => {
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
