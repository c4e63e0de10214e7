import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LeaseRequest } from "../../../protocol/runner.ts";
import { IdlePipelines } from "../../../runner/worker/idle-pipelines.ts";
import { type FakeAgent, startFakeAgent } from "./support/fake-agent.ts";
import { FakeExecutor } from "./support/fake-executor.ts";
import { Stage, soon } from "./support/running.ts";

const WORKERS = 8;

let stage: Stage;
let agent: FakeAgent;
let idle: IdlePipelines;
/** Those that asked for something since the last look. */
const askers = new Set<string>();

beforeEach(async () => {
  stage = await Stage.open();
  const { gateway, dataDir } = stage;
  gateway.workers = [{ pipeline: "edges", count: WORKERS, idle: true }];
  gateway.before = ({ path, body }) => {
    if (path.endsWith("/lease")) askers.add(LeaseRequest.parse(JSON.parse(body.toString())).worker);
  };
  idle = new IdlePipelines();
  // The test wakes them, as this gateway has no sockets.
  idle.isHeard = true;
  Object.defineProperty(idle, "isHeard", { set: () => {} });
  const rests = vi.spyOn(idle, "rest");
  agent = startFakeAgent({ endpoint: gateway.endpoint, dataDir, executor: new FakeExecutor(), idle });
  const restOnceTold = (): number => {
    gateway.wake();
    return rests.mock.calls.length;
  };
  await soon(restOnceTold).toBe(WORKERS);
  askers.clear();
});

afterEach(async () => {
  await agent.kill();
  await stage.close();
  vi.restoreAllMocks();
});

test("of workers that rest as many ask as there is something for, and two more", async () => {
  const { gateway } = stage;
  gateway.add("a");
  idle.wake(["edges"]);
  await stage.reported(1);
  await soon(() => askers.size).toBe(3);
  gateway.add("b");
  await stage.reported(2);
  await soon(() => askers.size).toBe(5);
});
