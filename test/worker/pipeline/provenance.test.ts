import { describe, expect, it, vi } from "vitest";
import type { Maker } from "../../../protocol/commits.ts";
import type { Ran } from "../../../protocol/runner.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import {
  allJobs,
  type Command,
  commit,
  echo,
  leaseSome,
  makePipeline,
  makeRepo,
  master,
  outcomeOf,
  pathsOf,
  pipelineOf,
  query,
  specOf,
  workUntil,
} from "./support.ts";

/** What made a path of the n-th job's commit, all pages of it. */
async function makersOf(
  pipeline: PipelineApi,
  { path, job, limit = 100 }: { path: string; job: number; limit?: number },
): Promise<Maker[]> {
  const id = (await allJobs(pipeline))[job]?.id ?? "";
  const makers: Maker[] = [];
  for (let after: string | null = null; ; ) {
    const page: Awaited<ReturnType<PipelineApi["lineage"]["provenance"]>> = await pipeline.lineage.provenance(
      {
        job: id,
        path,
        after,
        limit,
      },
    );
    if (!page.ok) throw new Error(page.reason);
    makers.push(...page.datums);
    if (page.next === null) return makers;
    after = page.next;
  }
}

/** Input paths of each maker. */
function readOf(makers: readonly Maker[]): string[] {
  return makers.map(({ inputs }) => inputs.map(({ path }) => path).join("+"));
}

