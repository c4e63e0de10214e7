import { evictDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { numbered, putText, seed, stageAll } from "./large-support.ts";
import { givenBack } from "./retention-support.ts";
import {
  type BranchStub,
  begin,
  branchOf,
  committed,
  freshBranch,
  freshBucket,
  inline,
  listed,
  put,
  stage,
  startOpenCommit,
  withoutCatalogue,
} from "./support.ts";

const NOT_EMPTY = { ok: false, reason: "not-empty" };

/** A branch that goes only when it is empty. */
async function emptyOnlyBranch(): Promise<BranchStub> {
  const branch = branchOf(freshBucket());
  expect(await branch.lifecycle.create({ emptyOnly: true })).toMatchObject({ ok: true });
  return branch;
}

describe("a branch that is set to go only when it is empty", () => {
  test("stays while HEAD has a file, also after a restart, and goes once it has none, whatever its history has", async () => {
    const branch = await emptyOnlyBranch();
    await put(branch, "a");
    expect(await branch.lifecycle.destroy()).toEqual(NOT_EMPTY);
    await evictDurableObject(branch);
    expect(await branch.lifecycle.destroy({ key: "k" })).toEqual(NOT_EMPTY);
    expect(await listed(branch)).toEqual(["a"]);
    committed(await branch.files.commit({ operations: [{ delete: "a" }] }));
    expect(await branch.lifecycle.destroy()).toEqual({ ok: true });
  });

  test("stays while it has the key of an empty directory", async () => {
    const branch = await emptyOnlyBranch();
    committed(await branch.files.commit({ operations: [{ put: "empty/", digest: "", size: 0 }] }));
    expect(await branch.lifecycle.destroy()).toEqual(NOT_EMPTY);
  });

  test("goes although uploads in parts and open commits hold what is no file yet", async () => {
    const branch = await emptyOnlyBranch();
    await begin(branch);
    await stage(branch, await startOpenCommit(branch), { puts: ["staged"] });
    expect(await branch.lifecycle.destroy()).toEqual({ ok: true });
  });

  test("goes with its files for a deletion that says so, and once that is set no more", async () => {
    const [one, other] = [await emptyOnlyBranch(), await emptyOnlyBranch()];
    for (const branch of [one, other]) await put(branch, "a");
    expect(await one.lifecycle.destroy({ withFiles: true })).toEqual({ ok: true });
    expect(await other.settings.change({ emptyOnly: false })).toEqual({ ok: true });
    expect(await other.lifecycle.destroy()).toEqual({ ok: true });
  });

  test("tells whom it is protected for before it tells what it has", async () => {
    const branch = await emptyOnlyBranch();
    await put(branch, "a");
    await branch.settings.change({ writer: { key: "mine" } });
    expect(await branch.lifecycle.destroy({ key: "others" })).toMatchObject({ reason: "protected" });
    expect(await branch.lifecycle.destroy({ key: "others", withFiles: true })).toMatchObject({
      reason: "protected",
    });
    expect(await branch.lifecycle.destroy({ key: "mine" })).toEqual(NOT_EMPTY);
  });

  test("is not set so when it is made again", async () => {
    const branch = await emptyOnlyBranch();
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    await put(branch, "a");
    expect(await branch.settings.read()).toMatchObject({ emptyOnly: false, keep: null });
    expect(await branch.lifecycle.destroy()).toEqual({ ok: true });
  });

  test("loses no file to a deletion that comes at the same time: either both see the file, or neither", async () => {
    for (let round = 0; round < 20; round++) {
      const branch = await emptyOnlyBranch();
      const write = () => branch.files.put({ path: "a", content: inline("a"), attributes: {} });
      const [written, deleted] =
        round % 2 === 0
          ? await Promise.all([write(), branch.lifecycle.destroy()])
          : await Promise.all([branch.lifecycle.destroy(), write()]).then(
              ([gone, put]) => [put, gone] as const,
            );
      if (written.ok) expect(deleted).toEqual(NOT_EMPTY);
      else expect([written.reason, deleted]).toEqual(["no-such-branch", { ok: true }]);
    }
  });

  test("waits for a large commit that is being applied, and counts what it brought", {
    timeout: 120_000,
  }, async () => {
    const branch = await emptyOnlyBranch();
    await seed(branch);
    const paths = numbered("f/", 10_500);
    const openCommit = await stageAll(branch, paths.map(putText));
    committed(
      await branch.files.commit({
        operations: Array.from({ length: 20 }, (_, n) => ({ delete: `seed/${n}` })),
      }),
    );
    expect(await listed(branch)).toEqual([]);
    const [finished, deleted] = await Promise.all([
      branch.openCommits.finish({ openCommit }),
      branch.lifecycle.destroy(),
    ]);
    expect(finished).toMatchObject({ ok: true });
    expect(deleted).toEqual(NOT_EMPTY);
  });
});

describe("a deletion that is to take no file", () => {
  test("leaves a branch alone while HEAD has one, though the branch is not set so", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    expect(await branch.lifecycle.destroy({ withFiles: false })).toEqual(NOT_EMPTY);
    expect(await listed(branch)).toEqual(["a"]);
    committed(await branch.files.commit({ operations: [{ delete: "a" }] }));
    expect(await branch.lifecycle.destroy({ withFiles: false })).toEqual({ ok: true });
  });

  test("takes none that comes at the same time: either both see the file, or neither", async () => {
    for (let round = 0; round < 20; round++) {
      const branch = await freshBranch();
      const write = () => branch.files.put({ path: "a", content: inline("a"), attributes: {} });
      const destroy = () => branch.lifecycle.destroy({ withFiles: false });
      const [written, deleted] =
        round % 2 === 0
          ? await Promise.all([write(), destroy()])
          : await Promise.all([destroy(), write()]).then(([gone, put]) => [put, gone] as const);
      if (written.ok) expect(deleted).toEqual(NOT_EMPTY);
      else expect([written.reason, deleted]).toEqual(["no-such-branch", { ok: true }]);
    }
  });
});

