import { describe, expect, it } from "vitest";
import type { DatumDetail, DatumOutput } from "../../../protocol/pipelines.ts";
import type { LeasedDatum } from "../../../protocol/runner.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import {
  allJobs,
  type Command,
  commit,
  contentOf,
  makePipeline,
  makeRepo,
  pathsOf,
  query,
  specOf,
  workOnce,
  workUntil,
} from "./support.ts";

async function detailOf(pipeline: PipelineApi, job: string, datum: string): Promise<DatumDetail> {
  const found = await pipeline.datums.view({ job, datum });
  if (!found.ok) throw new Error(found.reason);
  return found;
}

async function outputsOf(
  pipeline: PipelineApi,
  job: string,
  { datum, limit = 100 }: { datum: string; limit?: number },
): Promise<DatumOutput[]> {
  const outputs: DatumOutput[] = [];
  for (let after: string | null = null; ; ) {
    const page = await pipeline.datums.outputs({ job, datum, limit, ...(after !== null && { after }) });
    if (!page.ok) throw new Error(page.reason);
    outputs.push(...page.outputs);
    after = page.next;
    if (after === null) return outputs;
  }
}

const idOf = ({ digest, size }: ReturnType<typeof contentOf>) => ({ digest, size });

/** Runs all that is queued, with `command`, and remembers what was leased, by its first path. */
function remembering(command: Command): { command: Command; leased: Map<string, LeasedDatum> } {
  const leased = new Map<string, LeasedDatum>();
  return {
    leased,
    command(datum) {
      leased.set(pathsOf(datum)[0] ?? "", datum);
      return command(datum);
    },
  };
}

describe("a datum of a job", () => {
  it("reads what its lease said, long after its inputs have changed, and has the command of its job's version", async () => {
    await makeRepo("again-a", "again-b");
    const options = { name: "again", globs: { "again-a": "/*", "again-b": "/" } };
    const pipeline = await makePipeline({ ...options, more: { datumTimeout: "5s" } });
    await commit("again-a", { file: "1", "dir/x": "1", "file-2": "1" });
    await commit("again-b", { y: "1" });
    const { command, leased } = remembering(() => ({}));
    await workUntil(pipeline, { jobs: 1, command });
    const [first] = await allJobs(pipeline);
    const other = { image: "other", cmd: ["false"] };
    const updated = await pipeline.specification.update({
      spec: specOf({ ...options, more: { transform: other } }),
      reprocess: false,
    });
    if (!updated.ok) throw new Error(updated.reason);
    await workUntil(pipeline, { jobs: 2 });
    await commit("again-a", { file: "2", "dir/x": "2" });
    await commit("again-b", { y: "2", z: "2" });
    await workUntil(pipeline, { jobs: 4 });
    // What the first job read is kept no more, but in the branch.
    await expect
      .poll(() => query("again", "SELECT count(*) AS n FROM ended_elements WHERE died < 4"))
      .toEqual([{ n: 0 }]);
    for (const path of ["file", "dir", "file-2"]) {
      const lease = leased.get(path);
      const detail = await detailOf(pipeline, first?.id ?? "", lease?.datum ?? "");
      expect(detail).toMatchObject({
        ...{ job: first?.id, pipeline: "again", version: 1, limited: true, datumTimeout: "5s" },
        ...{ transform: { image: "none", cmd: ["true"] }, output: { repo: "again", branch: "master" } },
        datum: { id: lease?.datum, state: "success" },
        outputCommit: first?.outputCommit,
      });
      expect(detail.inputs).toEqual(lease?.inputs);
    }
  });

  it("is found by how its id begins, and refused by name if that is none or several", async () => {
    await makeRepo("begin-in");
    const pipeline = await makePipeline({ name: "begin", globs: { "begin-in": "/*" } });
    await commit("begin-in", Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`f${n}`, "1"])));
    const { command, leased } = remembering(() => ({}));
    await workUntil(pipeline, { jobs: 1, command });
    const job = (await allJobs(pipeline))[0]?.id ?? "";
    const ids = [...leased.values()].map(({ datum }) => datum);
    const [id = ""] = ids;
    expect((await detailOf(pipeline, job, id.slice(0, 12))).datum.id).toBe(id);
    // Of 17 ids two begin with the same digit.
    const twice = ids.map((each) => each[0]).find((digit, index, all) => all.indexOf(digit) !== index);
    expect(await pipeline.datums.view({ job, datum: twice ?? "" })).toEqual({
      ok: false,
      reason: "several-datums",
    });
    expect(await pipeline.datums.view({ job, datum: "none" })).toEqual({
      ok: false,
      reason: "no-such-datum",
    });
    expect(await pipeline.datums.view({ job: "none", datum: id })).toEqual({
      ok: false,
      reason: "no-such-job",
    });
    expect(await pipeline.datums.outputs({ job, datum: id, after: "nonsense", limit: 1 })).toEqual({
      ok: false,
      reason: "no-such-place",
    });
  });

  it("is known while it waits and after it failed, and its job then has nothing of it", async () => {
    await makeRepo("wait-in");
    const pipeline = await makePipeline({
      name: "wait",
      globs: { "wait-in": "/*" },
      more: { datumTries: 1 },
    });
    await commit("wait-in", { a: "1" });
    await expect.poll(async () => (await allJobs(pipeline))[0]?.state).toBe("running");
    const job = (await allJobs(pipeline))[0]?.id ?? "";
    const page = await pipeline.datums.list({ job, limit: 1 });
    const id = page.ok ? (page.datums[0]?.id ?? "") : "";
    expect(await detailOf(pipeline, job, id)).toMatchObject({ outputs: "none", datum: { state: "queued" } });
    await expect.poll(async () => (await workOnce(pipeline, { command: () => "fail" })).length).toBe(1);
    expect(await detailOf(pipeline, job, id)).toMatchObject({
      outputs: "none",
      datum: { state: "failed", exitCode: 3, reason: "the command failed" },
    });
    expect(await outputsOf(pipeline, job, { datum: id })).toEqual([]);
  });
});

