// @module-tag rest
import { hash } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { LEASE_MS } from "../../../protocol/runner.ts";
import type { NodeAgent } from "../../support/chaos/node-agent.ts";
import { LONGER_THAN_LEASES_MS, Stage } from "../../support/chaos/stage.ts";
import { eventually } from "../../support/eventually.ts";
import { canMakeNetworks } from "../../support/netns.ts";

const once = { total: 1, processed: 1, skipped: 0, failed: 0 };
const twice = { total: 2, processed: 1, skipped: 1, failed: 0 };

// Not beside others: on a machine that is very busy an agent may lose its lease without a cut.
describe.skipIf(!canMakeNetworks())(
  "an agent that is cut off from its gateway for a short time",
  {
    timeout: 900_000,
  },
  () => {
    test("in the middle of a datum: it keeps the datum, which is not run twice", async () => {
      await using stage = await Stage.open();
      const [first] = await startBoth(stage);
      await first.network.cut();
      await pause(LEASE_MS / 3);
      await first.network.mend();
      // By then a lease that was not renewed since would have gone to the other one.
      await pause(LEASE_MS);
      stage.letOn(1);
      await expectResultOf(stage, { agent: first, text: "made by 1" });
      expect([stage.count("started"), stage.count("finished")]).toEqual([1, 1]);
    });

    test("while its command comes to its end: the result is taken", async () => {
      await using stage = await Stage.open();
      const [first] = await startBoth(stage);
      await first.network.cut();
      stage.letOn(1);
      await stage.reached("finished", 1);
      await first.network.mend();
      await expectResultOf(stage, { agent: first, text: "made by 1" });
      expect([stage.count("started"), stage.count("finished")]).toEqual([1, 1]);
    });
  },
);

// Each waits for leases to run out, so they do it side by side, each with a gateway of its own.
describe.skipIf(!canMakeNetworks()).concurrent(
  "an agent that is cut off from its gateway",
  {
    timeout: 900_000,
  },
  () => {
    test("for longer than its lease: another one runs the datum, and its own command is stopped once it learns", async () => {
      await using stage = await Stage.open();
      const [first, second] = await startBoth(stage);
      await first.network.cut();
      await stage.reached("started", 2);
      await first.network.mend();
      await eventually(
        "the first one's command was stopped",
        async () => (await first.commands()).length === 0,
        {
          withinMs: LONGER_THAN_LEASES_MS,
        },
      );
      stage.letOn(2);
      await expectResultOf(stage, { agent: second, text: "made by 2" });
      expect([stage.count("started"), stage.count("finished")]).toEqual([2, 1]);
    });

    test("while its command comes to its end: what it reports late changes nothing", async () => {
      await using stage = await Stage.open();
      const [first, second] = await startBoth(stage);
      await first.network.cut();
      stage.letOn(1);
      await stage.reached("finished", 1);
      await stage.reached("started", 2);
      await first.network.mend();
      await first.prints("its lease was lost");
      stage.letOn(2);
      await expectResultOf(stage, { agent: second, text: "made by 2" });
      expect([stage.count("started"), stage.count("finished")]).toEqual([2, 2]);
    });

    test("while it waits for something to do: another one gets its place, and it comes back as one of many", async () => {
      await using stage = await Stage.open();
      await stage.createPipeline(["echo made by $nth > /pfs/out/result"]);
      for (const nth of [1, 2, 3]) stage.letOn(nth);
      const [first, second] = [await stage.addNode("first"), await stage.addNode("second")];
      first.start();
      await stage.s3.put("master.in", "a", "a");
      await expectResultOf(stage, { agent: first, text: "made by 1" });

      await first.network.cut();
      second.start();
      await stage.s3.put("master.in", "b", "b");
      const [, job] = await stage.ended(2);
      expect(job).toMatchObject({ state: "success", datums: twice });
      expect((await stage.datums(job?.id ?? "")).find(({ state }) => state === "success")).toMatchObject({
        node: "second",
        tries: 0,
      });

      await first.network.mend();
      await second.drain();
      await stage.s3.put("master.in", "c", "c");
      const [, , last] = await stage.ended(3);
      expect(last).toMatchObject({ state: "success", datums: { processed: 1 } });
      expect(first.surprises).toEqual([]);
    });

    test("from its start on: it waits for the gateway, and joins", async () => {
      await using stage = await Stage.open();
      await stage.createPipeline(["echo made by $nth > /pfs/out/result"]);
      await stage.s3.put("master.in", "a", "a");
      stage.letOn(1);
      const agent = await stage.addNode("first");
      await agent.network.cut();
      agent.start();
      await agent.prints("heartbeats to the gateway fail");
      await agent.network.mend();
      await expectResultOf(stage, { agent, text: "made by 1" });
      await agent.drain();
      expect(agent.surprises).toEqual([]);
      expect(await agent.leftovers()).toEqual([]);
    });

    test("while it is told to stop: it ends when the gateway hears it, and leaves nothing", async () => {
      await using stage = await Stage.open();
      const [first] = await startBoth(stage);
      await first.network.cut();
      const ended = first.drain();
      stage.letOn(1);
      await stage.reached("finished", 1);
      await first.network.mend();
      expect(await ended).toBe(0);
      expect(await first.leftovers()).toEqual([]);
      await expectResultOf(stage, { agent: first, text: "made by 1" });
    });

    describe.each([
      { how: "and back", restart: false },
      { how: "and back to a gateway that was started anew", restart: true },
    ])("$how", ({ restart }) => {
      test("while it fetches a large input: the command sees the right bytes", async () => {
        await using stage = await Stage.open();
        const large = largeBytes();
        await stage.s3.put("master.in", "large", large);
        await stage.createPipeline(["sha256sum < $in > /pfs/out/sum"]);
        // Started once more where the gateway was away for longer than the lease.
        for (const nth of [1, 2]) stage.letOn(nth);
        const agent = await stage.addNode("first");
        await agent.network.slowDown(SLOW_BYTES_PER_SECOND);
        agent.start();
        await eventually("a part of the input has come", async () => {
          return (await agent.network.traffic()).received > CUT_AT_BYTES;
        });
        await interrupt(stage, { agent, restart });
        const [job] = await stage.ended(1);
        expect(job).toMatchObject({ state: "success", datums: once });
        expect(await stage.datums(job?.id ?? "")).toMatchObject([{ state: "success", tries: 0 }]);
        expect((await stage.s3.get("master.work", "sum"))?.toString()).toBe(`${hash("sha256", large)}  -\n`);
        if (!restart) expect(stage.count("started")).toBe(1);
      });

      test("while it stores a large output: it is stored right, and its command is not run again", async () => {
        await using stage = await Stage.open();
        await stage.s3.put("master.in", "a", "a");
        await stage.createPipeline([`seq 1 ${LARGE_LINES} > /pfs/out/large`]);
        // Started once more where the gateway was away for longer than the lease.
        for (const nth of [1, 2]) stage.letOn(nth);
        const agent = await stage.addNode("first");
        await agent.network.slowDown(SLOW_BYTES_PER_SECOND);
        agent.start();
        await eventually("a part of the output was sent", async () => {
          return (await agent.network.traffic()).sent > CUT_AT_BYTES;
        });
        await interrupt(stage, { agent, restart });
        const [job] = await stage.ended(1);
        expect(job).toMatchObject({ state: "success", datums: once });
        expect(await stage.datums(job?.id ?? "")).toMatchObject([{ state: "success", tries: 0 }]);
        expect((await stage.s3.get("master.work", "large"))?.equals(largeBytes())).toBe(true);
        if (!restart) expect(stage.count("started")).toBe(1);
      });
    });
  },
);