describe("what made an output file", () => {
  it("is its datum: how that ended, where, and what it read at which commit", async () => {
    await makeRepo("made-a", "made-b");
    const pipeline = await makePipeline({ name: "made", globs: { "made-a": "/*", "made-b": "/*" } });
    const a = await commit("made-a", { "d/x": "1" });
    const b = await commit("made-b", { y: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const [job] = await allJobs(pipeline);
    const [maker, ...more] = await makersOf(pipeline, { path: "d+y.out", job: 0 });
    expect(more).toEqual([]);
    expect(maker).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{64}$/),
      state: "success",
      job: job?.id,
      node: "n1",
      exitCode: 0,
      code: { version: 1, node: "n1", executor: "process", image: null },
      inputs: [
        { name: "made-a", repo: "made-a", branch: "master", commit: a, path: "d", kind: "dir" },
        { name: "made-b", repo: "made-b", branch: "master", commit: b, path: "y", kind: "file" },
      ],
    });
  });

  it("stays known for every commit, whatever later jobs changed", async () => {
    await makeRepo("past-in");
    const pipeline = await makePipeline({ name: "past", globs: { "past-in": "/*" } });
    const same: Command = (datum) => ({ [`${pathsOf(datum)[0]}.out`]: datum.datum });
    const commits = [
      await commit("past-in", { a: "1", "d/f": "1" }),
      await commit("past-in", { a: "2" }),
      await commit("past-in", { a: null, "d/f": null, d: "1" }),
      await commit("past-in", { a: "1" }),
    ];
    await workUntil(pipeline, { jobs: 4, command: same });
    await expect
      .poll(() => query("past", "SELECT count(*) AS n FROM datums WHERE died IS NOT NULL"))
      .toEqual([{ n: 0 }]);
    const jobs = await allJobs(pipeline);
    const first = await makersOf(pipeline, { path: "a.out", job: 0 });
    const second = await makersOf(pipeline, { path: "a.out", job: 1 });
    const last = await makersOf(pipeline, { path: "a.out", job: 3 });
    expect([first, second, last].map((makers) => makers.map(({ state, job }) => [state, job]))).toEqual([
      [["success", jobs[0]?.id]],
      [["success", jobs[1]?.id]],
      // The datum is the one of the first job again.
      [["skipped", jobs[0]?.id]],
    ]);
    expect(last[0]?.id).toBe(first[0]?.id);
    expect(second[0]?.inputs[0]?.commit).toBe(commits[1]);
    expect(await makersOf(pipeline, { path: "a.out", job: 2 })).toEqual([]);
    const kinds = [0, 1, 2, 3].map(
      async (job) => (await makersOf(pipeline, { path: "d.out", job }))[0]?.inputs[0],
    );
    expect((await Promise.all(kinds)).map((input) => [input?.kind, input?.commit])).toEqual([
      ["dir", commits[0]],
      ["dir", commits[1]],
      ["file", commits[2]],
      ["file", commits[3]],
    ]);
  });

  it("is known even if the input branch is gone", async () => {
    await makeRepo("lost-in");
    const pipeline = await makePipeline({ name: "lost", globs: { "lost-in": "/*" } });
    const head = await commit("lost-in", { "d/f": "1" });
    await workUntil(pipeline, { jobs: 1 });
    await master("lost-in").lifecycle.destroy();
    await workUntil(pipeline, { jobs: 2 });
    const [maker] = await makersOf(pipeline, { path: "d.out", job: 0 });
    expect(maker?.inputs).toMatchObject([{ path: "d", kind: "dir", commit: head }]);
    expect(await makersOf(pipeline, { path: "d.out", job: 1 })).toEqual([]);
  });

  it("is every datum that left the same empty directory, in pages, by what they read", async () => {
    await makeRepo("many-in");
    const pipeline = await makePipeline({ name: "many", globs: { "many-in": "/*" } });
    const empty: Command = () => ({ "dir/": "" });
    await commit("many-in", { c: "1", a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: empty });
    await commit("many-in", { b: "2", d: "1", a: null });
    await workUntil(pipeline, { jobs: 2, command: empty });
    expect(readOf(await makersOf(pipeline, { path: "dir/", job: 0, limit: 2 }))).toEqual(["a", "b", "c"]);
    expect(readOf(await makersOf(pipeline, { path: "dir/", job: 1, limit: 1 }))).toEqual(["b", "c", "d"]);
  });

  it("is every datum that wrote to it, at each commit, if several did", async () => {
    await makeRepo("join-in");
    const pipeline = await makePipeline({ name: "join", globs: { "join-in": "/*" } });
    const together: Command = (datum) => ({ all: datum.datum });
    await commit("join-in", { c: "1", a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: together });
    await commit("join-in", { b: "2", c: null });
    await workUntil(pipeline, { jobs: 2, command: together });
    const [first, second] = await Promise.all([0, 1].map((job) => makersOf(pipeline, { path: "all", job })));
    expect(readOf(first ?? [])).toEqual(["a", "b", "c"]);
    expect(readOf(second ?? [])).toEqual(["a", "b"]);
    expect(second?.map(({ state }) => state)).toEqual(["skipped", "success"]);
    expect(second?.[1]?.id).not.toBe(first?.[1]?.id);
  });

  it("is another one after an update that runs every datum again", async () => {
    await makeRepo("anew-in");
    const spec = { name: "anew", globs: { "anew-in": "/*" } };
    const pipeline = await makePipeline(spec);
    await commit("anew-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const found = await pipeline.lifecycle.inspect();
    if (!found.ok) throw new Error(found.reason);
    await pipeline.specification.update({ spec: found.pipeline.spec, reprocess: true });
    await workUntil(pipeline, { jobs: 2 });
    const jobs = await allJobs(pipeline);
    const [now] = await makersOf(pipeline, { path: "a.out", job: 1 });
    expect(now).toMatchObject({ state: "success", job: jobs[1]?.id });
    const [before] = await makersOf(pipeline, { path: "a.out", job: 0 });
    expect(before).toMatchObject({ id: now?.id, inputs: [{ path: "a" }] });
  });

  it("is asked of a job that is there and has ended", async () => {
    await makeRepo("ask-in");
    const pipeline = await makePipeline({ name: "ask", globs: { "ask-in": "/*" } });
    const question = { path: "a.out", after: null, limit: 1 };
    expect(await pipeline.lineage.provenance({ ...question, job: "none" })).toEqual({
      ok: false,
      reason: "no-such-job",
    });
    await commit("ask-in", { a: "1" });
    await expect.poll(() => allJobs(pipeline)).toHaveLength(1);
    const [job] = await allJobs(pipeline);
    const asked = { ...question, job: job?.id ?? "" };
    expect(await pipeline.lineage.provenance(asked)).toEqual({ ok: false, reason: "not-yet" });
    await workUntil(pipeline, { jobs: 1 });
    expect(await pipeline.lineage.provenance(asked)).toMatchObject({
      ok: true,
      datums: [{ state: "success" }],
    });
  });

  it("grows by what changes, not by what is there", async () => {
    await makeRepo("grow-in");
    const pipeline = await makePipeline({ name: "grow", globs: { "grow-in": "/*" } });
    await commit("grow-in", { a: "1", b: "1", c: "1" });
    await workUntil(pipeline, { jobs: 1 });
    for (const text of ["2", "3"]) await commit("grow-in", { a: text });
    await workUntil(pipeline, { jobs: 3 });
    const all =
      "SELECT path, born FROM made UNION ALL SELECT path, born FROM published WHERE born IS NOT NULL";
    expect(await query("grow", all)).toHaveLength(5);
  });
});

/** Runs the datums that are leased next as this; the job then ends. */
async function runAs(pipeline: PipelineApi, { ran, jobs }: { ran: Ran; jobs: number }): Promise<void> {
  const { datums, output } = await leaseSome(pipeline);
  const outcomes = await Promise.all(
    datums.map(async (datum) => {
      const outcome = await outcomeOf(datum, { command: echo, output });
      return outcome.state === "success" ? { ...outcome, ran } : outcome;
    }),
  );
  expect(await pipeline.leases.finish({ worker: "w1", outcomes })).toEqual({ lost: [] });
  await workUntil(pipeline, { jobs });
}

