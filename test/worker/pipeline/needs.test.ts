// @module-tag rest
import { env, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, it, vi } from "vitest";
import { feed } from "../../../worker/branch/calls/feed.ts";
import { horizonOf } from "../branch/retention-support.ts";
import { branchOf as bucketOf } from "../branch/support.ts";
import { allJobs, commit, makePipeline, makeRepo, master, query, workUntil } from "./support.ts";

function branchOf(repo: string) {
  return bucketOf(`master.${repo}`);
}

/** Waits until the branch has given back all up to a commit, with all alarms that help. */
async function horizonIs(repo: string, pipeline: string): Promise<ReturnType<typeof expect.poll>> {
  return expect.poll(async () => {
    await runDurableObjectAlarm(env.PIPELINE.getByName(pipeline));
    await runDurableObjectAlarm(branchOf(repo));
    return await horizonOf(branchOf(repo));
  });
}

async function toldOf(repo: string): Promise<unknown[]> {
  return await runInDurableObject(branchOf(repo), (_, { storage: { sql } }) =>
    sql.exec("SELECT gen, seq, job FROM subscribers").toArray(),
  );
}

describe("a pipeline whose input keeps one commit", () => {
  it("holds what its oldest job reads, names that job, and lets go when it has ended", async () => {
    await makeRepo("held-in");
    const pipeline = await makePipeline({ name: "held", globs: { "held-in": "/*" } });
    for (const text of ["1", "2", "3"]) await commit("held-in", { a: text, [`d/${text}`]: text });
    expect(await master("held-in").settings.change({ keep: { commits: 1 } })).toEqual({ ok: true });
    await expect.poll(async () => (await allJobs(pipeline)).length).toBe(3);
    await (await horizonIs("held-in", "held")).toBe(0);
    const [oldest] = await allJobs(pipeline);
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(env.PIPELINE.getByName("held"));
        return await toldOf("held-in");
      })
      .toEqual([{ gen: 1, seq: 0, job: oldest?.id }]);
    expect((await workUntil(pipeline, { jobs: 3 })).length).toBeGreaterThan(3);
    expect((await allJobs(pipeline)).map(({ state }) => state)).toEqual(["success", "success", "success"]);
    await (await horizonIs("held-in", "held")).toBe(3);
    expect(await toldOf("held-in")).toEqual([{ gen: 1, seq: 3, job: null }]);
    await commit("held-in", { a: "4" });
    await workUntil(pipeline, { jobs: 4 });
    await (await horizonIs("held-in", "held")).toBe(4);
  });

  it("lets go when it is stopped, and goes on from what there is", async () => {
    await makeRepo("let-in");
    const pipeline = await makePipeline({ name: "let", globs: { "let-in": "/*" } });
    for (const text of ["1", "2"]) await commit("let-in", { a: text });
    await master("let-in").settings.change({ keep: { commits: 1 } });
    await pipeline.lifecycle.stop();
    for (const text of ["3", "4"]) await commit("let-in", { a: text });
    await (await horizonIs("let-in", "let")).toBe(4);
    await pipeline.lifecycle.start();
    await workUntil(pipeline, { jobs: 1 });
    await commit("let-in", { a: "5" });
    await expect
      .poll(async () => {
        await workUntil(pipeline, { jobs: 1 });
        return (await allJobs(pipeline)).at(-1)?.state;
      })
      .toBe("success");
    await (await horizonIs("let-in", "let")).toBe(5);
  });

  it("holds the commit that its input starts after, until it is deleted", async () => {
    await makeRepo("from-held-in");
    const from = await commit("from-held-in", { a: "1" });
    await master("from-held-in").settings.change({ keep: { commits: 1 } });
    const repo = { name: "from-held-in" };
    const input = { name: "in", repo, glob: "/*", from: { repo, ID: from } };
    const pipeline = await makePipeline({ name: "from-held", globs: {}, more: { inputs: [input] } });
    for (const text of ["2", "3", "4"]) await commit("from-held-in", { [text]: text });
    await workUntil(pipeline, { jobs: 3 });
    await (await horizonIs("from-held-in", "from-held")).toBe(4);
    expect((await master("from-held-in").history.commit({ commit: from })).ok).toBe(true);
    await pipeline.lifecycle.stop();
    await commit("from-held-in", { "5": "5" });
    await (await horizonIs("from-held-in", "from-held")).toBe(5);
    expect((await master("from-held-in").history.commit({ commit: from })).ok).toBe(true);
    await pipeline.lifecycle.destroy({ keepOutput: false });
    await commit("from-held-in", { "6": "6" });
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branchOf("from-held-in"));
        return (await master("from-held-in").history.commit({ commit: from })).ok;
      })
      .toBe(false);
  });

  it("holds everything as long as it has not told what it needs, and tells with its next job", async () => {
    await makeRepo("before-in");
    const pipeline = await makePipeline({ name: "before", globs: { "before-in": "/*" } });
    await commit("before-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await runInDurableObject(
      branchOf("before-in"),
      (_, { storage: { sql } }) => void sql.exec("UPDATE subscribers SET gen = NULL, seq = NULL"),
    );
    await master("before-in").settings.change({ keep: { commits: 1 } });
    await commit("before-in", { a: "2" });
    await runDurableObjectAlarm(branchOf("before-in"));
    expect(await horizonOf(branchOf("before-in"))).toBe(0);
    await workUntil(pipeline, { jobs: 2 });
    await (await horizonIs("before-in", "before")).toBe(2);
  });

  it("reads it whole if it was put back to before what is kept", async () => {
    await makeRepo("lost-in");
    const pipeline = await makePipeline({ name: "lost", globs: { "lost-in": "/*" } });
    await commit("lost-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await master("lost-in").settings.change({ keep: { commits: 1 } });
    await commit("lost-in", { a: null, c: "1" });
    await commit("lost-in", { d: "1" });
    await workUntil(pipeline, { jobs: 3 });
    await (await horizonIs("lost-in", "lost")).toBe(3);
    await query("lost", "UPDATE sources SET seq = 1");
    await query("lost", "DELETE FROM jobs WHERE n > 1");
    await query("lost", "DELETE FROM elements WHERE born > 1");
    await query(
      "lost",
      "INSERT INTO elements SELECT input, path, born, kind, digest, size FROM ended_elements WHERE born = 1",
    );
    await query("lost", "DELETE FROM ended_elements");
    await query("lost", "DELETE FROM datums WHERE born > 1");
    await query("lost", "UPDATE datums SET died = NULL");
    await query(
      "lost",
      "UPDATE pipeline SET committed = 1, alive = (SELECT count(*) FROM datums WHERE died IS NULL)",
    );
    await evictDurableObject(env.PIPELINE.getByName("lost"));
    await commit("lost-in", { e: "1" });
    await workUntil(pipeline, { jobs: 3 });
    const jobs = await allJobs(pipeline);
    expect(jobs.at(-1)).toMatchObject({ state: "success", datums: { total: 4 } });
  });
});

