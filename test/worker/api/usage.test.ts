import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { forkOf } from "../branch/fork-support.ts";
import { chunked, freshBranch, put } from "../branch/support.ts";
import { commit, makePipeline, makeRepo, master } from "../pipeline/support.ts";
import { api, type Call, good } from "./support.ts";

/** What holds most of the history of a repo's branch back, in words. */
async function holderOf(repo: string, call: Call = {}): Promise<string | undefined> {
  const { branches } = await good(`GET /repos/${repo}/usage`, call);
  return branches[0].contents.holder?.what;
}

const readerOf = (repo: string): Call => ({ caller: { scope: { level: "read", repos: [repo] } } });

const DAY_MS = 24 * 60 * 60 * 1000;

describe("the sums of branches", () => {
  test("are of those that are there and that the key may read", async () => {
    await makeRepo("sums-in");
    await makeRepo("sums-hidden");
    await commit("sums-in", { a: "1", "b/c": "333" });
    await commit("sums-in", { a: "22" });
    await commit("sums-hidden", { a: "1" });
    await makePipeline({ name: "sums-out", globs: { "sums-in": "/*" } });
    await master("sums-in").settings.change({ public: true });
    const buckets = "master.sums-in,master.sums-in,master.sums-hidden,master.sums-out,never.sums-in,nothing";
    const { branches } = await good(`GET /repos/sums?buckets=${buckets}`);
    expect(branches).toMatchObject([
      { repo: "sums-in", branch: "master", files: 2, bytes: 5, pipeline: null, public: true, writer: null },
      { repo: "sums-hidden", files: 1, bytes: 1 },
      { repo: "sums-out", files: 0, bytes: 0, pipeline: "sums-out", changedAt: null },
    ]);
    expect(branches[0].changedAt).toBeGreaterThan(0);
    const few = await good(`GET /repos/sums?buckets=${buckets}`, readerOf("sums-in"));
    expect(few.branches.map(({ repo }: { repo: string }) => repo)).toEqual(["sums-in"]);
    expect(await good("GET /repos/sums")).toEqual({ branches: [] });
    const many = Array.from({ length: 51 }, (_, n) => `b${n}.sums-in`).join(",");
    expect(await api(`GET /repos/sums?buckets=${many}`)).toHaveProperty("status", 400);
  });

  test("have no bytes of more files than are added up in a moment", async () => {
    await makeRepo("sums-many");
    await commit("sums-many", { a: "1" });
    await runInDurableObject(env.BRANCH.getByName("master.sums-many"), (_, { storage: { sql } }) => {
      sql.exec(`
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20000)
        INSERT INTO files (gen, path, born, kind, digest, size) SELECT 1, 'n/' || n, 1, 0, x'00', 1 FROM numbers`);
      sql.exec("UPDATE commits SET births = 20001 WHERE births = 1");
    });
    const { branches } = await good("GET /repos/sums?buckets=master.sums-many");
    expect(branches).toMatchObject([{ bytes: null }]);
  });
});