/** Slow enough to be interrupted in the middle. */
const SLOW_BYTES_PER_SECOND = 10_000_000;
const CUT_AT_BYTES = 4_000_000;
/** Prints about 30 MB. */
const LARGE_LINES = 4_000_000;

function largeBytes(): Buffer {
  return Buffer.from(`${Array.from({ length: LARGE_LINES }, (_, at) => at + 1).join("\n")}\n`);
}

/** A datum runs on the first of two nodes; the second one has nothing to do. */
async function startBoth(stage: Stage): Promise<[first: NodeAgent, second: NodeAgent]> {
  await stage.createPipeline(["echo made by $nth > /pfs/out/result"]);
  const [first, second] = [await stage.addNode("first"), await stage.addNode("second")];
  first.start();
  await stage.s3.put("master.in", "a", "a");
  await stage.reached("started", 1);
  second.start();
  await stage.nodesLive(2);
  return [first, second];
}

/** The first job did its datum once, with this result, and made the only commit. */
async function expectResultOf(
  stage: Stage,
  { agent, text }: { agent: NodeAgent; text: string },
): Promise<void> {
  const [job] = await stage.ended(1);
  expect(job).toMatchObject({ state: "success", datums: once });
  expect(await stage.datums(job?.id ?? "")).toMatchObject([{ state: "success", tries: 0, node: agent.name }]);
  expect((await stage.s3.get("master.work", "result"))?.toString()).toBe(`${text}\n`);
  expect(await stage.s3.headCommit("master.work")).toBe(job?.outputCommit);
}

/** A cut, in which the gateway may lose every connection. */
async function interrupt(
  { server }: Stage,
  { agent: { network }, restart }: { agent: NodeAgent; restart: boolean },
): Promise<void> {
  await network.cut();
  if (restart) {
    await server.kill9();
    await server.restart();
  } else await pause(LEASE_MS / 10);
  await network.mend();
}
