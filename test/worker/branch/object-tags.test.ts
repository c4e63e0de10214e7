import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { ObjectTag } from "../../../protocol/object-tags.ts";
import { REST } from "../../support/suite.ts";
import { forkOf } from "./fork-support.ts";
import { expectRefsRight, numbered, putText, seed, stageAll } from "./large-support.ts";
import { givenBack } from "./retention-support.ts";
import {
  type BranchStub,
  branchOf,
  committed,
  DAY_MS,
  finished,
  freshBranch,
  freshBucket,
  inline,
  listed,
  put,
  stage,
  startOpenCommit,
} from "./support.ts";

const RED: readonly ObjectTag[] = [["colour", "red"]];
const BLUE: readonly ObjectTag[] = [["colour", "blue"]];

/** A branch that shows times of objects, with a file that was written a day ago. */
async function dayOld(
  path = "a",
  bucket = freshBucket(),
): Promise<{ branch: BranchStub; writtenAt: number }> {
  const branch = await freshBranch(bucket);
  expect(await branch.settings.change({ modified: "file" })).toEqual({ ok: true });
  await put(branch, path, "bytes");
  await aged(branch, 1);
  return { branch, writtenAt: (await shownAt(branch, path)).modifiedAt };
}

/** As if everything so far had been written so many days earlier. */
async function aged(branch: BranchStub, days: number): Promise<void> {
  await runInDurableObject(branch, (_, { storage: { sql } }) => {
    for (const [table, column] of [
      ["commits", "createdAt"],
      ["files", "bytesAt"],
      ["files", "renewed"],
      ["staged", "bytesAt"],
    ])
      sql.exec(`UPDATE ${table} SET ${column} = ${column} - ?`, days * DAY_MS);
  });
  await evictDurableObject(branch);
}

/** What a read shows of a file; the list says the same of its time. */
async function shownAt(branch: BranchStub, path = "a", at: { openCommit?: string; commit?: string } = {}) {
  const read = await branch.files.read({ path, ...at });
  if (!read.ok) throw new Error(read.reason);
  if (at.commit === undefined) {
    const list = await branch.files.list({ prefix: path, limit: 1, ...at });
    if (!list.ok) throw new Error(list.reason);
    expect(list.entries).toMatchObject([{ path, modifiedAt: read.modifiedAt }]);
  }
  const { modifiedAt, digest, commit } = read;
  return { tags: read.attributes.tags ?? [], modifiedAt, digest, commit };
}

async function setTags(
  branch: BranchStub,
  tags: readonly ObjectTag[],
  request: { path?: string; openCommit?: string } = {},
): Promise<string | null> {
  const set = await branch.files.setTags({ path: "a", tags, ...request });
  if (!set.ok) throw new Error(set.reason);
  return set.commit;
}

