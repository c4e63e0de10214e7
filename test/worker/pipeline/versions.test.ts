import { env, runInDurableObject } from "cloudflare:test";
import { describe, expect, it, vi } from "vitest";
import { Sql } from "../../../worker/objects/sql.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { Ledger } from "../../../worker/pipeline/ledger/ledger.ts";
import { PipelineStore } from "../../../worker/pipeline/lifecycle/pipeline-store.ts";
import { VersionStore } from "../../../worker/pipeline/lifecycle/version-store.ts";
import {
  allJobs,
  commit,
  leftRow,
  makePipeline,
  makeRepo,
  pipelineOf,
  query,
  type SpecOptions,
  specOf,
  workUntil,
} from "./support.ts";

/** Looks at the versions of a pipeline as its object keeps them. */
function inVersions<T>(name: string, look: (versions: VersionStore) => T): Promise<T> {
  return runInDurableObject(env.PIPELINE.getByName(name), (_, { storage }) =>
    look(new VersionStore(new Sql(storage.sql))),
  );
}

async function updateTo(options: SpecOptions, cmd: string): Promise<void> {
  const transform = { image: "none", cmd: [cmd] };
  const updated = await pipelineOf(options.name).specification.update({
    spec: specOf({ ...options, more: { transform } }),
    reprocess: false,
  });
  expect(updated.ok).toBe(true);
}

async function numbers(pipeline: PipelineApi): Promise<number[]> {
  const page = await pipeline.specification.versions({ limit: 100 });
  return page.ok ? page.versions.map(({ version }) => version) : [];
}

it("what was read of the pipeline in a transaction that is undone is forgotten with it", async () => {
  await makeRepo("undone-in");
  const options = { name: "undone", globs: { "undone-in": "/*" } };
  await makePipeline(options);
  const seen = await runInDurableObject(env.PIPELINE.getByName("undone"), (_, { storage }) => {
    const ledger = new Ledger(storage);
    const by = { key: null, text: null };
    const read = () => [
      ledger.pipeline.row()?.state,
      ledger.pipeline.definition()?.revision,
      ledger.pipeline.definition()?.limited,
    ];
    const before = read();
    const within: unknown[] = [];
    const work = () => {
      ledger.pipeline.setState("stopping");
      ledger.pipeline.resubmit({ limited: false, by });
      within.push(...read());
      throw new Error("undone");
    };
    expect(() => ledger.transaction(work)).toThrow("undone");
    return { before, within, after: read() };
  });
  expect(seen).toEqual({
    before: ["active", 1, true],
    within: ["stopping", 1, false],
    after: ["active", 1, true],
  });
});

