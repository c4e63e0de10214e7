import { describe, expect, test } from "vitest";
import {
  type BranchStub,
  branchOf,
  committed,
  freshBranch,
  freshBucket,
  inline,
  isCatalogued,
  listed,
  withoutCatalogue,
} from "./support.ts";

const OWNER = { pipeline: "p", uid: "u1" };

async function claimed(branch: BranchStub, owner = OWNER): Promise<number> {
  const claim = await branch.output.claim(owner);
  if (!claim.ok) throw new Error(claim.reason);
  return claim.epoch;
}

/** Contents that the branch keeps for a lease. */
async function kept(branch: BranchStub, texts: readonly string[]) {
  const opened = await branch.uploads.open({ lease: "l" });
  if (!opened.ok) throw new Error(opened.reason);
  const contents = texts.map(inline);
  await branch.uploads.add({ upload: opened.upload, contents });
  return contents.map(({ digest, size }) => ({ digest, size }));
}

describe("claiming", () => {
  test("a claim makes the branch, and the catalogue knows it", async () => {
    const bucket = freshBucket();
    const branch = branchOf(bucket);
    expect(await claimed(branch)).toBe(1);
    expect(await isCatalogued(bucket)).toBe(true);
    expect(await branch.lifecycle.status()).toMatchObject({ ok: true, claimedBy: "p", head: null });
  });

  test("a branch that exists is not taken, and a claimed one not by another pipeline", async () => {
    const branch = await freshBranch();
    expect(await branch.output.claim(OWNER)).toEqual({ ok: false, reason: "already-exists" });
    const output = branchOf(freshBucket());
    await claimed(output);
    expect(await output.output.claim({ pipeline: "q", uid: "u2" })).toEqual({
      ok: false,
      reason: "already-claimed",
    });
    expect(await output.lifecycle.create()).toEqual({ ok: false, reason: "already-exists" });
  });

  test("nobody else writes to a claimed branch, or deletes it", async () => {
    const branch = branchOf(freshBucket());
    await claimed(branch);
    const refused = { ok: false, reason: "pipeline-output" };
    expect(await branch.files.put({ path: "a", content: inline("a"), attributes: {} })).toEqual(refused);
    expect(await branch.files.commit({ operations: [{ delete: "a" }] })).toEqual(refused);
    expect(await branch.lifecycle.destroy()).toEqual(refused);
  });

  test("a claim that the catalogue could not be told of is finished by the next one", async () => {
    const bucket = freshBucket();
    const branch = branchOf(bucket);
    expect(await withoutCatalogue(async () => await branch.output.claim(OWNER))).toEqual({
      ok: false,
      reason: "catalogue-unavailable",
    });
    expect(await branch.output.claim({ pipeline: "q", uid: "u2" })).toEqual({
      ok: false,
      reason: "already-claimed",
    });
    expect(await branch.lifecycle.create()).toEqual({ ok: false, reason: "already-exists" });
    expect(await claimed(branch)).toBe(2);
    expect(await isCatalogued(bucket)).toBe(true);
  });

  test("a released branch stays with what is in it, for everybody", async () => {
    const branch = branchOf(freshBucket());
    const epoch = await claimed(branch);
    const [content] = await kept(branch, ["x"]);
    if (!content) throw new Error("no content");
    committed(
      await branch.output.commit({ uid: "u1", epoch, origin: "j1", operations: [{ put: "a", ...content }] }),
    );
    await branch.output.release({ uid: "other", destroy: true });
    expect(await branch.lifecycle.status()).toMatchObject({ claimedBy: "p" });
    await branch.output.release({ uid: "u1", destroy: false });
    await branch.output.release({ uid: "u1", destroy: true });
    expect(await branch.lifecycle.status()).toMatchObject({ ok: true, claimedBy: null });
    expect((await branch.files.put({ path: "b", content: inline("b"), attributes: {} })).ok).toBe(true);
    expect(await listed(branch)).toEqual(["a", "b"]);
  });

  test("a branch that is released to be destroyed is gone, and a later claim fences the earlier one", async () => {
    const bucket = freshBucket();
    const branch = branchOf(bucket);
    const first = await claimed(branch);
    await branch.output.release({ uid: "u1", destroy: true });
    expect(await isCatalogued(bucket)).toBe(false);
    expect(await branch.lifecycle.status()).toEqual({ ok: false, reason: "no-such-branch" });
    expect(await claimed(branch, { pipeline: "p", uid: "u2" })).toBeGreaterThan(first);
  });
});

