import { expect, test } from "vitest";
import type { Outcome } from "../../../protocol/runner.ts";
import { failed, good, ROOT } from "../api/support.ts";
import { commit, leaseSome, makePipeline, makeRepo } from "./support.ts";

test("how the loops of a branch stand is told to those who may manage its repo", async () => {
  await makeRepo("looped-branch");
  const told = await good("GET /repos/looped-branch/branches/master/loops");
  expect(told.loops.map(({ name }: { name: string }) => name)).toContain("history GC");
  const reader = { ...ROOT, scope: { ...ROOT.scope, level: "read" } };
  const asked = "GET /repos/looped-branch/branches/master/loops";
  expect(await failed(asked, { caller: reader } as never)).toMatchObject({ status: 403 });
  expect(await failed("GET /repos/looped-branch/branches/nosuch/loops")).toMatchObject({ status: 404 });
});

test("how the loops of a pipeline stand is told to those who may change it", async () => {
  await makeRepo("looped-in");
  await makePipeline({ name: "looped", globs: { "looped-in": "/*" } });
  const told = await good("GET /pipelines/looped/loops");
  expect(told.loops.length).toBe(12);
  expect(told.loops).toContainEqual({ name: "trim", state: "idle", due: null, tries: 0, error: null });
  const reader = { ...ROOT, scope: { ...ROOT.scope, level: "read" } };
  expect(await failed("GET /pipelines/looped/loops", { caller: reader } as never)).toMatchObject({
    status: 403,
  });
  expect(await failed("GET /pipelines/nosuch/loops")).toMatchObject({ status: 404 });
});

/** A loop that is due without ever having been called again has not been woken: it would wait for the alarm. */
test("no call leaves a loop asleep that has something to do", async () => {
  await makeRepo("awake-in");
  const pipeline = await makePipeline({ name: "awake", globs: { "awake-in": "/*" } });
  const asleep = async (): Promise<string[]> => {
    const { loops = [] } = (await pipeline.admin.loops()) ?? {};
    return loops.filter(({ state, due }) => state === "due" && due === 0).map(({ name }) => name);
  };
  await commit("awake-in", { a: "1", b: "1", c: "1" });
  const [returned, failing] = (await leaseSome(pipeline, { max: 2 })).datums;
  expect(await asleep()).toEqual([]);
  await pipeline.leases.finish({
    worker: "w1",
    outcomes: [
      { lease: returned?.lease ?? "", state: "returned" },
      {
        lease: failing?.lease ?? "",
        state: "failed",
        blame: "datum",
        exitCode: 1,
        reason: "no",
        log: "",
        millis: 1,
      },
    ],
  });
  expect(await asleep()).toEqual([]);
  const [held] = (await leaseSome(pipeline, { max: 1 })).datums;
  expect(await asleep()).toEqual([]);
  await pipeline.jobs.stop(held?.job ?? "");
  expect(await asleep()).toEqual([]);
  await commit("awake-in", { d: "1" });
  for (let left = 4; left > 0; ) {
    const { datums } = await leaseSome(pipeline, { max: left });
    const outcomes = datums.map(
      ({ lease }): Outcome => ({
        lease,
        state: "success",
        exitCode: 0,
        outputs: [],
        millis: 1,
        ran: { executor: "process", image: null },
      }),
    );
    await pipeline.leases.finish({ worker: "w1", outcomes });
    left -= datums.length;
    expect(await asleep()).toEqual([]);
  }
});