describe("what holds most of a history back", () => {
  test("is named with its pipeline and job, how long that waits and for what", async () => {
    await makeRepo("waits-in");
    await makePipeline({ name: "waits", globs: { "waits-in": "/*" } });
    for (const text of ["1", "2", "3"]) await commit("waits-in", { a: text });
    await master("waits-in").settings.change({ keep: { commits: 1 } });
    await runInDurableObject(env.BRANCH.getByName("master.waits-in"), (_, { storage: { sql } }) => {
      sql.exec("UPDATE commits SET createdAt = createdAt - ?", 9 * DAY_MS);
    });
    const held = async () => {
      // The branch hears of the job by an alarm.
      await runDurableObjectAlarm(env.PIPELINE.getByName("waits"));
      return await holderOf("waits-in");
    };
    await expect.poll(held).toMatch(/^the job \w+ of the pipeline waits, for 9 days: \S+/);
  });

  test("names a pipeline only to keys that may read its repo", async () => {
    await makeRepo("held-up");
    await commit("held-up", { a: "1" });
    await master("held-up").feed.subscribe({ uid: "u", pipeline: "hidden-reader" });
    await master("held-up").settings.change({ keep: { commits: 1 } });
    for (let n = 2; n <= 5; n++) await commit("held-up", { a: String(n) });
    expect(await holderOf("held-up")).toContain("the pipeline hidden-reader");
    const told = await holderOf("held-up", readerOf("held-up"));
    expect(told).toContain("a pipeline that you may not read");
    expect(told).not.toContain("hidden-reader");
  });

  test("names a branch that was made from a commit only to keys that may read its repo", async () => {
    await makeRepo("held-root");
    const id = await commit("held-root", { a: "1" });
    await forkOf("master.held-root", { bucket: "master.hidden-fork", commit: id });
    for (let n = 2; n <= 4; n++) await commit("held-root", { a: String(n) });
    await master("held-root").settings.change({ keep: { commits: 1 } });
    await expect
      .poll(() => holderOf("held-root"))
      .toContain(`the commit ${id}, which the branch master.hidden-fork, made from it names`);
    const told = await holderOf("held-root", readerOf("held-root"));
    expect(told).toContain(`the commit ${id}, which a branch of another repo, made from it names`);
  });

  test("names a branch that erased bytes stay for only to keys that may read its repo", async () => {
    await makeRepo("pinning");
    const branch = master("pinning");
    const opened = await branch.uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    const content = chunked("pinned bytes", ["b/pinned"]);
    const made = await branch.files.put({ path: "a", content, attributes: {}, ...opened });
    const version = (made.ok && made.commit) || "";
    const fork = await forkOf("master.pinning", { bucket: "master.hidden-pin" });
    const { digest, size } = content;
    await fork.branch.files.commit({ operations: [{ put: "copy", digest, size }] });
    const body = { path: "a", version, forks: true };
    await good("POST /repos/pinning/branches/master/erasures", { body });
    const pinsOf = async (call: Call = {}) => {
      const { branches } = await good("GET /repos/pinning/usage", call);
      return branches[0].contents.pins;
    };
    const pin = { what: "the branch master.hidden-pin, made from it", count: 1, bytes: size };
    expect(await pinsOf()).toEqual([pin]);
    expect(await pinsOf(readerOf("pinning"))).toEqual([
      { ...pin, what: "a branch of another repo, made from it" },
    ]);
    expect(await branch.admin.forksHolding({ digest, size })).toEqual(["master.hidden-pin"]);
    expect(await branch.admin.forksHolding({ digest, size: size + 1 })).toEqual([]);
    await fork.branch.lifecycle.destroy();
    await expect.poll(() => pinsOf()).toEqual([]);
  });

  test("names a pipeline that starts after a commit only to keys that may read its repo", async () => {
    await makeRepo("held-start");
    const id = await commit("held-start", { a: "1" });
    const starts = [{ commit: id, generation: 1, seq: 1 }];
    await master("held-start").feed.subscribe({ uid: "u", pipeline: "hidden-late", starts });
    for (let n = 2; n <= 4; n++) await commit("held-start", { a: String(n) });
    await master("held-start").feed.setMark({ uid: "u", generation: 1, seq: 4, job: null, starts });
    await master("held-start").settings.change({ keep: { commits: 1 } });
    await expect
      .poll(() => holderOf("held-start"))
      .toContain(`the commit ${id}, which the pipeline hidden-late, starting after it names`);
    const told = await holderOf("held-start", readerOf("held-start"));
    expect(told).toContain(
      `the commit ${id}, which a pipeline that you may not read, starting after it names`,
    );
  });

  test("names an export that is under way, and for how long", async () => {
    await makeRepo("held-export");
    for (const text of ["1", "2", "3"]) await commit("held-export", { a: text });
    expect(await master("held-export").exports.begin()).toMatchObject({ ok: true });
    await master("held-export").settings.change({ keep: { commits: 1 } });
    expect(await holderOf("held-export")).toBe("an export that is under way, for 0 hours");
  });

  test("is told of a deleted branch as long as something of it is there", async () => {
    await makeRepo("held-past");
    const past = await freshBranch("past.held-past");
    const id = await put(past, "a", "1");
    const { branch: fork } = await forkOf("past.held-past", { bucket: "master.past-fork" });
    await past.lifecycle.destroy();
    const branches = async (query = "") => (await good(`GET /repos/held-past/usage${query}`)).branches;
    await expect
      .poll(() => branches())
      .toMatchObject([
        { name: "master" },
        {
          name: "past",
          deleted: true,
          contents: {
            history: { count: 1, bytes: 1 },
            holder: {
              kind: "commit",
              what: `the commit ${id}, from before the branch was deleted, which the branch master.past-fork, made from it names, for 0 hours`,
              versions: 1,
            },
          },
        },
      ]);
    expect(await branches("?sizes=true")).toMatchObject([{ name: "master" }]);
    await fork.lifecycle.destroy();
    await expect.poll(() => branches()).toHaveLength(1);
  });

  test("is told of a repo that is deleted as long as something of it is there", async () => {
    const only = await freshBranch("master.held-rest");
    await put(only, "a", "1");
    const { branch: fork } = await forkOf("master.held-rest", { bucket: "master.rest-fork" });
    await only.lifecycle.destroy();
    const named = async (query: string, call: Call = {}): Promise<string[]> =>
      (await good(`GET /repos${query}`, call)).repos.map(({ name }: { name: string }) => name);
    await expect.poll(() => named("")).not.toContain("held-rest");
    expect(await named("?deleted=false")).not.toContain("held-rest");
    const { repos } = await good("GET /repos?deleted=true");
    expect(repos).toContainEqual({ name: "held-rest", branches: [] });
    expect(await named("?deleted=true", readerOf("held-rest"))).toEqual(["held-rest"]);
    expect(await named("?deleted=true", readerOf("rest-fork"))).toEqual(["rest-fork"]);
    expect(await good("GET /repos/held-rest/usage")).toMatchObject({
      branches: [{ name: "master", deleted: true, contents: { history: { count: 1, bytes: 1 } } }],
      pipeline: null,
    });
    expect((await api("GET /repos/held-rest/usage?sizes=true")).status).toBe(404);
    await fork.lifecycle.destroy();
    await expect.poll(async () => (await api("GET /repos/held-rest/usage")).status).toBe(404);
  });
});

test("a branch that can't be read is named, and the answer does not break off", async () => {
  const repo = "unread";
  await makeRepo(repo);
  const rename = (from: string, to: string) =>
    runInDurableObject(env.BRANCH.getByName(`master.${repo}`), (_, { storage }) => {
      storage.sql.exec(`ALTER TABLE ${from} RENAME TO ${to}`);
    });
  await rename("files", "unread");
  const answer = await api(`GET /repos/${repo}/usage`);
  expect(answer.status).toBe(500);
  expect(await answer.json()).toMatchObject({
    error: { message: "The branch 'master' can't be read: the log of the gateway says why." },
  });
  await rename("unread", "files");
  expect((await good(`GET /repos/${repo}/usage`)).branches).toHaveLength(1);
});