describe("a datum of a job whose inputs are kept no more", () => {
  it("is not told as one of an empty input: what it read is gone", async () => {
    await makeRepo("old-in");
    const pipeline = await makePipeline({ name: "old", globs: { "old-in": "/*" } });
    await commit("old-in", { "dir/a": "1" });
    const leased = (await workUntil(pipeline, { jobs: 1 })).at(0);
    const [job] = await allJobs(pipeline);
    const datums = await pipeline.datums.list({ job: job?.id ?? "", limit: 10 });
    await master("old-in").settings.change({ keep: { commits: 1 } });
    await commit("old-in", { "dir/a": null, b: "1" });
    await workUntil(pipeline, { jobs: 2 });
    await (await horizonIs("old-in", "old")).toBe(2);
    const datum = datums.ok ? (datums.datums[0]?.id ?? "") : "";
    expect(leased?.paths).toEqual(["dir"]);
    const gone = { ok: false, reason: "input-not-kept" };
    expect(await pipeline.datums.view({ job: job?.id ?? "", datum })).toEqual(gone);
    // The branch gives the commit up between two calls.
    const kept = vi.spyOn(feed, "kept").mockImplementationOnce(async (_, { commits }) => ({
      kept: [...commits],
    }));
    expect(await pipeline.datums.view({ job: job?.id ?? "", datum })).toEqual(gone);
    expect(kept).toHaveBeenCalledTimes(2);
    kept.mockRestore();
  });
});