describe("other tags of a file", () => {
  test("are a commit in which its bytes are as old as they were, also after a restart", async () => {
    const { branch, writtenAt } = await dayOld();
    const red = await setTags(branch, RED);
    expect(await shownAt(branch)).toMatchObject({ tags: RED, modifiedAt: writtenAt, commit: red });
    const blue = await setTags(branch, BLUE);
    await evictDurableObject(branch);
    expect(await shownAt(branch)).toMatchObject({ tags: BLUE, modifiedAt: writtenAt, commit: blue });
    expect(await shownAt(branch, "a", { commit: red ?? "" })).toMatchObject({
      tags: RED,
      modifiedAt: writtenAt,
    });
    await expectRefsRight(branch);
  });

  test("leave the time of the branch's newest commit, where that is shown", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    await aged(branch, 1);
    const set = await branch.files.setTags({ path: "a", tags: RED });
    expect(await branch.files.read({ path: "a" })).toMatchObject({ modifiedAt: set.ok && set.modifiedAt });
  });

  test("leave a file as young as its last write, though that changed nothing", async () => {
    const { branch, writtenAt } = await dayOld();
    await put(branch, "a", "bytes");
    const { modifiedAt } = await shownAt(branch);
    expect(modifiedAt).toBeGreaterThan(writtenAt + DAY_MS / 2);
    await setTags(branch, RED);
    expect((await shownAt(branch)).modifiedAt).toBe(modifiedAt);
  });

  test("are no commit if they are the same, and make nothing younger", async () => {
    const { branch, writtenAt } = await dayOld();
    const red = await setTags(branch, RED);
    expect(await branch.files.setTags({ path: "a", tags: RED })).toMatchObject({
      commit: null,
      version: red,
    });
    expect((await shownAt(branch)).modifiedAt).toBe(writtenAt);
  });

  test("stay when the commit of the bytes is kept no more, and so does the time", async () => {
    const { branch, writtenAt } = await dayOld();
    const first = (await shownAt(branch)).commit;
    await setTags(branch, RED);
    expect(await branch.settings.change({ keep: { commits: 1 } })).toEqual({ ok: true });
    await givenBack(branch);
    expect(await branch.files.read({ path: "a", commit: first })).toMatchObject({
      reason: "no-such-version",
    });
    expect(await shownAt(branch)).toMatchObject({ tags: RED, modifiedAt: writtenAt });
  });

  test("leave a version the time that it is shown with when its commit is kept no more", async () => {
    const branch = await freshBranch();
    await put(branch, "a", "bytes");
    await aged(branch, 1);
    const red = (await setTags(branch, RED)) ?? "";
    for (const modified of ["branch", "file"] as const) {
      expect(await branch.settings.change({ modified, keep: null })).toEqual({ ok: true });
      const { modifiedAt } = await shownAt(branch, "a", { commit: red });
      await put(branch, "b", modified);
      expect(await branch.settings.change({ keep: { commits: 1 } })).toEqual({ ok: true });
      await givenBack(branch);
      expect((await shownAt(branch, "a", { commit: red })).modifiedAt).toBe(modifiedAt);
    }
  });

  test("go with their version when it is erased, and the one before is as it was", async () => {
    const { branch, writtenAt } = await dayOld();
    const first = (await shownAt(branch)).commit;
    const red = await setTags(branch, [["secret-key", "secret-value"]]);
    const erased = await branch.erasures.erase({ versions: [{ path: "a", version: red ?? "" }] });
    expect(erased).toMatchObject({ ok: true, erased: [{ version: red }] });
    expect(await shownAt(branch)).toMatchObject({ tags: [], modifiedAt: writtenAt, commit: first });
    const left = await runInDurableObject(branch, (_, { storage: { sql } }) =>
      sql.exec("SELECT count(*) AS n FROM files WHERE attributes LIKE '%secret%'").one(),
    );
    expect(left).toEqual({ n: 0 });
  });

  test("come back with the time of the bytes when a version after them is erased", async () => {
    const { branch, writtenAt } = await dayOld();
    const red = await setTags(branch, RED);
    const second = await put(branch, "a", "other bytes");
    await branch.erasures.erase({ versions: [{ path: "a", version: second ?? "" }] });
    expect(await shownAt(branch)).toMatchObject({ tags: RED, modifiedAt: writtenAt, commit: red });
  });

  test("are those of a fork, which begins with a time of its own", async () => {
    const bucket = freshBucket();
    const { branch, writtenAt } = await dayOld("a", bucket);
    await setTags(branch, RED);
    const { branch: fork } = await forkOf(bucket);
    await fork.settings.change({ modified: "file" });
    const shown = await shownAt(fork);
    expect(shown.tags).toEqual(RED);
    expect(shown.modifiedAt).toBeGreaterThan(writtenAt + DAY_MS / 2);
  });

  test("are refused in an output, and of what is no file there", async () => {
    const { branch } = await dayOld();
    expect(await branch.files.setTags({ path: "b", tags: RED })).toMatchObject({ reason: "no-such-file" });
    expect(await branch.files.setTags({ path: "a/b", tags: RED })).toMatchObject({ reason: "no-such-file" });
    expect(await branch.files.setTags({ path: "a//b", tags: RED })).toMatchObject({ reason: "bad-path" });
    expect((await shownAt(branch)).tags).toEqual([]);
    const output = branchOf(freshBucket());
    expect(await output.output.claim({ uid: "u", pipeline: "p" })).toMatchObject({ ok: true });
    expect(await output.files.setTags({ path: "a", tags: RED })).toMatchObject({ reason: "pipeline-output" });
  });
});