describe("what a job has of a datum", () => {
  const each: Command = (datum) => {
    const [path = ""] = pathsOf(datum);
    return { all: `<${path}>`, [`${path}.one`]: path, [`${path}.two`]: "two" };
  };

  it("is its own part of each file, page by page, though others wrote to the same path", async () => {
    await makeRepo("part-in");
    const pipeline = await makePipeline({ name: "part", globs: { "part-in": "/*" } });
    await commit("part-in", { a: "1", b: "1" });
    const { command, leased } = remembering(each);
    await workUntil(pipeline, { jobs: 1, command });
    const job = (await allJobs(pipeline))[0]?.id ?? "";
    const datum = leased.get("a")?.datum ?? "";
    expect((await detailOf(pipeline, job, datum)).outputs).toBe("kept");
    const expected = [
      { path: "a.one", content: idOf(contentOf("a")), merged: false },
      { path: "a.two", content: idOf(contentOf("two")), merged: false },
      { path: "all", content: idOf(contentOf("<a>")), merged: true },
    ];
    expect(await outputsOf(pipeline, job, { datum })).toEqual(expected);
    expect(await outputsOf(pipeline, job, { datum, limit: 1 })).toEqual(expected);
  });

  it("is known by its paths alone once another transform has committed", async () => {
    await makeRepo("after-in");
    const options = { name: "after", globs: { "after-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("after-in", { a: "1", b: "1" });
    const { command, leased } = remembering(each);
    await workUntil(pipeline, { jobs: 1, command });
    const job = (await allJobs(pipeline))[0]?.id ?? "";
    const datum = leased.get("a")?.datum ?? "";
    const more = { transform: { image: "other", cmd: ["true"] } };
    const updated = await pipeline.specification.update({
      spec: specOf({ ...options, more }),
      reprocess: false,
    });
    if (!updated.ok) throw new Error(updated.reason);
    await workUntil(pipeline, { jobs: 2, command: () => ({ all: "new" }) });
    await expect.poll(async () => (await detailOf(pipeline, job, datum)).outputs).toBe("paths");
    expect(await outputsOf(pipeline, job, { datum })).toEqual([
      { path: "a.one", content: null, merged: false },
      { path: "a.two", content: null, merged: false },
      { path: "all", content: null, merged: true },
    ]);
  });
});
