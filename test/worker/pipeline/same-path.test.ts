import { describe, expect, it } from "vitest";
import type { Job } from "../../../protocol/pipelines.ts";
import { MAX_MERGE_PARTS, type Outcome, type Task } from "../../../protocol/runner.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { REST } from "../../support/suite.ts";
import {
  allJobs,
  type Command,
  commit,
  contentOf,
  expireLeases,
  failedTask,
  leaseSome,
  leftRow,
  type MergeTask,
  makePipeline,
  makeRepo,
  mergeOutcome,
  outcomeOf,
  pathsOf,
  query,
  workOnce,
  workUntil,
} from "./support.ts";
import { leaseTasks, textsOf } from "./tasks.ts";

/** Every datum writes its own name to one path. */
const together: Command = (datum) => ({ all: `<${pathsOf(datum).join("+")}>` });

function textsOfOutput(repo: string): Promise<Record<string, string>> {
  return textsOf({ repo, branch: "master" });
}

/** Runs the datums of a job until its merges can be leased: those. */
async function leaseMerges(
  pipeline: PipelineApi,
  { command = together }: { command?: Command } = {},
): Promise<MergeTask[]> {
  for (;;) {
    const leased = await pipeline.leases.take({ node: "n1", worker: "w1", max: 10, waitMs: 10_000 });
    if (!leased.ok) throw new Error(leased.reason);
    const { datums, tasks, output } = leased;
    if (tasks.length > 0) return mergesAmong(tasks);
    const outcomes = await Promise.all(datums.map((datum) => outcomeOf(datum, { command, output })));
    await pipeline.leases.finish({ worker: "w1", outcomes });
  }
}

/** What the timeline of a job has behind its datums. */
async function stepsSince(pipeline: PipelineApi, job: Job | undefined): Promise<string[]> {
  const summary = await pipeline.jobs.summary(job?.id ?? "");
  if (!summary.ok) throw new Error(summary.reason);
  const behind = summary.steps.findIndex(({ name }) => name === "datums") + 1;
  return summary.steps.slice(behind).map(({ name, to }) => (to === null ? `${name} so far` : name));
}

async function mergesOf(pipeline: PipelineApi): Promise<MergeTask[]> {
  return mergesAmong((await leaseTasks(pipeline)).tasks);
}

function mergesAmong(tasks: readonly Task[]): MergeTask[] {
  return tasks.flatMap((task) => (task.kind === "merge" ? [task] : []));
}

