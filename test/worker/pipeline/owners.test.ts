import { describe, expect, it } from "vitest";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import {
  allJobs,
  commit,
  leaseSome,
  makeRepo,
  pipelineOf,
  type SpecOptions,
  specOf,
  workUntil,
} from "./support.ts";

type More = NonNullable<SpecOptions["more"]>;
const NEW_COMMAND: More = { transform: { image: "none", cmd: ["false"] } };
const MORE_TRIES: More = { datumTries: 5 };
const [ROOT, LIMITED] = [{ limited: false }, { limited: true }];

/** A pipeline over one file, and one that makes changes to it. */
async function made(
  name: string,
  by: { limited?: boolean },
): Promise<{ pipeline: PipelineApi; update: Update }> {
  await makeRepo(`${name}-in`);
  await commit(`${name}-in`, { a: "1" });
  const options = { name, globs: { [`${name}-in`]: "/*" } };
  const pipeline = pipelineOf(name);
  const created = await pipeline.lifecycle.create(specOf(options), by);
  if (!created.ok) throw new Error(created.reason);
  const update: Update = async (more, who) => {
    const updated = await pipeline.specification.update({
      spec: specOf({ ...options, more }),
      reprocess: false,
      ...who,
    });
    if (!updated.ok) throw new Error(updated.reason);
  };
  return { pipeline, update };
}

type Update = (more: More, by: { limited?: boolean }) => Promise<void>;

/** What a runner hears, and what the API says. */
async function told(pipeline: PipelineApi): Promise<[boolean, boolean | null | undefined]> {
  const leased = await pipeline.leases.take({ node: "n1", worker: "w1", max: 1, waitMs: 0 });
  const found = await pipeline.lifecycle.inspect();
  if (!leased.ok || !found.ok) throw new Error("it is not there");
  for (const { lease } of leased.datums) {
    await pipeline.leases.finish({ worker: "w1", outcomes: [{ lease, state: "returned" }] });
  }
  return [leased.limited, found.pipeline.limited];
}

describe("a pipeline", () => {
  it("belongs to the key that created it, and a lease says whether that is limited", async () => {
    const roots = await made("own-root", ROOT);
    expect(await told(roots.pipeline)).toEqual([false, false]);
    const scoped = await made("own-scoped", LIMITED);
    expect(await told(scoped.pipeline)).toEqual([true, true]);
  });

  it.each([
    ["the command", NEW_COMMAND],
    ["only how the work is done", MORE_TRIES],
    ["nothing", {}],
  ])("is limited after an update by a limited key that changes %s, whoever made it", async (what, more) => {
    const { pipeline, update } = await made(`taken-${what.length}`, ROOT);
    await update(more, LIMITED);
    expect(await told(pipeline)).toEqual([true, true]);
    await update(more, ROOT);
    expect(await told(pipeline)).toEqual([false, false]);
  });

  it("is taken over by an update with the same specification, which makes no version and no job", async () => {
    const { pipeline, update } = await made("same", LIMITED);
    await workUntil(pipeline, { jobs: 1 });
    await update({}, ROOT);
    expect(await told(pipeline)).toEqual([false, false]);
    expect(await pipeline.lifecycle.inspect()).toMatchObject({ pipeline: { version: 1 } });
    expect(await allJobs(pipeline)).toHaveLength(1);
  });

  it("of a submitter whose key is not known counts as limited", async () => {
    const { pipeline, update } = await made("before", {});
    expect(await told(pipeline)).toEqual([true, true]);
    await update({}, ROOT);
    expect(await told(pipeline)).toEqual([false, false]);
  });

  it("that is made anew under its name is not the one of before", async () => {
    const { pipeline } = await made("anew", ROOT);
    await pipeline.lifecycle.destroy({ keepOutput: false });
    const spec = specOf({ name: "anew", globs: { "anew-in": "/*" } });
    expect((await pipeline.lifecycle.create(spec, LIMITED)).ok).toBe(true);
    expect(await told(pipeline)).toEqual([true, true]);
  });

  it("runs the limited command only as a limited one while its update ends the jobs of before", async () => {
    const { pipeline, update } = await made("switch", ROOT);
    const before = await leaseSome(pipeline, { max: 1 });
    expect([before.limited, before.transform.cmd]).toEqual([false, ["true"]]);
    await update(NEW_COMMAND, LIMITED);
    const after = await leaseSome(pipeline, { max: 1 });
    expect([after.limited, after.transform.cmd]).toEqual([true, ["false"]]);
  });
});
