import { describe, expect, test } from "vitest";
import { type BranchAddress, bucketName } from "../../../protocol/names.ts";
import { handleApi } from "../../../worker/api/api.ts";
import type { Caller } from "../../../worker/app.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import {
  CONFIG,
  commitFiles,
  contentOf,
  failed,
  good,
  makeBranch,
  paths,
  ROOT,
  testContext,
} from "./support.ts";

const HOUR_MS = 60 * 60 * 1000;

async function branchOf(repo: string): Promise<BranchAddress & { readonly path: string }> {
  const address = { repo, branch: "master" };
  await makeBranch(address);
  return { ...address, path: `/repos/${repo}/branches/master` };
}

/** Stages a file that holds its own name. */
async function stage({ repo, branch }: BranchAddress, session: string, file: string): Promise<unknown> {
  const { upload } = await good("POST /uploads", { body: { repo, branch } });
  const { id, bytes } = await contentOf(file);
  await good(`POST /uploads/${upload}/contents`, { body: { contents: [{ ...id, bytes }] } });
  return await good(`POST /repos/${repo}/branches/${branch}/commits`, {
    body: { upload, session, operations: [{ put: file, ...id }] },
  });
}

async function filesAt({ repo, branch }: BranchAddress, commit: string): Promise<string[]> {
  const { files } = await good(`GET /repos/${repo}/branches/${branch}/commits/${commit}/files`);
  return files.map(({ path }: { path: string }) => path);
}

describe("a call that waits for a commit", () => {
  test.each([
    ["finishes an open commit", `sessions/${"0".repeat(26)}/finish`],
    ["reverts", `commits/${"0".repeat(26)}/revert`],
  ])("that %s ends when its key expires, and says that it is being made", async (_, path) => {
    let asked = 0;
    // It is there with the second look.
    const finish = async () => {
      asked++;
      const state = asked === 1 ? "applying" : "finished";
      return { ok: true, state, commit: null } as const;
    };
    const revert = async () => ({ ok: true, openCommit: "0".repeat(26) }) as const;
    const branch = { openCommits: { finish, revert } } as unknown as BranchApi;
    const context = { ...testContext(), branch: () => branch };
    const url = `http://gateway/api/v1/repos/slow/branches/master/${path}`;
    const statusOf = async (caller: Partial<Caller>): Promise<number> => {
      asked = 0;
      const request = new Request(url, { method: "POST" });
      return (await handleApi(request, { context, caller: { ...ROOT, ...caller } })).status;
    };
    expect(await statusOf({ expiresAt: Date.now() })).toBe(202);
    expect(asked).toBe(1);
    expect(await statusOf({})).toBe(200);
  });
});