describe("what several datums write to one path", () => {
  it("is put together in byte order of their keys, whichever was done first", async () => {
    await makeRepo("order-in");
    const pipeline = await makePipeline({ name: "order", globs: { "order-in": "/*" } });
    await commit("order-in", { b: "1", "\u{1f600}": "1", a: "1", "\uffee": "1", B: "1", é: "1" });
    const { datums, output } = await leaseSome(pipeline);
    for (const datum of datums.toReversed()) {
      const outcome = await outcomeOf(datum, { command: together, output });
      await pipeline.leases.finish({ worker: "w1", outcomes: [outcome] });
    }
    const [job] = await allJobs(pipeline);
    await leaseTasks(pipeline);
    expect(await stepsSince(pipeline, job)).toEqual(["merge so far"]);
    await expireLeases("order");
    await workUntil(pipeline, { jobs: 1 });
    expect(await stepsSince(pipeline, job)).toEqual(["merge", "commit"]);
    expect(await textsOfOutput("order")).toEqual({ all: "<B><a><b><é><\uffee><\u{1f600}>" });
  });

  it("is in order of the last input first, if there are several", async () => {
    await makeRepo("left", "right");
    const pipeline = await makePipeline({ name: "cross", globs: { left: "/*", right: "/*" } });
    await commit("left", { a: "1", b: "1" });
    await commit("right", { x: "1", y: "1" });
    await workUntil(pipeline, { jobs: 1, command: together });
    expect(await textsOfOutput("cross")).toEqual({ all: "<a+x><b+x><a+y><b+y>" });
  });

  it("is each in its own order if the same parts go to two paths in two orders", async () => {
    await makeRepo("turned-in");
    const pipeline = await makePipeline({ name: "turned", globs: { "turned-in": "/*" } });
    await commit("turned-in", { a: "1", b: "1" });
    const command: Command = (datum) =>
      pathsOf(datum)[0] === "a" ? { one: "<x>", other: "<y>" } : { one: "<y>", other: "<x>" };
    await workUntil(pipeline, { jobs: 1, command });
    expect(await textsOfOutput("turned")).toEqual({ one: "<x><y>", other: "<y><x>" });
  });

  it("is merged again only if one of them changed", async () => {
    await makeRepo("touch-in");
    const pipeline = await makePipeline({ name: "touch", globs: { "touch-in": "/*" } });
    const command: Command = (datum) => {
      const [path = ""] = pathsOf(datum);
      return { [`by-${path[0]}`]: datum.inputs[0]?.content?.digest.slice(0, 4) ?? "" };
    };
    await commit("touch-in", { a1: "1", a2: "2", b1: "3", b2: "4" });
    await workUntil(pipeline, { jobs: 1, command });
    const [one, two, three, four] = ["1", "2", "3", "4"].map((text) => contentOf(text).digest.slice(0, 4));
    expect(await textsOfOutput("touch")).toEqual({ "by-a": `${one}${two}`, "by-b": `${three}${four}` });
    await commit("touch-in", { a1: "4" });
    const merges = await leaseMerges(pipeline, { command });
    expect(merges.map(({ parts }) => parts)).toEqual([
      [four, two].map((text = "") => ({ digest: contentOf(text).digest, size: 4 })),
    ]);
    const outcomes = await Promise.all(
      merges.map((task) => mergeOutcome(task, { repo: "touch", branch: "master" })),
    );
    await pipeline.leases.finish({ worker: "w1", outcomes });
    await workUntil(pipeline, { jobs: 2 });
    expect(await textsOfOutput("touch")).toEqual({ "by-a": `${four}${two}`, "by-b": `${three}${four}` });
  });

  it("is made of those that are left, and is one's own content in the end, when others go", async () => {
    await makeRepo("leave-in");
    const pipeline = await makePipeline({ name: "leave", globs: { "leave-in": "/*" } });
    await commit("leave-in", { a: "1", b: "1", c: "1" });
    await workUntil(pipeline, { jobs: 1, command: together });
    await commit("leave-in", { b: null });
    await workUntil(pipeline, { jobs: 2 });
    expect(await textsOfOutput("leave")).toEqual({ all: "<a><c>" });
    await commit("leave-in", { a: null });
    expect(await workUntil(pipeline, { jobs: 3 })).toEqual([]);
    expect(await textsOfOutput("leave")).toEqual({ all: "<c>" });
    await commit("leave-in", { c: null });
    await workUntil(pipeline, { jobs: 4 });
    expect(await textsOfOutput("leave")).toEqual({});
    expect(await query("leave", "SELECT * FROM published")).toEqual([]);
  });

  it("grows by a datum that comes later", async () => {
    await makeRepo("later-in");
    const pipeline = await makePipeline({ name: "later", globs: { "later-in": "/*" } });
    await commit("later-in", { b: "1" });
    await workUntil(pipeline, { jobs: 1, command: together });
    await commit("later-in", { a: "1" });
    await workUntil(pipeline, { jobs: 2, command: together });
    expect(await textsOfOutput("later")).toEqual({ all: "<a><b>" });
  });

  it("leaves out what is empty, and is empty if all of it is", async () => {
    await makeRepo("empty-in");
    const pipeline = await makePipeline({ name: "empty", globs: { "empty-in": "/*" } });
    await commit("empty-in", { a: "1", b: "1", c: "1" });
    const command: Command = (datum) => ({
      nothing: "",
      one: pathsOf(datum)[0] === "b" ? "b" : "",
      "both/": "",
    });
    const leased = await leaseSome(pipeline);
    const { output } = leased;
    const outcomes = await Promise.all(leased.datums.map((datum) => outcomeOf(datum, { command, output })));
    await pipeline.leases.finish({ worker: "w1", outcomes });
    // No task is leased meanwhile: that would throw.
    await expect.poll(async () => (await allJobs(pipeline))[0]?.state).toBe("success");
    expect(await textsOfOutput("empty")).toEqual({ nothing: "", one: "b" });
    expect(await query("empty", "SELECT * FROM merges")).toEqual([]);
  });

  it("is merged once for two paths that have the same parts, and never again for what was merged before", async () => {
    await makeRepo("twice-in");
    const pipeline = await makePipeline({ name: "twice", globs: { "twice-in": "/*" } });
    const command: Command = (datum) => ({ x: `<${pathsOf(datum)}>`, y: `<${pathsOf(datum)}>` });
    await commit("twice-in", { a: "1", b: "1" });
    const merges = await leaseMerges(pipeline, { command });
    expect(merges).toHaveLength(1);
    const output = { repo: "twice", branch: "master" };
    const outcomes = await Promise.all(merges.map((task) => mergeOutcome(task, output)));
    await pipeline.leases.finish({ worker: "w1", outcomes });
    await workUntil(pipeline, { jobs: 1 });
    await commit("twice-in", { a: null });
    await commit("twice-in", { a: "1" });
    // The last two jobs end with no worker at all.
    await expect
      .poll(async () => (await allJobs(pipeline)).map(({ state }) => state))
      .toEqual(["success", "success", "success"]);
    expect(await textsOfOutput("twice")).toEqual({ x: "<a><b>", y: "<a><b>" });
  });

  it("is merged in a tree if it is more than one merge takes", { ...REST, timeout: 120_000 }, async () => {
    await makeRepo("tree-in");
    const pipeline = await makePipeline({ name: "tree", globs: { "tree-in": "/*" } });
    const names = Array.from({ length: MAX_MERGE_PARTS + 3 }, (_, index) => `f${index}`);
    await commit("tree-in", Object.fromEntries(names.map((name) => [name, "1"])));
    const output = { repo: "tree", branch: "master" };
    let left = names.length;
    while (left > 0) {
      left -= (await workOnce(pipeline, { command: together, max: 64 })).length;
    }
    const first = await mergesOf(pipeline);
    expect(first.map(({ parts }) => parts.length).sort((a, b) => a - b)).toEqual([3, MAX_MERGE_PARTS]);
    const outcomes = await Promise.all(first.map((task) => mergeOutcome(task, output)));
    await pipeline.leases.finish({ worker: "w1", outcomes });
    const second = await mergesOf(pipeline);
    expect(second.map(({ parts }) => parts.length)).toEqual([2]);
    await pipeline.leases.finish({
      worker: "w1",
      outcomes: await Promise.all(second.map((task) => mergeOutcome(task, output))),
    });
    await workUntil(pipeline, { jobs: 1 });
    const expected = names.toSorted().map((name) => `<${name}>`);
    const [entry] = await query<{ size: number }>(
      "tree",
      "SELECT size FROM merges ORDER BY size DESC LIMIT 1",
    );
    expect(entry?.size).toBe(expected.join("").length);
  });
});