describe("the versions that are kept", () => {
  it("are the newest ones, as many as fit, and those that a job was made for", async () => {
    await makeRepo("kept-in");
    const options = { name: "kept", globs: { "kept-in": "/*" } };
    const pipeline = await makePipeline(options);
    // Without data no version makes a job.
    for (const cmd of ["2", "3"]) await updateTo(options, cmd);
    await commit("kept-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await pipeline.lifecycle.stop();
    for (const cmd of ["4", "5", "6"]) await updateTo(options, cmd);
    expect(await inVersions("kept", (versions) => versions.tooOld())).toEqual([]);
    expect(await inVersions("kept", (versions) => versions.tooOld({ versions: 2 }))).toEqual([1, 2, 4]);
    // The present one and the one before stay, whatever they come to.
    expect(await inVersions("kept", (versions) => versions.tooOld({ bytes: 1 }))).toEqual([1, 2, 4]);
    expect((await allJobs(pipeline))[0]).toMatchObject({ version: 3 });
  });

  it("are all that an update leaves, some of what is too old at a time", async () => {
    await makeRepo("many-in");
    const options = { name: "many-v", globs: { "many-in": "/*" } };
    const pipeline = await makePipeline(options);
    await query(
      "many-v",
      `WITH RECURSIVE n (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < 1009)
       INSERT INTO revisions (revision, spec, salt, createdAt, starts, limited)
       SELECT n, spec, salt, createdAt, starts, limited FROM n, revisions WHERE revision = 1`,
    );
    await leftRow("many-v", "revision = 1009");
    await updateTo(options, "1010");
    expect(await query("many-v", "SELECT count(*) AS count, min(revision) AS oldest FROM revisions")).toEqual(
      [{ count: 1000, oldest: 11 }],
    );
    expect(await pipeline.specification.version(10)).toEqual({ ok: false, reason: "not-kept" });
    expect(await query("many-v", "SELECT repo, branch FROM former_sources")).toEqual([
      { repo: "many-in", branch: "master" },
    ]);
  });

  it("are named, and what is kept no more is said of what is gone", async () => {
    await makeRepo("lost-in");
    const options = { name: "lost", globs: { "lost-in": "/*" } };
    const pipeline = await makePipeline(options);
    for (const cmd of ["2", "3", "4"]) await updateTo(options, cmd);
    await inVersions("lost", (versions) => versions.remove(2));
    expect(await numbers(pipeline)).toEqual([4, 3, 1]);
    expect(await pipeline.specification.version(2)).toEqual({ ok: false, reason: "not-kept" });
    expect(await pipeline.specification.version(3)).toMatchObject({
      ok: true,
      version: { changes: null, runsAll: false },
    });
    expect(await pipeline.specification.version(5)).toEqual({ ok: false, reason: "no-such-version" });
  });

  it("leave no commit held that only a forgotten one starts after", async () => {
    await makeRepo("left-first", "left-second");
    const start = await commit("left-first", { a: "1" });
    const from = { repo: { name: "left-first" }, ID: start };
    const inputs = [{ name: "in", repo: { name: "left-first" }, glob: "/*", from }];
    const pipeline = await makePipeline({ name: "left", globs: {}, more: { inputs } });
    // A stopped pipeline leaves held what the inputs of the version before start after.
    await pipeline.lifecycle.stop();
    await updateTo({ name: "left", globs: { "left-second": "/*" } }, "2");
    await updateTo({ name: "left", globs: { "left-second": "/*" } }, "3");
    await inVersions("left", (versions) => {
      expect(versions.tooOld({ versions: 2 })).toEqual([1]);
      versions.remove(1);
    });
    expect(await heldStarts("left-first")).toEqual([start]);
    await pipeline.lifecycle.destroy({ keepOutput: false });
    expect(await heldStarts("left-first")).toEqual([]);
    for (const table of ["revisions", "submissions", "former_sources"]) {
      expect(await query("left", `SELECT 1 FROM ${table}`), table).toEqual([]);
    }
  });

  it("are read one by one when the pipeline is deleted, for the branches that they read", async () => {
    await makeRepo("walked-first", "walked-second");
    const start = await commit("walked-first", { a: "1" });
    const from = { repo: { name: "walked-first" }, ID: start };
    const inputs = [{ name: "in", repo: { name: "walked-first" }, glob: "/*", from }];
    const pipeline = await makePipeline({ name: "walked", globs: {}, more: { inputs } });
    await pipeline.lifecycle.stop();
    for (const cmd of ["2", "3"]) await updateTo({ name: "walked", globs: { "walked-second": "/*" } }, cmd);
    expect(await heldStarts("walked-first")).toEqual([start]);
    const whole = vi.spyOn(PipelineStore.prototype, "definitionAt");
    try {
      await pipeline.lifecycle.destroy({ keepOutput: false });
      // The pipelines of other tests have work of their own meanwhile.
      const read = whole.mock.results.map(({ value }) => value?.spec.pipeline.name);
      expect(read).not.toContain("walked");
    } finally {
      whole.mockRestore();
    }
    expect(await heldStarts("walked-first")).toEqual([]);
  });

  it("are read anew for jobs that go far back, so that few of them are in memory", async () => {
    await makeRepo("few-in");
    const options = { name: "few", globs: { "few-in": "/*" } };
    await makePipeline(options);
    for (let version = 2; version <= 10; version++) await updateTo(options, `${version}`);
    await runInDurableObject(env.PIPELINE.getByName("few"), (_, { storage }) => {
      const sql = new Sql(storage.sql);
      const store = new PipelineStore(sql, new VersionStore(sql));
      const first = Array.from({ length: 9 }, (_, index) => store.definitionAt(index + 1));
      expect(store.definitionAt(9)).toBe(first[8]);
      expect(store.definitionAt(2)).toBe(first[1]);
      expect(store.definitionAt(1)).not.toBe(first[0]);
      expect(store.definitionAt(1)?.spec).toEqual(first[0]?.spec);
      // What was asked for last stays: not the third, whose turn it was.
      expect(store.definitionAt(2)).toBe(first[1]);
      expect(store.definitionAt(3)).not.toBe(first[2]);
    });
  });

  it("let go of their text beyond the bound, also if a job was made for them whose commit is kept", async () => {
    await makeRepo("bound-in");
    const options = { name: "bound", globs: { "bound-in": "/*" } };
    const pipeline = pipelineOf("bound");
    expect((await pipeline.lifecycle.create(specOf(options), { text: "# first" })).ok).toBe(true);
    await commit("bound-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await pipeline.lifecycle.stop();
    await leftRow("bound", "unlisted = 2");
    await query(
      "bound",
      `WITH RECURSIVE n (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < 999)
       INSERT INTO revisions (revision, spec, salt, createdAt, starts, limited)
       SELECT n, spec, salt, createdAt, starts, limited FROM n, revisions WHERE revision = 1`,
    );
    await leftRow("bound", "revision = 999");
    await updateTo(options, "1000");
    expect(await pipeline.specification.version(1)).toMatchObject({ ok: true, text: "# first" });
    const transform = { image: "none", cmd: ["1001"] };
    const spec = specOf({ ...options, more: { transform } });
    expect((await pipeline.specification.update({ spec, reprocess: false, text: "# newest" })).ok).toBe(true);
    expect(await pipeline.specification.version(1)).toMatchObject({
      ok: true,
      version: { hasText: false },
      text: null,
    });
    expect(await pipeline.specification.version(1001)).toMatchObject({ ok: true, text: "# newest" });
  });

  it("are the caller's who confirms them, with the text that they have", async () => {
    await makeRepo("theirs-in");
    const spec = specOf({ name: "theirs", globs: { "theirs-in": "/*" } });
    const pipeline = pipelineOf("theirs");
    const made = await pipeline.lifecycle.create(spec, { key: "ROOT", limited: false, text: "# said" });
    expect(made.ok).toBe(true);
    const shown = { ok: true, version: { version: 1, key: "ROOT", limited: false }, text: "# said" };
    expect(await pipeline.specification.version(null)).toMatchObject(shown);
    await pipeline.specification.update({ spec, reprocess: false, key: "LIMITED", limited: true });
    expect(await pipeline.specification.version(null)).toMatchObject({
      ...{ ok: true, version: { version: 1, key: "LIMITED", limited: true }, text: "# said" },
    });
    await pipeline.specification.update({
      spec,
      reprocess: false,
      key: "ROOT",
      limited: false,
      text: "# anew",
    });
    expect(await pipeline.specification.version(null)).toMatchObject({ ...shown, text: "# anew" });
  });

  it("have the key of who made them, also if that was a retry", async () => {
    await makeRepo("made-in");
    const pipeline = await makePipeline({ name: "made-by", globs: { "made-in": "/*" } });
    await commit("made-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const job = (await allJobs(pipeline))[0]?.id ?? "";
    expect((await pipeline.jobs.retry({ job, every: true, key: "RETRIER" })).ok).toBe(true);
    await workUntil(pipeline, { jobs: 2 });
    expect(await pipeline.specification.version(2)).toMatchObject({
      ok: true,
      version: { key: "RETRIER", changes: [], runsAll: true },
    });
    expect(await pipeline.specification.version(1)).toMatchObject({ ok: true, version: { key: null } });
    expect((await allJobs(pipeline)).map(({ version }) => version)).toEqual([1, 2]);
  });

  it("keep their text in a version that a retry made of the same specification", async () => {
    await makeRepo("again-in");
    const options = { name: "again-text", globs: { "again-in": "/*" } };
    const pipeline = pipelineOf(options.name);
    expect((await pipeline.lifecycle.create(specOf(options), { text: "# said" })).ok).toBe(true);
    await commit("again-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const job = (await allJobs(pipeline))[0]?.id ?? "";
    await pipeline.jobs.retry({ job, every: true });
    await workUntil(pipeline, { jobs: 2 });
    expect(await pipeline.specification.version(null)).toMatchObject({
      ok: true,
      version: { version: 2 },
      text: "# said",
    });
  });
});

/** The commits of a branch that it keeps for pipelines which start after them. */
function heldStarts(repo: string): Promise<string[]> {
  return runInDurableObject(env.BRANCH.getByName(`master.${repo}`), (_, { storage }) =>
    storage.sql
      .exec<{ commit: string }>(`SELECT "commit" FROM starts`)
      .toArray()
      .map((row) => row.commit),
  );
}
