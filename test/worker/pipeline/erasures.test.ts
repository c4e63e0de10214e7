import { env, runInDurableObject } from "cloudflare:test";
import { describe, expect, it, vi } from "vitest";
import { erasures } from "../../../worker/branch/calls/erasures.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import { REST } from "../../support/suite.ts";
import { HELD } from "../branch/held.ts";
import {
  allJobs,
  branchOf,
  type Command,
  commit,
  filesOf,
  leaseSome,
  makePipeline,
  makeRepo,
  master,
  OUTPUTS,
  pathsOf,
  query,
  workUntil,
} from "./support.ts";

async function erase(branch: BranchApi, path: string, version: string): Promise<string | null> {
  const done = await branch.erasures.erase({ versions: [{ path, version }] });
  if (!done.ok) throw new Error(done.reason);
  expect(done.erased).toHaveLength(1);
  return done.commit;
}

/** The newest version of a path of an output. */
async function newest(branch: BranchApi, path: string): Promise<string> {
  const page = await branch.files.versions({ prefix: path, limit: 1 });
  const [entry] = page.ok ? page.entries : [];
  if (!entry || entry.kind === "prefix") throw new Error(`no version of ${path}`);
  return entry.version;
}

/** Writes the name of its input and its text. */
const named: Command = (datum) => ({ [`${pathsOf(datum)[0]}.out`]: datum.datum });