describe("a merge", () => {
  const output = (repo: string) => ({ repo, branch: "master" });

  it("goes to another worker when its lease ends; who comes late changes nothing", async () => {
    await makeRepo("late-in");
    const pipeline = await makePipeline({ name: "late", globs: { "late-in": "/*" }, workers: 2 });
    await commit("late-in", { a: "1", b: "1" });
    const [task] = await leaseMerges(pipeline);
    if (!task) throw new Error("no merge");
    expect(await pipeline.leases.renew({ worker: "w1", leases: [task.lease] })).toMatchObject({ lost: [] });
    await expireLeases("late");
    expect(await pipeline.leases.renew({ worker: "w1", leases: [task.lease] })).toEqual({
      lost: [task.lease],
    });
    const { digest, size } = contentOf("liar!!");
    const late: Outcome = { lease: task.lease, state: "merged", content: { digest, size }, millis: 1 };
    expect(await pipeline.leases.finish({ worker: "w1", outcomes: [late] })).toEqual({ lost: [task.lease] });
    await workUntil(pipeline, { jobs: 1, worker: "w2" });
    expect(await textsOfOutput("late")).toEqual({ all: "<a><b>" });
  });

  it("that is given back goes to the next one", async () => {
    await makeRepo("back-in");
    const pipeline = await makePipeline({ name: "back", globs: { "back-in": "/*" } });
    await commit("back-in", { a: "1", b: "1" });
    const [task] = await leaseMerges(pipeline);
    const outcomes: Outcome[] = [{ lease: task?.lease ?? "", state: "returned" }];
    expect(await pipeline.leases.finish({ worker: "w1", outcomes })).toEqual({ lost: [] });
    const [again] = await mergesOf(pipeline);
    expect(again?.parts).toEqual(task?.parts);
  });

  it("that fails datumTries times fails its job by name, and the next job merges again", async () => {
    await makeRepo("fail-in");
    const pipeline = await makePipeline({
      name: "fail",
      globs: { "fail-in": "/*" },
      more: { datumTries: 2 },
    });
    await commit("fail-in", { a: "1", b: "1" });
    const [first] = await leaseMerges(pipeline);
    if (!first) throw new Error("no merge");
    await pipeline.leases.finish({ worker: "w1", outcomes: [failedTask(first, "no disk")] });
    expect((await allJobs(pipeline))[0]?.state).toBe("running");
    const [second] = await mergesOf(pipeline);
    if (!second) throw new Error("no merge");
    const { digest, size } = contentOf("x");
    const short: Outcome = { lease: second.lease, state: "merged", content: { digest, size }, millis: 1 };
    await pipeline.leases.finish({ worker: "w1", outcomes: [short] });
    expect((await allJobs(pipeline))[0]).toMatchObject({
      state: "failure",
      reason:
        "merging what several datums wrote to 'all' failed: the merged content has 1 bytes, its parts have 6",
      outputCommit: null,
      datums: { total: 2, processed: 2, skipped: 0, failed: 0 },
    });
    await commit("fail-in", { c: "1" });
    await workUntil(pipeline, { jobs: 2, command: together });
    expect(await textsOfOutput("fail")).toEqual({ all: "<a><b><c>" });
  });

  it("is done again if the output branch does not have its content", async () => {
    await makeRepo("lack-in");
    const pipeline = await makePipeline({ name: "lack", globs: { "lack-in": "/*" } });
    await commit("lack-in", { a: "1", b: "1" });
    const [task] = await leaseMerges(pipeline);
    const { digest, size } = contentOf("gone!!");
    const content = { digest, size };
    await pipeline.leases.finish({
      worker: "w1",
      outcomes: [{ lease: task?.lease ?? "", state: "merged", content, millis: 1 }],
    });
    const [again] = await mergesOf(pipeline);
    if (!again) throw new Error("no merge");
    expect(again.parts).toEqual(task?.parts);
    await pipeline.leases.finish({ worker: "w1", outcomes: [await mergeOutcome(again, output("lack"))] });
    await workUntil(pipeline, { jobs: 1 });
    expect(await textsOfOutput("lack")).toEqual({ all: "<a><b>" });
  });

  it("is what its job says that it waits for", async () => {
    await makeRepo("say-in");
    const pipeline = await makePipeline({ name: "say", globs: { "say-in": "/*" } });
    await commit("say-in", { a: "1", b: "1" });
    await leaseMerges(pipeline);
    expect((await allJobs(pipeline))[0]).toMatchObject({
      state: "running",
      reason: "what several datums wrote to one path is being put together",
    });
    await expireLeases("say");
    const [task] = await mergesOf(pipeline);
    await pipeline.leases.finish({
      worker: "w1",
      outcomes: [{ lease: task?.lease ?? "", state: "returned" }],
    });
    expect((await allJobs(pipeline))[0]?.reason).toContain("no live runner");
  });

  it("of a job that is stopped is lost with it", async () => {
    await makeRepo("stop-in");
    const pipeline = await makePipeline({ name: "stop", globs: { "stop-in": "/*" } });
    await commit("stop-in", { a: "1", b: "1" });
    const [task] = await leaseMerges(pipeline);
    const [job] = await allJobs(pipeline);
    expect(await pipeline.jobs.stop(job?.id ?? "")).toMatchObject({ ok: true, job: { state: "killed" } });
    const lease = task?.lease ?? "";
    expect(await pipeline.leases.renew({ worker: "w1", leases: [lease] })).toEqual({ lost: [lease] });
    await commit("stop-in", { c: "1" });
    await workUntil(pipeline, { jobs: 2, command: together });
    expect(await textsOfOutput("stop")).toEqual({ all: "<a><b><c>" });
    expect(await query("stop", "SELECT * FROM tasks")).toEqual([]);
  });

  it("that was long not used is let go of, with its upload", async () => {
    await makeRepo("old-in");
    const pipeline = await makePipeline({ name: "old", globs: { "old-in": "/*" } });
    await commit("old-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: together });
    expect(await query("old", "SELECT used FROM merges")).toEqual([{ used: 1 }]);
    // As if many jobs had been committed since.
    await query("old", "UPDATE merges SET used = 0");
    await query("old", "UPDATE jobs SET n = n + 200; UPDATE attempts SET job = job + 200");
    await leftRow("old", "committed = 201");
    await query("old", "UPDATE datums SET born = born + 200; UPDATE results SET job = job + 200");
    await commit("old-in", { a: null });
    await workUntil(pipeline, { jobs: 2 });
    await expect.poll(() => query("old", "SELECT used FROM merges")).toEqual([]);
    expect(await textsOfOutput("old")).toEqual({ all: "<b>" });
  });
});