describe("a put of the same bytes with other tags", () => {
  test("is a commit whose bytes are new", async () => {
    const { branch, writtenAt } = await dayOld();
    await setTags(branch, RED);
    const done = await branch.files.put({ path: "a", content: inline("bytes"), attributes: { tags: BLUE } });
    expect(await shownAt(branch)).toMatchObject({ tags: BLUE, commit: committed(done) });
    expect((await shownAt(branch)).modifiedAt).toBeGreaterThan(writtenAt + DAY_MS / 2);
  });
});

describe("a revert", () => {
  const revert = async (branch: BranchStub, commit: string) => {
    const begun = await branch.openCommits.revert({ commit });
    if (!begun.ok) throw new Error(begun.reason);
    return await finished(branch, begun.openCommit);
  };

  test("to other tags leaves the bytes as old as they are", async () => {
    const { branch, writtenAt } = await dayOld();
    const red = await setTags(branch, RED);
    await setTags(branch, BLUE);
    await revert(branch, red ?? "");
    expect(await shownAt(branch)).toMatchObject({ tags: RED, modifiedAt: writtenAt });
    await expectRefsRight(branch);
  });

  test("to other bytes, or other attributes beside, writes them", async () => {
    const { branch, writtenAt } = await dayOld();
    const red = await setTags(branch, RED);
    for (const [text, attributes] of [
      ["other", { tags: RED }],
      ["bytes", { tags: BLUE, contentType: "text/x" }],
    ] as const) {
      await branch.files.put({ path: "a", content: inline(text), attributes });
      await revert(branch, red ?? "");
      const shown = await shownAt(branch);
      expect(shown.tags).toEqual(RED);
      expect(shown.modifiedAt).toBeGreaterThan(writtenAt + DAY_MS / 2);
    }
  });
});