describe("an open commit", () => {
  test("is listed while it is open, in the order in which each began, with what was said", async () => {
    const branch = await branchOf("listed-open");
    const first = await good(`POST ${branch.path}/sessions`, { body: { message: "one" } });
    const second = await good(`POST ${branch.path}/sessions`);
    const third = await good(`POST ${branch.path}/sessions`);
    await good(`DELETE ${branch.path}/sessions/${second.session}`);
    const page = await good(`GET ${branch.path}/sessions?limit=1`);
    expect(page).toMatchObject({
      sessions: [
        { session: first.session, bucket: first.bucket, state: "open", operations: 0, message: "one" },
      ],
      next: expect.any(String),
    });
    const rest = await good(`GET ${branch.path}/sessions?limit=1&after=${page.next}`);
    expect(rest).toMatchObject({ sessions: [{ session: third.session, message: null }], next: null });
    await good(`POST ${branch.path}/sessions/${first.session}/finish`);
    expect((await good(`GET ${branch.path}/sessions`)).sessions).toHaveLength(1);
    expect(await failed(`GET ${branch.path}/sessions/${first.session}/diff`)).toMatchObject({
      status: 404,
      code: "NoSuchSession",
    });
    expect(await good(`GET ${branch.path}/sessions/${third.session}/diff`)).toEqual({
      changes: [],
      next: null,
    });
  });

  test("takes pages of operations and becomes one commit", async () => {
    const branch = await branchOf("paged");
    await commitFiles(branch, { old: "old" });
    const opened = await good(`POST ${branch.path}/sessions`);
    const { session, bucket } = opened;
    expect(bucket).toBe(`${session.toLowerCase()}.${bucketName(branch)}`);
    expect(await stage(branch, session, "a")).toEqual({ commit: null });
    expect(await stage(branch, session.toLowerCase(), "b")).toEqual({ commit: null });
    const status = await good(`GET ${branch.path}/sessions/${session}`);
    expect(status).toMatchObject({ session, bucket, state: "open", operations: 2, commit: null });
    expect(status.dueAt).toBeGreaterThan(status.openedAt);

    const end = await good(`POST ${branch.path}/sessions/${session}/finish`);
    expect(end).toEqual({ state: "finished", commit: expect.any(String) });
    expect(await filesAt(branch, end.commit)).toEqual(["a", "b", "old"]);
    expect(await good(`POST ${branch.path}/sessions/${session}/finish`)).toEqual(end);
    expect(await good(`GET ${branch.path}/sessions/${session}`)).toMatchObject({
      state: "finished",
      dueAt: null,
      commit: end.commit,
    });
  });

  test("keeps what its finish says of the commit, and its start as far as that says nothing", async () => {
    const branch = await branchOf("said");
    const started = { message: "begun", meta: { run: "7" } };
    const { session } = await good(`POST ${branch.path}/sessions`, { body: started });
    await stage(branch, session, "a");
    const finish = `POST ${branch.path}/sessions/${session}/finish`;
    const end = await good(finish, { body: { message: "done" }, caller: { keyId: "finisher" } });
    expect(end).toMatchObject({ state: "finished" });
    expect(await good(finish, { body: { message: "again" } })).toEqual(end);
    expect(await good(`GET ${branch.path}/commits/${end.commit}`)).toMatchObject({
      key: "finisher",
      message: "done",
      meta: { run: "7" },
    });
  });

  test("takes no message with what is staged in it", async () => {
    const branch = await branchOf("unsaid");
    const { session } = await good(`POST ${branch.path}/sessions`);
    const { upload } = await good("POST /uploads", { body: { repo: branch.repo, branch: branch.branch } });
    const operations = [{ delete: "a" }];
    const refused = await failed(`POST ${branch.path}/commits`, {
      body: { upload, session, operations, message: "why", meta: {} },
    });
    expect(refused.issues.map(({ path }) => path)).toEqual(["message", "meta"]);
  });

  test("that holds nothing makes no commit", async () => {
    const { path } = await branchOf("hollow");
    const { session } = await good(`POST ${path}/sessions`, { body: {} });
    expect(await good(`POST ${path}/sessions/${session}/finish`)).toEqual({
      state: "finished",
      commit: null,
    });
  });

  test("is gone when it is aborted, as often as that is asked", async () => {
    const branch = await branchOf("forgotten");
    const { session } = await good(`POST ${branch.path}/sessions`);
    await stage(branch, session, "a");
    for (const _again of [1, 2]) await good(`DELETE ${branch.path}/sessions/${session}`);
    expect(await failed(`POST ${branch.path}/sessions/${session}/finish`)).toMatchObject({
      status: 404,
      code: "NoSuchSession",
    });
    const refused = await failed(`POST ${branch.path}/commits`, {
      body: { upload: await anUpload(branch), session, operations: [{ delete: "a" }] },
    });
    expect(refused).toMatchObject({ status: 404, code: "NoSuchSession" });
    expect(refused.message).toContain("POST …/sessions");
  });

  test("that cannot be published says why, and stays open", async () => {
    const branch = await branchOf("in-the-way");
    const { session } = await good(`POST ${branch.path}/sessions`);
    await stage(branch, session, "a");
    await commitFiles(branch, { "a/b": "in the way" });
    const refused = await failed(`POST ${branch.path}/sessions/${session}/finish`);
    expect(refused).toMatchObject({ status: 400, code: "PathConflict" });
    expect(await good(`GET ${branch.path}/sessions/${session}`)).toMatchObject({ state: "open" });
  });

  test("whose conditions hold no more names the paths, commits nothing and stays open", async () => {
    const branch = await branchOf("overtaken");
    await commitFiles(branch, { b: "old" });
    const { session: openCommit } = await good(`POST ${branch.path}/sessions`);
    const object = testContext().branch(branch);
    const { id } = await contentOf("old");
    for (const [put, condition] of [
      ["a", { noneMatch: "any" }],
      ["b", { match: "any" }],
    ] as const) {
      const operations = [{ put, ...id, condition, attributes: { contentType: "text/mine" } }];
      expect(await object.files.commit({ openCommit, operations })).toMatchObject({ ok: true });
    }
    await commitFiles(branch, { a: "direct", b: "direct" });
    const finish = `POST ${branch.path}/sessions/${openCommit}/finish`;
    const refused = await failed(finish);
    expect(refused).toMatchObject({ status: 409, code: "ConditionalRequestConflict" });
    expect(paths(refused)).toEqual(["a", "b"]);
    expect(refused.message).toContain("at 2 paths, the first is 'a'");
    expect(await good(`GET ${branch.path}/sessions/${openCommit}`)).toMatchObject({ state: "open" });
    await stage(branch, openCommit, "a");
    await stage(branch, openCommit, "b");
    expect(await good(finish)).toMatchObject({ state: "finished", commit: expect.any(String) });
  });
});