const IMAGE = `docker.io/library/busybox@sha256:${"0".repeat(64)}`;

describe("the code that made an output file", () => {
  it("is kept with the result: the image or that there was none, the version and the node, also if it was skipped", async () => {
    await makeRepo("code-in");
    const pipeline = await makePipeline({ name: "code", globs: { "code-in": "/*" } });
    const codeOf = async (path: string, job: number) => (await makersOf(pipeline, { path, job }))[0]?.code;
    await commit("code-in", { a: "1" });
    await runAs(pipeline, { ran: { executor: "docker", image: IMAGE }, jobs: 1 });
    await commit("code-in", { b: "1" });
    await runAs(pipeline, { ran: { executor: "process", image: null }, jobs: 2 });
    await commit("code-in", { c: "1" });
    await runAs(pipeline, { ran: { executor: "podman", image: IMAGE }, jobs: 3 });
    const inContainer = { version: 1, node: "n1", executor: "docker", image: IMAGE };
    for (const job of [0, 1, 2]) expect(await codeOf("a.out", job)).toEqual(inContainer);
    const asProcess = { version: 1, node: "n1", executor: "process", image: null };
    expect(await codeOf("b.out", 2)).toEqual(asProcess);
    expect(await codeOf("c.out", 2)).toEqual({ ...inContainer, executor: "podman" });
    const [, , third] = await allJobs(pipeline);
    const pages = [undefined, "r"].map((after) =>
      pipeline.datums.list({ job: third?.id ?? "", limit: 10, ...(after !== undefined && { after }) }),
    );
    const datums = (await Promise.all(pages)).flatMap((page) => (page.ok ? page.datums : []));
    const codes = datums.map(({ inputs, code }) => [inputs[0]?.path, code?.executor]);
    expect(codes.sort()).toEqual([
      ["a", "docker"],
      ["b", "process"],
      ["c", "podman"],
    ]);
    expect(await query("code", "SELECT count(*) AS n FROM codes")).toEqual([{ n: 3 }]);
  });

  it("of an old commit is still known when its result is kept no more", async () => {
    await makeRepo("old-code-in");
    const options = { name: "old-code", globs: { "old-code-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("old-code-in", { a: "1" });
    await runAs(pipeline, { ran: { executor: "podman", image: IMAGE }, jobs: 1 });
    await pipelineOf("old-code").specification.update({ spec: specOf(options), reprocess: true });
    await runAs(pipeline, { ran: { executor: "process", image: null }, jobs: 2 });
    await expect.poll(() => query("old-code", "SELECT DISTINCT salt FROM results")).toEqual([{ salt: "2" }]);
    const makers = await Promise.all(
      [0, 1].map(async (job) => (await makersOf(pipeline, { path: "a.out", job }))[0]),
    );
    expect(makers.map((maker) => maker?.code)).toEqual([
      { version: 1, node: "n1", executor: "podman", image: IMAGE },
      { version: 2, node: "n1", executor: "process", image: null },
    ]);
    // Each ran it, and says so.
    const jobs = await allJobs(pipeline);
    expect(makers).toMatchObject(jobs.map(({ id }) => ({ state: "success", job: id, exitCode: 0 })));
  });

  it("is known also if the first result of that code was undone on its way", async () => {
    await makeRepo("undone-in");
    const pipeline = await makePipeline({ name: "undone", globs: { "undone-in": "/*" } });
    await commit("undone-in", { a: "1" });
    const { datums, output } = await leaseSome(pipeline);
    const [datum] = datums;
    if (!datum) throw new Error("nothing was leased");
    const outcomes = [await outcomeOf(datum, { command: echo, output })];
    const execute = Sql.prototype.execute;
    const spy = vi.spyOn(Sql.prototype, "execute").mockImplementation(function (this: Sql, text, values) {
      if (/INTO results/.test(text)) throw new Error("crash");
      return execute.call(this, text, values);
    });
    const failed = pipeline.leases.finish({ worker: "w1", outcomes }).catch(() => "failed");
    expect(await failed).toBe("failed");
    spy.mockRestore();
    await pipeline.leases.finish({ worker: "w1", outcomes });
    await workUntil(pipeline, { jobs: 1 });
    const [maker] = await makersOf(pipeline, { path: "a.out", job: 0 });
    expect(maker?.code).toMatchObject({ version: 1, node: "n1" });
  });
});

describe("a pipeline that never was", () => {
  it("tells nothing of what became of a commit, and has no job that goes on", async () => {
    const { lineage, jobs } = pipelineOf("never-was");
    const commit = { repo: "nowhere", branch: "master", commit: "none", at: null };
    expect(await lineage.fate(commit)).toEqual({ ok: false, reason: "no-such-pipeline" });
    expect(await jobs.unfinished(["none"])).toEqual([]);
  });
});