describe("an input version that is erased", () => {
  it("is not an empty directory for who looks at a datum that read it: what that read is gone", async () => {
    await makeRepo("looked-in");
    const pipeline = await makePipeline({ name: "looked", globs: { "looked-in": "/*" } });
    const one = await commit("looked-in", { a: "1", "d/b": "1" });
    await workUntil(pipeline, { jobs: 1, command: named });
    const [job] = await allJobs(pipeline);
    const listed = await pipeline.datums.list({ job: job?.id ?? "", limit: 10 });
    const datums = listed.ok ? listed.datums : [];
    await commit("looked-in", { a: "2", "d/b": "2" });
    await workUntil(pipeline, { jobs: 2, command: named });
    const kindsOf = async () => {
      const views = await Promise.all(
        datums.map(({ id }) => pipeline.datums.view({ job: job?.id ?? "", datum: id })),
      );
      return views.map((view) => (view.ok ? view.inputs[0]?.kind : view.reason)).sort();
    };
    expect(await kindsOf()).toEqual(["dir", "file"]);
    await erase(master("looked-in"), "a", one);
    expect(await kindsOf()).toEqual(["dir", "input-gone"]);
    const made = { job: job?.id ?? "", path: "a.out", after: null, limit: 10 };
    const makers = await pipeline.lineage.provenance(made);
    expect(makers.ok && makers.datums.map(({ inputs }) => inputs[0]?.kind)).toEqual(["file"]);
    await erase(master("looked-in"), "d/b", one);
    expect(await kindsOf()).toEqual(["input-gone", "input-gone"]);
  });

  it("at HEAD kills the job that reads it, and the commit that it makes is the next job", async () => {
    await makeRepo("gone-in");
    const pipeline = await makePipeline({ name: "gone", globs: { "gone-in": "/*" } });
    await commit("gone-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: named });
    const two = await commit("gone-in", { a: "2" });
    const { datums } = await leaseSome(pipeline);
    await erase(master("gone-in"), "a", two);
    await expect.poll(async () => (await allJobs(pipeline)).length).toBe(3);
    expect((await allJobs(pipeline))[1]).toMatchObject({ state: "killed", reason: "input erased" });
    const lease = datums[0]?.lease ?? "";
    expect(await pipeline.leases.renew({ worker: "w1", leases: [lease] })).toMatchObject({ lost: [lease] });
    expect(await workUntil(pipeline, { jobs: 3, command: named })).toEqual([]);
    expect((await allJobs(pipeline))[2]).toMatchObject({ state: "success", datums: { total: 2 } });
    expect(await filesOf({ repo: "gone", branch: "master" })).toEqual(["a.out", "b.out"]);
  });

  it(
    "that is long replaced kills the jobs that read it alone, and one job is made for the HEADs",
    REST,
    async () => {
      await makeRepo("old-in");
      const pipeline = await makePipeline({ name: "old", globs: { "old-in": "/*" } });
      const one = await commit("old-in", { a: "1" });
      await commit("old-in", { b: "1" });
      await commit("old-in", { a: "2" });
      await expect.poll(async () => (await allJobs(pipeline)).length).toBe(3);
      await erase(master("old-in"), "a", one);
      await expect.poll(async () => (await allJobs(pipeline)).length).toBe(4);
      const ran = await workUntil(pipeline, { jobs: 4, command: named });
      expect(ran.map(({ paths }) => paths[0]).sort()).toEqual(["a", "b"]);
      const states = (await allJobs(pipeline)).map(({ state, reason }) => [state, reason]);
      expect(states).toEqual([
        ["killed", "input erased"],
        ["killed", "input erased"],
        ["success", null],
        ["success", null],
      ]);
      expect(await filesOf({ repo: "old", branch: "master" })).toEqual(["a.out", "b.out"]);
    },
  );

  it("is owed for by the pipeline, until it is past what jobs knew of it, and once more then", async () => {
    await makeRepo("debt-in");
    const pipeline = await makePipeline({ name: "debt", globs: { "debt-in": "/*" } });
    const one = await commit("debt-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: named });
    const owed = "SELECT paid FROM rewrite";
    expect(await query("debt", owed)).toEqual([]);
    await erase(master("debt-in"), "a", one);
    await expect.poll(() => query("debt", owed)).toEqual([{ paid: 0 }]);
    expect(await query("debt", "SELECT count(*) AS n FROM erased_jobs")).toEqual([{ n: 1 }]);
    // As if what jobs ran was kept of no job but the newest, and the host had paid for good.
    await query("debt", "UPDATE erased_jobs SET job = -1");
    await query("debt", "DELETE FROM rewrite");
    await commit("debt-in", { c: "1" });
    await workUntil(pipeline, { jobs: 3, command: named });
    await expect.poll(() => query("debt", owed)).toEqual([{ paid: 0 }]);
    expect(await query("debt", "SELECT job FROM erased_jobs")).toEqual([]);
  });

  it("is owed for once more when the pipeline is deleted that knew of it", async () => {
    await makeRepo("last-in");
    const pipeline = await makePipeline({ name: "last", globs: { "last-in": "/*" } });
    const one = await commit("last-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: named });
    const owed = "SELECT paid FROM rewrite";
    await erase(master("last-in"), "a", one);
    await expect.poll(() => query("last", owed)).toEqual([{ paid: 0 }]);
    await query("last", "DELETE FROM rewrite");
    await pipeline.lifecycle.destroy({ keepOutput: false });
    await expect.poll(() => query("last", "SELECT state FROM pipeline")).toEqual([{ state: "deleted" }]);
    expect(await query("last", owed)).toEqual([{ paid: 0 }]);
    expect(await query("last", "SELECT job FROM erased_jobs")).toEqual([]);
  });

  it("of which no job reads anything makes none", async () => {
    await makeRepo("unread-in");
    const pipeline = await makePipeline({ name: "unread", globs: { "unread-in": "/d/*" } });
    const one = await commit("unread-in", { a: "1", "d/x": "1" });
    await commit("unread-in", { a: "2" });
    await expect.poll(async () => (await allJobs(pipeline)).length).toBe(2);
    await erase(master("unread-in"), "a", one);
    await workUntil(pipeline, { jobs: 2, command: named });
    await expect.poll(() => query("unread", "SELECT number FROM erasures_heard")).toEqual([{ number: 1 }]);
    expect((await allJobs(pipeline)).map(({ state }) => state)).toEqual(["success", "success"]);
  });

  it("between what was read and what is to be read is not read by the jobs that come", async () => {
    await makeRepo("late-in");
    const pipeline = await makePipeline({ name: "late", globs: { "late-in": "/*" } });
    await commit("late-in", { x: "1" });
    await workUntil(pipeline, { jobs: 1, command: named });
    // No wake-up comes for what is written now.
    const [row] = await query<{ uid: string }>("late", "SELECT uid FROM pipeline");
    const uid = row?.uid ?? "";
    const two = await commit("late-in", { a: "2" });
    await workUntil(pipeline, { jobs: 2, command: named });
    await master("late-in").feed.unsubscribe({ uid });
    await commit("late-in", { y: "1" });
    await commit("late-in", { a: null });
    await master("late-in").feed.subscribe({ uid, pipeline: "late" });
    await erase(master("late-in"), "a", two);
    await expect.poll(async () => (await allJobs(pipeline)).length).toBe(4);
    await workUntil(pipeline, { jobs: 4, command: named });
    expect((await allJobs(pipeline)).map(({ datums }) => datums.total)).toEqual([1, 2, 2, 2]);
    expect(await filesOf({ repo: "late", branch: "master" })).toEqual(["x.out", "y.out"]);
  });
});

describe("an output version that is erased", () => {
  it("goes from the results, whose datums do not run again because of it; other files stay", async () => {
    await makeRepo("res-in");
    const pipeline = await makePipeline({ name: "res", globs: { "res-in": "/*" } });
    const output = { repo: "res", branch: "master" };
    const two: Command = (datum) => ({
      [`${pathsOf(datum)[0]}.out`]: datum.datum,
      [`${pathsOf(datum)[0]}.log`]: "log",
    });
    await commit("res-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: two });
    const before = await query<{ n: number }>("res", `SELECT count(*) AS n FROM (${OUTPUTS})`);
    await erase(branchOf(output), "a.out", await newest(branchOf(output), "a.out"));
    await expect
      .poll(() => query("res", `SELECT count(*) AS n FROM (${OUTPUTS})`))
      .toEqual([{ n: (before[0]?.n ?? 0) - 1 }]);
    await expect.poll(() => query("res", "SELECT * FROM erased_outputs")).toEqual([]);
    expect(await query("res", "SELECT count(*) AS n FROM results")).toEqual([{ n: 2 }]);
    await commit("res-in", { c: "1" });
    const ran = await workUntil(pipeline, { jobs: 2, command: two });
    expect(ran.map(({ paths }) => paths[0])).toEqual(["c"]);
    expect(await filesOf(output)).toEqual(["a.log", "b.log", "b.out", "c.log", "c.out"]);
    // Also if everything is read whole again.
    await pipeline.lifecycle.stop();
    await commit("res-in", { d: "1" });
    await pipeline.lifecycle.start();
    const again = await workUntil(pipeline, { jobs: 3, command: two });
    expect(again.map(({ paths }) => paths[0])).toEqual(["d"]);
    expect(await filesOf(output)).not.toContain("a.out");
  });

  it("leaves no row that tells what made it, and the pipeline owes to be written anew", async () => {
    await makeRepo("owe-in");
    const pipeline = await makePipeline({ name: "owe", globs: { "owe-in": "/*" } });
    const output = branchOf({ repo: "owe", branch: "master" });
    await commit("owe-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: named });
    await commit("owe-in", { a: "2" });
    await workUntil(pipeline, { jobs: 2, command: named });
    const made = `
      SELECT path, lives FROM (SELECT path, 0 AS lives, born FROM made
        UNION ALL SELECT path, 1, born FROM published WHERE born IS NOT NULL) ORDER BY path, born`;
    const owed = "SELECT paid FROM rewrite";
    const b = { path: "b.out", lives: 1 };
    await expect.poll(() => query("owe", made)).toHaveLength(3);
    expect(await query("owe", owed)).toEqual([]);
    await erase(output, "a.out", await newest(output, "a.out"));
    await expect.poll(() => query("owe", owed)).toEqual([{ paid: 0 }]);
    // The version before is there again.
    expect(await query("owe", made)).toHaveLength(3);
    await query("owe", "UPDATE rewrite SET paid = 1");
    await erase(output, "a.out", await newest(output, "a.out"));
    await expect.poll(() => query("owe", made)).toEqual([b]);
    expect(await query("owe", owed)).toEqual([{ paid: 0 }]);
  });

  it("gives its bytes up, as no result keeps them", async () => {
    await makeRepo("free-in");
    const pipeline = await makePipeline({ name: "free", globs: { "free-in": "/*" } });
    const output = { repo: "free", branch: "master" };
    await commit("free-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1, command: named });
    const file = await branchOf(output).files.read({ path: "a.out" });
    if (!file.ok) throw new Error(file.reason);
    await erase(branchOf(output), "a.out", file.commit);
    const { digest, size } = file;
    await expect
      .poll(() => branchOf(output).files.content({ digest, size }))
      .toEqual({ ok: false, reason: "no-such-content" });
  });

  it("stays in results as long as HEAD has the same by another version", async () => {
    await makeRepo("twice-in");
    const pipeline = await makePipeline({ name: "twice", globs: { "twice-in": "/*" } });
    const output = branchOf({ repo: "twice", branch: "master" });
    await commit("twice-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1, command: named });
    const one = await newest(output, "a.out");
    await commit("twice-in", { a: "2" });
    await workUntil(pipeline, { jobs: 2, command: named });
    await commit("twice-in", { a: "1" });
    await workUntil(pipeline, { jobs: 3, command: named });
    await erase(output, "a.out", one);
    const heard = "SELECT number, due FROM erasures_heard";
    await expect.poll(() => query("twice", heard)).toEqual([{ number: 1, due: 0 }]);
    expect(await query("twice", `SELECT count(*) AS n FROM (${OUTPUTS})`)).toEqual([{ n: 2 }]);
  });

  it("goes from the results that are published, also if nobody knows their job any more", async () => {
    await makeRepo("lost-in");
    const pipeline = await makePipeline({ name: "lost", globs: { "lost-in": "/*" } });
    const output = branchOf({ repo: "lost", branch: "master" });
    await commit("lost-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: named });
    await query("lost", "UPDATE jobs SET id = 'another'");
    await erase(output, "a.out", await newest(output, "a.out"));
    await expect.poll(() => query("lost", OUTPUTS)).toEqual([{ path: "b.out" }]);
  });

  it("stays in the upload of a result as long as another one has it there", async () => {
    await makeRepo("share-in");
    const pipeline = await makePipeline({ name: "share", globs: { "share-in": "/*" } });
    const output = branchOf({ repo: "share", branch: "master" });
    await commit("share-in", { a: "1", b: "1" });
    await workUntil(pipeline, {
      jobs: 1,
      command: (datum) => ({ [`${pathsOf(datum)[0]}.out`]: "the same" }),
    });
    await query("share", "UPDATE results SET upload = (SELECT min(upload) FROM results)");
    await query(
      "share",
      `INSERT INTO result_uploads (upload, number, results)
       SELECT upload, 1000, json_group_array(json_array(id, salt)) FROM results`,
    );
    const [{ upload } = { upload: "" }] = await query<{ upload: string }>(
      "share",
      "SELECT upload FROM results",
    );
    const holds = () =>
      runInDurableObject(env.BRANCH.getByName("master.share"), (_, { storage: { sql } }) =>
        sql.exec(`SELECT count(*) AS n FROM ${HELD} WHERE upload = ?`, upload).one(),
      );
    for (const [path, n] of [
      ["a.out", 1],
      ["b.out", 0],
    ] as const) {
      await erase(output, path, await newest(output, path));
      const due = "SELECT due FROM erasures_heard UNION ALL SELECT 1 FROM erased_outputs";
      await expect
        .poll(async () => [await query("share", due), await holds()])
        .toEqual([[{ due: 0 }], { n }]);
    }
  });

  it("is heard of if its wake-up comes while another one is being dropped", async () => {
    await makeRepo("race-in");
    const pipeline = await makePipeline({ name: "race", globs: { "race-in": "/*" } });
    const output = branchOf({ repo: "race", branch: "master" });
    await commit("race-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: named });
    const { list } = erasures;
    let asked = 0;
    let isOpen = false;
    const spy = vi.spyOn(erasures, "list").mockImplementation(async (reach, request) => {
      const answer = await list(reach, request);
      if (answer.erasures.length > 0 || asked++ > 0) return answer;
      // A promise of the test would not be resolved in an object's call.
      while (!isOpen) await scheduler.wait(1);
      return answer;
    });
    await erase(output, "a.out", await newest(output, "a.out"));
    await expect.poll(() => asked).toBe(1);
    await erase(output, "b.out", await newest(output, "b.out"));
    await expect.poll(() => query("race", "SELECT due FROM erasures_heard")).toEqual([{ due: 2 }]);
    isOpen = true;
    await expect.poll(() => query("race", OUTPUTS)).toEqual([]);
    spy.mockRestore();
  });

  it("lets the version before come back, which goes with its datum", async () => {
    await makeRepo("back-in");
    const pipeline = await makePipeline({ name: "back", globs: { "back-in": "/*" } });
    const output = { repo: "back", branch: "master" };
    await commit("back-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: named });
    await commit("back-in", { a: "2" });
    await workUntil(pipeline, { jobs: 2, command: named });
    await erase(branchOf(output), "a.out", await newest(branchOf(output), "a.out"));
    expect(await filesOf(output)).toEqual(["a.out", "b.out"]);
    await expect.poll(() => query("back", "SELECT due FROM erasures_heard WHERE due = 1")).toEqual([]);
    await commit("back-in", { a: null });
    await workUntil(pipeline, { jobs: 3, command: named });
    expect(await filesOf(output)).toEqual(["b.out"]);
  });

  it("is told by the files that were computed from it", async () => {
    await makeRepo("line-in");
    const pipeline = await makePipeline({ name: "line", globs: { "line-in": "/*" } });
    const one = await commit("line-in", { a: "1", b: "1" });
    await commit("line-in", { a: "2" });
    await workUntil(pipeline, { jobs: 2, command: named });
    const done = await master("line-in").erasures.erase({ versions: [{ path: "a", version: one }] });
    if (!done.ok || done.erased[0]?.kind !== "version") throw new Error("not erased");
    expect(done.readers).toMatchObject([{ pipeline: "line" }]);
    const { generation, spans, path } = done.erased[0];
    const [first] = await allJobs(pipeline);
    const files = [{ path, generation, spans }];
    expect(await pipeline.lineage.outputsOf({ repo: "line-in", branch: "master", files })).toEqual({
      outputs: [
        { repo: "line", branch: "master", path: "a.out", job: first?.id, commit: first?.outputCommit },
      ],
      next: null,
    });
  });
});
