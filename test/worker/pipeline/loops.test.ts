import { expect, test } from "vitest";
import { Loop } from "../../../worker/pipeline/engine/loop.ts";
import { failed, good, ROOT } from "../api/support.ts";
import { makePipeline, makeRepo } from "./support.ts";

test("how the loops of a pipeline stand is told to those who may change it", async () => {
  await makeRepo("looped-in");
  await makePipeline({ name: "looped", globs: { "looped-in": "/*" } });
  const told = await good("GET /pipelines/looped/loops");
  expect(told.loops.length).toBe(10);
  expect(told.loops).toContainEqual({ name: "state", running: false, failures: 0, error: null });
  const reader = { ...ROOT, scope: { ...ROOT.scope, level: "read" } };
  expect(await failed("GET /pipelines/looped/loops", { caller: reader } as never)).toMatchObject({
    status: 403,
  });
  expect(await failed("GET /pipelines/nosuch/loops")).toMatchObject({ status: 404 });
});

test("a loop that fails says with what, until it does not", async () => {
  const failures: unknown[] = [];
  let broken = true;
  const loop = new Loop(
    async () => {
      if (broken) throw new Error("the catalogue is away");
    },
    (error) => failures.push(error),
  );
  await loop.wake();
  await loop.wake();
  expect(loop.standing).toEqual({ running: false, failures: 2, error: "Error: the catalogue is away" });
  broken = false;
  await loop.wake();
  expect(loop.standing).toEqual({ running: false, failures: 0, error: null });
});
