import { mkdtemp, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Lease } from "../../../protocol/runner.ts";
import { type Command, NodeCondition, type Run } from "../../../runner/executors/executor.ts";
import { Client } from "../../../runner/gateway/client.ts";
import { Gateway } from "../../../runner/gateway/gateway.ts";
import { PipeStock } from "../../../runner/pfs/lazy/pipe-stock.ts";
import { removeTree } from "../../../runner/pfs/remove.ts";
import { BackgroundWork, runBatch } from "../../../runner/worker/batch.ts";
import { DatumRunner } from "../../../runner/worker/datum.ts";
import { Leases } from "../../../runner/worker/leases.ts";
import { Reporter } from "../../../runner/worker/reporter.ts";
import { openCache } from "./support/caches.ts";
import { FakeGateway, KEY } from "./support/fake-gateway.ts";
import { log } from "./support/running.ts";

const WORKER = { pipeline: "edges", worker: "n1/edges/0/w" };

let gateway: FakeGateway;
let client: Client;
let dir: string;
let kill: AbortController;
/** Of the worker. */
let leases: Leases;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sluice-batch-"));
  gateway = new FakeGateway();
  await gateway.start();
  client = new Client({ endpoint: gateway.endpoint, ...KEY });
  kill = new AbortController();
  leases = new Leases();
});
afterEach(async () => {
  kill.abort();
  await client.close();
  await gateway.stop();
  await removeTree(dir);
  expect(gateway.violations).toEqual([]);
});

type Runs = (command: Command, index: number) => Promise<Run>;

/** Runs a batch of datums of these names in a sandbox that does as it is told, until all outcomes have been taken. */
async function batch(names: string[], run: Runs): Promise<NodeCondition | undefined> {
  gateway.add(...names);
  const api = new Gateway(client);
  const request = { ...WORKER, node: "n1", max: names.length };
  const lease: Lease = await api.lease(request, kill.signal);
  const reporter = new Reporter({ ...WORKER, gateway: api, leases, log, kill: kill.signal });
  const background = new BackgroundWork();
  let begun = 0;
  const sandbox = { run: (command: Command) => run(command, begun++), close: async () => {} };
  const datums = new DatumRunner({
    ...{ gateway: api, cache: openCache(dir, { gateway: api }), pipes: new PipeStock(join(dir, "pipes")) },
    ...{ secrets: { for: () => ({ read: async () => new Map() }) }, pipeline: "edges" },
    executor: { name: "fake" },
  });
  const signals = { drain: new AbortController().signal, kill: kill.signal };
  const deps = { datums, sandbox, leases, reporter, background, log, pipeline: "edges", dir };
  const condition = await runBatch(deps, { lease, signals });
  await background.idle();
  await reporter.flush();
  expect(leases.ids).toEqual([]);
  return condition;
}

const good: Run = { kind: "exited", code: 0, log: "" };
const statesOf = () => gateway.outcomes.map(({ state }) => state).sort();

describe("a batch", () => {
  test("tells with each success what ran it", async () => {
    const inImage = async ({ onImage }: Command): Promise<Run> => {
      onImage?.("r.io/x@sha256:1");
      return good;
    };
    await batch(["a"], inImage);
    await batch(["b"], async () => good);
    const told = gateway.outcomes.map((outcome) => "ran" in outcome && outcome.ran);
    expect(told).toEqual([
      { executor: "fake", image: "r.io/x@sha256:1" },
      { executor: "fake", image: null },
    ]);
  });

  test("answers nothing where commands can be run", async () => {
    expect(await batch(["a", "b"], async () => good)).toBeUndefined();
    expect(statesOf()).toEqual(["success", "success"]);
  });

  test("whose node has a condition gives back what has not ended, unharmed, and answers the condition", async () => {
    const condition = new NodeCondition("the engine is away");
    const answered = await batch(["a", "b", "c", "d"], async ({ onOutput }, index) => {
      if (index === 0) return good;
      onOutput?.(Buffer.from("printed before the condition\n"), "stdout");
      throw condition;
    });
    expect(answered).toBe(condition);
    expect(statesOf()).toEqual(["returned", "returned", "returned", "success"]);
    expect(gateway.queue.map(({ inputs }) => inputs[0]?.path).sort()).toEqual(["b", "c", "d"]);
    expect((await readdir(dir)).filter((name) => name.startsWith("datum-"))).toEqual([]);
  });

  test("whose executor fails otherwise fails that datum, and goes on", async () => {
    const answered = await batch(["a", "b"], async (_, index) => {
      if (index === 0) throw new Error("no more descriptors");
      return good;
    });
    expect(answered).toBeUndefined();
    expect(gateway.outcomes).toMatchObject([
      { state: "failed", reason: "the executor failed: no more descriptors" },
      { state: "success" },
    ]);
  });

  test("whose node has a condition says nothing of a datum whose lease was lost meanwhile", async () => {
    const condition = new NodeCondition("the engine is away");
    const answered = await batch(["a", "b"], async ({ onOutput }) => {
      onOutput?.(Buffer.from("printed\n"), "stdout");
      const [first = ""] = leases.ids;
      gateway.lose(first);
      leases.stop(first, "lost");
      throw condition;
    });
    expect(answered).toBe(condition);
    expect(statesOf()).toEqual(["returned"]);
    expect(gateway.lostOutcomes).toEqual([]);
    expect(gateway.lines).toEqual([]);
  });
});