describe("what a branch is made with", () => {
  const SETTINGS = { keep: { commits: 1 }, modified: "file", emptyOnly: true } as const;

  test("holds from its first commit on, and is no business of a creation that comes later", async () => {
    const branch = branchOf(freshBucket());
    expect(await branch.lifecycle.create(SETTINGS)).toMatchObject({ ok: true });
    expect(await branch.settings.read()).toMatchObject(SETTINGS);
    const first = await put(branch, "a", "1");
    await put(branch, "a", "2");
    await givenBack(branch);
    expect(await branch.files.read({ path: "a", commit: first ?? "" })).toMatchObject({
      reason: "no-such-version",
    });
    expect(await branch.lifecycle.create({ public: true })).toEqual({ ok: false, reason: "already-exists" });
    expect(await branch.settings.read()).toMatchObject({ ...SETTINGS, public: false });
  });

  test("does not change one that is there", async () => {
    const branch = await freshBranch();
    expect(await branch.lifecycle.create(SETTINGS)).toEqual({ ok: false, reason: "already-exists" });
    expect(await branch.settings.read()).toMatchObject({ keep: null, modified: null, emptyOnly: false });
  });

  test("is what the one wants who finishes it, but takes no commit that somebody has made since it was begun", async () => {
    const [written, bare] = [branchOf(freshBucket()), branchOf(freshBucket())];
    const first = await withoutCatalogue(async () => {
      for (const branch of [written, bare]) await branch.lifecycle.create();
      const first = await put(written, "a", "1");
      await put(written, "a", "2");
      for (const branch of [written, bare]) {
        expect(await branch.lifecycle.create(SETTINGS)).toEqual({
          ok: false,
          reason: "catalogue-unavailable",
        });
      }
      return first;
    });
    expect(await bare.settings.read()).toMatchObject(SETTINGS);
    expect(await written.settings.read()).toMatchObject({ ...SETTINGS, keep: null });
    await put(written, "a", "3");
    await givenBack(written);
    expect(await written.files.read({ path: "a", commit: first ?? "" })).toMatchObject({ ok: true });
  });

  test("takes no more commits once the one finishes it who wants all kept", async () => {
    const branch = branchOf(freshBucket());
    const first = await withoutCatalogue(async () => {
      expect(await branch.lifecycle.create(SETTINGS)).toEqual({ ok: false, reason: "catalogue-unavailable" });
      return await put(branch, "a", "1");
    });
    expect(await branch.lifecycle.create()).toMatchObject({ ok: true });
    expect(await branch.settings.read()).toMatchObject({ keep: null, modified: null, emptyOnly: false });
    await put(branch, "a", "2");
    await givenBack(branch);
    expect(await branch.files.read({ path: "a", commit: first ?? "" })).toMatchObject({ ok: true });
  });
});