describe("how long an open commit is kept", () => {
  const openCommitTtl = { defaultMs: 2 * HOUR_MS, maxMs: 3 * HOUR_MS };
  const config = { ...CONFIG, openCommitTtl };

  test("is what its opener asks for, or the gateway's default", async () => {
    const { path } = await branchOf("kept");
    for (const [body, ttlMs] of [
      [{ ttl: "90m" }, 1.5 * HOUR_MS],
      [{}, openCommitTtl.defaultMs],
    ] as const) {
      const { session } = await good(`POST ${path}/sessions`, { body, config });
      const { openedAt, dueAt } = await good(`GET ${path}/sessions/${session}`);
      expect(dueAt - openedAt).toBe(ttlMs);
    }
  });

  test("can't be more than the gateway allows, and must be a length of time", async () => {
    const { path } = await branchOf("kept-too-long");
    const tooLong = await failed(`POST ${path}/sessions`, { body: { ttl: "4h" }, config });
    expect(tooLong).toMatchObject({ status: 400, code: "InvalidRequest" });
    expect([paths(tooLong), tooLong.message]).toEqual([
      ["ttl"],
      expect.stringContaining("at most 3h, which SLUICE_SESSION_MAX_TTL"),
    ]);
    const noTime = await failed(`POST ${path}/sessions`, { body: { ttl: "soon" }, config });
    expect([noTime.status, paths(noTime)]).toEqual([400, ["ttl"]]);
  });
});

test("a branch that is not there, or is a pipeline's output, has no open commits", async () => {
  expect(await failed("POST /repos/nowhere/branches/master/sessions")).toMatchObject({
    status: 404,
    code: "NoSuchBranch",
  });
  await branchOf("session-in");
  await good("POST /pipelines", {
    body: {
      pipeline: { name: "session-out" },
      transform: { image: "busybox", cmd: ["true"] },
      inputs: [{ repo: { name: "session-in" }, glob: "/*" }],
    },
  });
  expect(await failed("POST /repos/session-out/branches/master/sessions")).toMatchObject({
    status: 403,
    code: "AccessDenied",
  });
});

test.each([
  "01ARZ3NDEKTSV4RRFFQ69G5FAV",
  "not-a-session",
])("an open commit that is not there is told so: %s", async (session) => {
  const { path } = await branchOf(`without-${session}`);
  const at = `${path}/sessions/${session}`;
  for (const line of [`GET ${at}`, `POST ${at}/finish`]) {
    expect(await failed(line)).toMatchObject({ status: 404, code: "NoSuchSession" });
  }
});

test("a commit of more operations than one call takes is told to use a session", async () => {
  const branch = await branchOf("too-many");
  const operations = Array.from({ length: 10_001 }, (_, index) => ({ delete: String(index) }));
  const upload = await anUpload(branch);
  const refused = await failed(`POST ${branch.path}/commits`, { body: { upload, operations } });
  expect([refused.status, paths(refused)]).toEqual([400, ["operations"]]);
  expect(refused.issues[0]?.message).toContain("open a session (POST …/sessions)");
});

async function anUpload({ repo, branch }: BranchAddress): Promise<string> {
  return (await good("POST /uploads", { body: { repo, branch } })).upload;
}