describe("an open commit", () => {
  test("holds other tags, and its commit leaves the bytes as old as they were", async () => {
    const { branch, writtenAt } = await dayOld();
    const openCommit = await startOpenCommit(branch);
    expect(await setTags(branch, RED, { openCommit })).toBeNull();
    expect(await setTags(branch, BLUE, { openCommit })).toBeNull();
    expect(await shownAt(branch, "a", { openCommit })).toMatchObject({ tags: BLUE, modifiedAt: writtenAt });
    expect((await shownAt(branch)).tags).toEqual([]);
    await finished(branch, openCommit);
    expect(await shownAt(branch)).toMatchObject({ tags: BLUE, modifiedAt: writtenAt });
    await expectRefsRight(branch);
  });

  test("that sets the tags of what it puts writes new bytes, and so does a put over tags", async () => {
    const { branch, writtenAt } = await dayOld();
    await put(branch, "b", "bytes");
    await aged(branch, 1);
    const openCommit = await startOpenCommit(branch);
    await stage(branch, openCommit, { puts: ["a"] });
    await setTags(branch, RED, { openCommit });
    await setTags(branch, RED, { openCommit, path: "b" });
    await branch.files.put({ path: "b", content: inline("bytes"), attributes: { tags: RED }, openCommit });
    await finished(branch, openCommit);
    for (const path of ["a", "b"]) {
      const shown = await shownAt(branch, path);
      expect(shown.tags).toEqual(RED);
      expect(shown.modifiedAt).toBeGreaterThan(writtenAt + DAY_MS / 2);
    }
    await expectRefsRight(branch);
  });

  test("is not finished over bytes that somebody has written since it tagged what was there", async () => {
    const { branch } = await dayOld();
    const openCommit = await startOpenCommit(branch);
    await setTags(branch, RED, { openCommit });
    await put(branch, "a", "written meanwhile");
    const refused = await branch.openCommits.finish({ openCommit });
    expect(refused).toMatchObject({
      reason: "conditions-changed",
      changes: [{ path: "a", change: "changed" }],
    });
    expect((await shownAt(branch)).digest).toBe(inline("written meanwhile").digest);
  });

  test("leaves a file as young as its last write, if that came after the tags and changed nothing", async () => {
    const { branch, writtenAt } = await dayOld();
    const openCommit = await startOpenCommit(branch);
    await setTags(branch, RED, { openCommit });
    await put(branch, "a", "bytes");
    const { modifiedAt } = await shownAt(branch);
    expect(modifiedAt).toBeGreaterThan(writtenAt + DAY_MS / 2);
    await finished(branch, openCommit);
    expect(await shownAt(branch)).toMatchObject({ tags: RED, modifiedAt });
  });

  test("that was refused over such bytes is finished once the tags are set on those", async () => {
    const { branch } = await dayOld();
    const openCommit = await startOpenCommit(branch);
    await setTags(branch, RED, { openCommit });
    await put(branch, "a", "written meanwhile");
    expect(await branch.openCommits.finish({ openCommit })).toMatchObject({ reason: "conditions-changed" });
    await setTags(branch, RED, { openCommit });
    const { digest, modifiedAt } = await shownAt(branch);
    expect(await shownAt(branch, "a", { openCommit })).toMatchObject({ tags: RED, digest, modifiedAt });
    await finished(branch, openCommit);
    expect(await shownAt(branch)).toMatchObject({ tags: RED, digest, modifiedAt });
    await expectRefsRight(branch);
  });

  test("that sets the tags that are there changes nothing, and makes nothing younger", async () => {
    const { branch, writtenAt } = await dayOld();
    const openCommit = await startOpenCommit(branch);
    await setTags(branch, RED, { openCommit });
    await setTags(branch, [], { openCommit });
    expect(await finished(branch, openCommit)).toMatchObject({ commit: null });
    expect((await shownAt(branch)).modifiedAt).toBe(writtenAt);
    await expectRefsRight(branch);
  });

  test("knows no file that it deletes, or that is not there", async () => {
    const { branch } = await dayOld();
    const openCommit = await startOpenCommit(branch);
    await branch.files.commit({ openCommit, operations: [{ delete: "a" }] });
    for (const path of ["a", "b"]) {
      expect(await branch.files.setTags({ path, tags: RED, openCommit })).toMatchObject({
        reason: "no-such-file",
      });
    }
    expect(await listed(branch, { openCommit })).toEqual([]);
  });

  test("that is a large commit leaves bytes of which it sets tags as old as they were", REST, async () => {
    const { branch, writtenAt } = await dayOld("m");
    await put(branch, "n", "bytes");
    await put(branch, "touched", "bytes");
    await seed(branch);
    await aged(branch, 1);
    const before = writtenAt - DAY_MS;
    const openCommit = await stageAll(
      branch,
      numbered("large/", 10_001).map((path, n) => putText(path, n)),
    );
    await setTags(branch, RED, { openCommit, path: "m" });
    await setTags(branch, RED, { openCommit, path: "n" });
    await setTags(branch, [], { openCommit, path: "n" });
    await setTags(branch, RED, { openCommit, path: "touched" });
    await put(branch, "touched", "bytes");
    const { modifiedAt } = await shownAt(branch, "touched");
    await finished(branch, openCommit);
    expect(await shownAt(branch, "touched")).toMatchObject({ tags: RED, modifiedAt });
    expect(modifiedAt).toBeGreaterThan(before + DAY_MS / 2);
    expect(await shownAt(branch, "m")).toMatchObject({ tags: RED, modifiedAt: before });
    expect((await shownAt(branch, "n")).modifiedAt).toBeLessThan(Date.now() - DAY_MS / 2);
    await expectRefsRight(branch);
  });
});