describe("output commits", () => {
  test("an earlier holder of the claim is fenced off by a later one", async () => {
    const branch = branchOf(freshBucket());
    const old = await claimed(branch);
    const epoch = await claimed(branch);
    const commit = { uid: "u1", origin: "j1", operations: [] };
    const lost = { ok: false, reason: "lost-claim" };
    expect(await branch.output.commit({ ...commit, epoch: old })).toEqual(lost);
    expect(await branch.output.commit({ ...commit, epoch, uid: "u2" })).toEqual(lost);
    expect(await branch.output.commit({ ...commit, epoch })).toMatchObject({ ok: true });
    await branch.output.release({ uid: "u1", destroy: false });
    expect(await branch.output.commit({ ...commit, epoch })).toEqual(lost);
  });

  test("a job has one commit, however often it asks", async () => {
    const branch = branchOf(freshBucket());
    const epoch = await claimed(branch);
    const [x, y] = await kept(branch, ["x", "y"]);
    if (!x || !y) throw new Error("no contents");
    const job = { uid: "u1", epoch, origin: "j1", operations: [{ put: "a", ...x }] };
    const first = await branch.output.commit(job);
    const other = await branch.output.commit({ ...job, origin: "j2", operations: [{ put: "a", ...y }] });
    expect(await branch.output.commit(job)).toEqual(first);
    expect(await branch.files.read({ path: "a" })).toMatchObject({ digest: y.digest });
    expect(await branch.lifecycle.status()).toMatchObject({ head: other.ok && other.commit });
  });

  test("a job that changes nothing has a commit, too", async () => {
    const branch = branchOf(freshBucket());
    const epoch = await claimed(branch);
    const commits = [];
    for (const origin of ["j1", "j2"]) {
      commits.push(committed(await branch.output.commit({ uid: "u1", epoch, origin, operations: [] })));
    }
    expect(new Set(commits).size).toBe(2);
    expect(commits).not.toContain(null);
    const { events } = await branch.feed.read({ cursor: { generation: 0, seq: 0 }, limit: 10 });
    expect(events.map(({ id, changes }) => ({ id, changes }))).toEqual(
      commits.map((id) => ({ id, changes: [] })),
    );
  });

  test("a missing content is named by its path, and a conflict by both paths; nothing is committed", async () => {
    const branch = branchOf(freshBucket());
    const epoch = await claimed(branch);
    const [x] = await kept(branch, ["x"]);
    if (!x) throw new Error("no content");
    const job = { uid: "u1", epoch, origin: "j1" };
    const { digest, size } = inline("nowhere");
    expect(
      await branch.output.commit({
        ...job,
        operations: [
          { put: "ok", ...x },
          { put: "lost", digest, size },
        ],
      }),
    ).toEqual({ ok: false, reason: "no-such-content", path: "lost" });
    expect(
      await branch.output.commit({
        ...job,
        operations: [
          { put: "a/b", ...x },
          { put: "a", ...x },
        ],
      }),
    ).toEqual({ ok: false, reason: "path-conflict", path: "a/b", other: "a" });
    expect(await branch.lifecycle.status()).toMatchObject({ head: null });
  });

  test("the contents of a job's results stay when its commit is made", async () => {
    const branch = branchOf(freshBucket());
    const epoch = await claimed(branch);
    const [x] = await kept(branch, ["x"]);
    if (!x) throw new Error("no content");
    const job = { uid: "u1", epoch, operations: [{ put: "a", ...x }] };
    await branch.output.commit({ ...job, origin: "j1" });
    await branch.output.commit({ ...job, origin: "j2", operations: [{ delete: "a" }] });
    expect((await branch.output.commit({ ...job, origin: "j3" })).ok).toBe(true);
  });
});
