import { describe, expect, it, vi } from "vitest";
import type { JobDatum } from "../../../protocol/pipelines.ts";
import type { LeasedDatum } from "../../../protocol/runner.ts";
import { feed } from "../../../worker/branch/calls/feed.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { KEPT_JOBS } from "../../../worker/pipeline/jobs/job-store.ts";
import { REST } from "../../support/suite.ts";
import {
  allJobs,
  type Command,
  commit,
  contentOf,
  leaseSome,
  makePipeline,
  makeRepo,
  master,
  pathsOf,
  pipelineOf,
  query,
  specOf,
  workOnce,
  workUntil,
} from "./support.ts";

async function datumsOf(pipeline: PipelineApi, job: string, limit = 100): Promise<JobDatum[]> {
  const found: JobDatum[] = [];
  for (let after: string | null = null; ; ) {
    const page = await pipeline.datums.list({ job, limit, ...(after !== null && { after }) });
    if (!page.ok) throw new Error(page.reason);
    found.push(...page.datums);
    after = page.next;
    if (after === null) return found;
  }
}

describe("the datums of a job", () => {
  it("are none if it ended before they were worked out, whatever the job before had", async () => {
    await makeRepo("unfilled-in");
    const pipeline = await makePipeline({ name: "unfilled", globs: { "unfilled-in": "/*" } });
    await commit("unfilled-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const compares = vi.spyOn(feed, "fingerprint").mockRejectedValue(new Error("the branch is away"));
    await commit("unfilled-in", { a: null, "d/x": "1" });
    await expect.poll(async () => (await allJobs(pipeline)).length).toBe(2);
    const job = (await allJobs(pipeline))[1]?.id ?? "";
    const whileFilled = await datumsOf(pipeline, job);
    expect((await pipeline.jobs.stop(job)).ok).toBe(true);
    compares.mockRestore();
    expect([whileFilled, await datumsOf(pipeline, job)]).toEqual([[], []]);
  });

  it("are what it ran, with how that ended and where, and what it skipped", async () => {
    await makeRepo("list-in");
    const pipeline = await makePipeline({ name: "list", globs: { "list-in": "/*" } });
    await commit("list-in", { old: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const head = await commit("list-in", { bad: "1", good: "1" });
    await workUntil(pipeline, {
      jobs: 2,
      command: (datum) => (pathsOf(datum)[0] === "bad" ? "fail" : { x: "y" }),
    });
    const job = (await allJobs(pipeline))[1]?.id ?? "";
    const datums = await datumsOf(pipeline, job);
    const byPath = new Map(datums.map((datum) => [datum.inputs[0]?.path, datum]));
    expect([...byPath.keys()].sort()).toEqual(["bad", "good", "old"]);
    const inputs = (path: string) => [{ name: "list-in", path, commit: head }];
    expect(byPath.get("bad")).toMatchObject({
      state: "failed",
      tries: 3,
      exitCode: 3,
      reason: "the command failed",
      node: "n1",
      inputs: inputs("bad"),
    });
    expect(byPath.get("good")).toMatchObject({ state: "success", exitCode: 0, reason: null, node: "n1" });
    expect(byPath.get("old")).toMatchObject({ state: "skipped", node: null, inputs: inputs("old") });
  });

  it("come in pages, each datum once, also where a datum is the root", async () => {
    await makeRepo("page-in", "root-in");
    const pipeline = await makePipeline({ name: "page", globs: { "page-in": "/*" } });
    await commit("page-in", Object.fromEntries(Array.from({ length: 7 }, (_, n) => [`old${n}`, "1"])));
    await workUntil(pipeline, { jobs: 1 });
    await commit("page-in", Object.fromEntries(Array.from({ length: 4 }, (_, n) => [`new${n}`, "1"])));
    await workUntil(pipeline, { jobs: 2 });
    const id = (await allJobs(pipeline))[1]?.id ?? "";
    const datums = await datumsOf(pipeline, id, 3);
    expect(new Set(datums.map((datum) => datum.id)).size).toBe(11);
    expect(datums).toHaveLength(11);
    const root = await makePipeline({ name: "root", globs: { "root-in": "/" } });
    await commit("root-in", { a: "1" });
    await workUntil(root, { jobs: 1 });
    const [first] = await allJobs(root);
    expect(await datumsOf(root, first?.id ?? "")).toMatchObject([{ inputs: [{ path: "" }] }]);
    expect(await pipeline.datums.list({ job: id, after: "nonsense", limit: 1 })).toEqual({
      ok: false,
      reason: "no-such-place",
    });
    expect(await pipeline.datums.list({ job: "none", limit: 1 })).toEqual({
      ok: false,
      reason: "no-such-job",
    });
  });

  it("are told of while they run, wait, are tried again, and after their job was stopped", async () => {
    await makeRepo("live-in");
    const pipeline = await makePipeline({ name: "live", globs: { "live-in": "/*" } });
    await commit("live-in", { a: "1", b: "1" });
    await expect
      .poll(async () => (await workOnce(pipeline, { max: 1, command: () => "fail" })).length)
      .toBe(1);
    const { datums } = await leaseSome(pipeline, { max: 1 });
    const job = datums[0]?.job ?? "";
    const states = async () => (await datumsOf(pipeline, job)).map(({ state }) => state).sort();
    expect(await states()).toEqual(["queued", "running"]);
    const tried = (await datumsOf(pipeline, job)).find(({ tries }) => tries === 1);
    expect(tried).toMatchObject({ exitCode: 3, reason: "the command failed" });
    await pipeline.jobs.stop(job);
    expect(await states()).toEqual(["killed", "killed"]);
  });
});

/** Why the n-th job ran each of its datums, or did not, by the paths of the datum; what is dead was trimmed before. */
async function whyOf(name: string, n: number): Promise<Record<string, JobDatum["why"]>> {
  const pipeline = pipelineOf(name);
  await expect
    .poll(() =>
      query(
        name,
        `SELECT (SELECT count(*) FROM datums WHERE died IS NOT NULL) + (
           SELECT count(*) FROM ended_elements) AS dead`,
      ),
    )
    .toEqual([{ dead: 0 }]);
  const job = (await allJobs(pipeline))[n]?.id ?? "";
  const found: Record<string, JobDatum["why"]> = {};
  for (let after: string | null = null; ; ) {
    const page: Awaited<ReturnType<PipelineApi["datums"]["list"]>> = await pipeline.datums.list({
      ...{ job, limit: 3, why: true },
      ...(after !== null && { after }),
    });
    if (!page.ok) throw new Error(page.reason);
    for (const { inputs, why } of page.datums) found[inputs.map(({ path }) => path).join("+")] = why;
    after = page.next;
    if (after === null) return found;
  }
}

async function jobIds(name: string): Promise<string[]> {
  return (await allJobs(pipelineOf(name))).map(({ id }) => id);
}

const idOf = (text: string) => {
  const { digest, size } = contentOf(text);
  return { digest, size };
};

describe("why a job ran a datum", () => {
  it("is that it is new, that it has changed from what to what, or it has the result of a job", async () => {
    await makeRepo("why-in");
    await makePipeline({ name: "why", globs: { "why-in": "/*" } });
    await commit("why-in", { a: "1", b: "1", "d/f": "1", "d/g": "1" });
    await workUntil(pipelineOf("why"), { jobs: 1 });
    await commit("why-in", { a: "22", c: "1", "d/f": null, "d/h": "1" });
    await workUntil(pipelineOf("why"), { jobs: 2 });
    const [first] = await jobIds("why");
    const isNew = (path: string) => [{ reason: "new", inputs: [{ name: "why-in", path }] }];
    expect(await whyOf("why", 0)).toEqual({ a: isNew("a"), b: isNew("b"), d: isNew("d") });
    const change = (path: string, before: string | null, after: string | null) => ({
      ...{ input: "why-in", path },
      ...{ before: before === null ? null : idOf(before), after: after === null ? null : idOf(after) },
    });
    expect(await whyOf("why", 1)).toEqual({
      a: [{ reason: "changed", changes: [change("a", "1", "22")], more: false }],
      b: [{ reason: "result", job: first }],
      c: isNew("c"),
      d: [{ reason: "changed", changes: [change("d/f", "1", null), change("d/h", null, "1")], more: false }],
    });
  });

  it("is a field of another version, also if one between them is kept no more", async () => {
    await makeRepo("gap-in");
    const options = { name: "gap", globs: { "gap-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("gap-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await pipeline.lifecycle.stop();
    const transform = { image: "none", cmd: ["other"] };
    for (const description of ["second", "third"]) {
      const spec = specOf({ ...options, more: { transform, description } });
      expect((await pipeline.specification.update({ spec, reprocess: false })).ok).toBe(true);
    }
    await query("gap", "DELETE FROM revisions WHERE revision = 2");
    await pipeline.lifecycle.start();
    await workUntil(pipeline, { jobs: 2 });
    expect(await whyOf("gap", 1)).toEqual({
      a: [{ reason: "version", from: 1, to: 3, fields: expect.arrayContaining(["transform.cmd"]) }],
    });
  });

  it("is a field of another version of the specification, or that all was asked for again", async () => {
    await makeRepo("version-in");
    const options = { name: "version", globs: { "version-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("version-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const transform = { image: "other", cmd: ["true", "x"] };
    await pipeline.specification.update({
      spec: specOf({ ...options, more: { transform } }),
      reprocess: false,
    });
    await workUntil(pipeline, { jobs: 2 });
    await pipeline.specification.update({
      spec: specOf({ ...options, more: { transform } }),
      reprocess: true,
    });
    await workUntil(pipeline, { jobs: 3 });
    // Both at once: a file changes while the pipeline stands still, and its version is another one then.
    await pipeline.lifecycle.stop();
    await commit("version-in", { a: "2" });
    await pipeline.specification.update({
      spec: specOf({ ...options, more: { transform: { ...transform, cmd: ["x"] } } }),
      reprocess: false,
    });
    await pipeline.lifecycle.start();
    await workUntil(pipeline, { jobs: 4 });
    const version = (from: number, to: number, ...fields: string[]) => ({
      reason: "version",
      from,
      to,
      fields,
    });
    const both = [version(1, 2, "transform.cmd", "transform.image")];
    expect(await whyOf("version", 1)).toEqual({ a: both, b: both });
    const again = [{ reason: "reprocess", version: 3 }];
    expect(await whyOf("version", 2)).toEqual({ a: again, b: again });
    expect(await whyOf("version", 3)).toEqual({
      a: [expect.objectContaining({ reason: "changed" }), version(3, 4, "transform.cmd")],
      b: [version(3, 4, "transform.cmd")],
    });
  });

  it("is a glob that matches more than before", REST, async () => {
    await makeRepo("wider-in");
    const options = { name: "wider", globs: { "wider-in": "/a*" } };
    const pipeline = await makePipeline(options);
    await commit("wider-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await pipeline.specification.update({
      spec: specOf({ ...options, globs: { "wider-in": "/*" } }),
      reprocess: false,
    });
    await workUntil(pipeline, { jobs: 2 });
    const [first] = await jobIds("wider");
    expect(await whyOf("wider", 1)).toEqual({
      a: [{ reason: "result", job: first }],
      b: [
        { reason: "new", inputs: [{ name: "wider-in", path: "b" }] },
        { reason: "version", from: 1, to: 2, fields: ["inputs.wider-in.glob"] },
      ],
    });
  });

  it("is that it failed before, or that its job was stopped", async () => {
    await makeRepo("undone-in");
    const pipeline = await makePipeline({ name: "undone", globs: { "undone-in": "/*" } });
    await commit("undone-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1, command: () => "fail" });
    await commit("undone-in", { b: "1" });
    // The job takes over what failed before it once it is the oldest one.
    const leased: LeasedDatum[] = [];
    while (leased.length < 2) leased.push(...(await leaseSome(pipeline)).datums);
    await pipeline.jobs.stop(leased[0]?.job ?? "");
    await commit("undone-in", { c: "1" });
    await workUntil(pipeline, { jobs: 3 });
    const [first, second] = await jobIds("undone");
    const newly = (path: string) => [{ reason: "new", inputs: [{ name: "undone-in", path }] }];
    expect(await whyOf("undone", 1)).toEqual({
      a: [{ reason: "again", job: first, state: "failed" }],
      b: newly("b"),
    });
    const killed = [{ reason: "again", job: second, state: "killed" }];
    expect(await whyOf("undone", 2)).toEqual({ a: killed, b: killed, c: newly("c") });
  });

  it("of several inputs names the one that is new or has changed", REST, async () => {
    await makeRepo("cross-a", "cross-b");
    const pipeline = await makePipeline({ name: "cross", globs: { "cross-a": "/*", "cross-b": "/*" } });
    const all: Command = (datum) => ({ [pathsOf(datum).join("+")]: datum.datum });
    await commit("cross-a", { x: "1" });
    await commit("cross-b", { y: "1" });
    await workUntil(pipeline, { jobs: 1, command: all });
    await commit("cross-b", { z: "1" });
    await workUntil(pipeline, { jobs: 2, command: all });
    const [first] = await jobIds("cross");
    expect(await whyOf("cross", 1)).toEqual({
      "x+y": [{ reason: "result", job: first }],
      "x+z": [{ reason: "new", inputs: [{ name: "cross-b", path: "z" }] }],
    });
    await commit("cross-a", { x: "2" });
    await workUntil(pipeline, { jobs: 3, command: all });
    const changes = [{ input: "cross-a", path: "x", before: idOf("1"), after: idOf("2") }];
    const changed = [{ reason: "changed", changes, more: false }];
    expect(await whyOf("cross", 2)).toEqual({ "x+y": changed, "x+z": changed });
  });

  it("is told of the root, of what an input holds since its start, and over many commits", REST, async () => {
    await makeRepo("since-in");
    const start = await commit("since-in", { old: "1", "d/old": "1" });
    const inputs = [
      {
        repo: { name: "since-in" },
        name: "since-in",
        glob: "/*",
        from: { repo: { name: "since-in" }, ID: start },
      },
    ];
    const since = await makePipeline({ name: "since", globs: {}, more: { inputs } });
    const root = await makePipeline({ name: "whole", globs: { "since-in": "/" } });
    await workUntil(root, { jobs: 1 });
    await commit("since-in", { first: "1" });
    await workUntil(since, { jobs: 1 });
    await since.lifecycle.stop();
    await root.lifecycle.stop();
    for (let n = 0; n < 3; n++) await commit("since-in", { old: `${n + 2}`, [`d/${n}`]: "1" });
    for (const pipeline of [since, root]) await pipeline.lifecycle.start();
    await workUntil(since, { jobs: 2 });
    await workUntil(root, { jobs: 3 });
    const [first] = await jobIds("since");
    expect(await whyOf("since", 1)).toEqual({
      first: [{ reason: "result", job: first }],
      old: [{ reason: "new", inputs: [{ name: "since-in", path: "old" }] }],
      d: [{ reason: "new", inputs: [{ name: "since-in", path: "d" }] }],
    });
    const changes = ["d/0", "d/1", "d/2", "old"].map((path) => expect.objectContaining({ path }));
    expect(await whyOf("whole", 2)).toEqual({ "": [{ reason: "changed", changes, more: false }] });
  });

  it("is that it is new in a branch that was deleted and made again", REST, async () => {
    await makeRepo("anew-in");
    const pipeline = await makePipeline({ name: "anew", globs: { "anew-in": "/*" } });
    await commit("anew-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await master("anew-in").lifecycle.destroy();
    await workUntil(pipeline, { jobs: 2 });
    await makeRepo("anew-in");
    await commit("anew-in", { a: "2" });
    await workUntil(pipeline, { jobs: 3 });
    expect(await whyOf("anew", 2)).toEqual({
      a: [{ reason: "new", inputs: [{ name: "anew-in", path: "a" }] }],
    });
  });

  it("is not kept of a job long past, and it says so", async () => {
    await makeRepo("past-in");
    const pipeline = await makePipeline({ name: "past", globs: { "past-in": "/*" } });
    for (const path of ["a", "b"]) await commit("past-in", { [path]: "1" });
    await workUntil(pipeline, { jobs: 2 });
    await query("past", `UPDATE jobs SET n = n + ${KEPT_JOBS} WHERE n = 2`);
    expect(await whyOf("past", 0)).toEqual({ a: [{ reason: "not-kept" }] });
  });
});
