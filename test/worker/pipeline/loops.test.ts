import { expect, test } from "vitest";
import { failed, good, ROOT } from "../api/support.ts";
import { makePipeline, makeRepo } from "./support.ts";

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
