// @module-tag rest
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { ListVersions } from "../../../worker/branch/contract/files.ts";
import { forkOf, treeOf } from "./fork-support.ts";
import { crashAt, expectRefsRight, restarted } from "./large-support.ts";
import { dayAfterTags, givenBack, horizonOf, rowsLeft, tornCommits } from "./retention-support.ts";
import {
  type BranchStub,
  branchOf,
  chunked,
  commitFiles,
  committed,
  DAY_MS,
  freshBranch,
  freshBucket,
  inline,
  inObject,
  ledgerOf,
  listed,
  put,
  startOpenCommit,
} from "./support.ts";

const NO_VERSION = { ok: false, reason: "no-such-version" };

afterEach(() => {
  vi.restoreAllMocks();
});

/** Overwrites a file so many times, each time a commit; returns the commits. */
async function overwrites(branch: BranchStub, count: number, path = "a"): Promise<string[]> {
  const commits: string[] = [];
  for (let n = 0; n < count; n++)
    commits.push((await put(branch, path, `${path} ${commits.length} ${n}`)) ?? "");
  return commits;
}

/** Writes a file anew, whose bytes are then in a blob of this number. */
async function putBlob(branch: BranchStub, n: number): Promise<void> {
  const opened = await branch.uploads.open({});
  if (!opened.ok) throw new Error(opened.reason);
  const content = chunked(`large ${n}`, [`b/${n}`]);
  committed(await branch.files.put({ path: "l", content, attributes: {}, upload: opened.upload }));
}

/** Which of these commits can be read. */
async function readable(branch: BranchStub, commits: readonly string[]): Promise<boolean[]> {
  const can: boolean[] = [];
  for (const commit of commits) can.push((await branch.history.commit({ commit })).ok);
  return can;
}

async function versionsOf(branch: BranchStub, request: Partial<ListVersions> = {}): Promise<string[]> {
  const page = await branch.files.versions({ prefix: "", limit: 1000, ...request });
  if (!page.ok) throw new Error(page.reason);
  return page.entries.map((entry) =>
    entry.kind === "prefix" ? entry.path : `${entry.path} ${entry.kind} ${entry.version}`,
  );
}

describe("a branch that keeps its newest commits", () => {
  test("answers for those and for tagged ones, and NoSuchVersion for all others, also between kept ones", async () => {
    const branch = await freshBranch();
    const commits = await overwrites(branch, 10);
    const [first = "", second = ""] = commits;
    await branch.tags.create({ name: "v1", commit: first, force: false });
    await branch.tags.create({ name: "v4", commit: commits[3] ?? "", force: false });
    expect(await branch.settings.change({ keep: { commits: 3 } })).toEqual({ ok: true });
    await givenBack(branch);
    expect(await horizonOf(branch)).toBe(8);
    const kept = commits.map((_, n) => n === 0 || n === 3 || n >= 7);
    expect(await readable(branch, commits)).toEqual(kept);
    for (const [n, commit] of commits.entries()) {
      const read = await branch.files.read({ path: "a", commit });
      const listing = await branch.files.list({ prefix: "", limit: 10, commit });
      const asBucket = await branch.files.list({ prefix: "", limit: 10, openCommit: commit });
      const diff = await branch.history.diff({ from: first, to: commit, after: "", limit: 10 });
      for (const answer of [read, listing, asBucket, diff, await branch.files.view({ view: commit })]) {
        if (kept[n]) expect(answer.ok, `commit ${n}`).toBe(true);
        else expect(answer, `commit ${n}`).toEqual(NO_VERSION);
      }
      expect((await branch.feed.position({ commit })) !== null).toBe(kept[n]);
      if (kept[n]) expect(read).toMatchObject(inlineOf(`a ${n} ${n}`));
    }
    for (const call of [
      branch.tags.create({ name: "late", commit: second, force: false }),
      branch.openCommits.revert({ commit: second }),
      branch.forks.addRoot({ fork: "f", bucket: "x.y", commit: second }),
    ]) {
      expect(await call).toEqual(NO_VERSION);
    }
    const log = await branch.history.list({ limit: 100 });
    expect(log.ok && log.commits.map(({ id }) => id)).toEqual(commits.filter((_, n) => kept[n]).reverse());
    expect(log.ok && log.commits.map(({ changes }) => changes.written)).toEqual([1, 1, 1, 1, 1]);
    expect(await rowsLeft(branch)).toMatchObject({ files: 5, contents: 5, held: 2 });
    await expectRefsRight(branch);
  });

  test("lists its commits page by page while the horizon rises", async () => {
    const branch = await freshBranch();
    const commits = await overwrites(branch, 8);
    await branch.tags.create({ name: "v1", commit: commits[0] ?? "", force: false });
    const first = await branch.history.list({ limit: 3 });
    expect(first.ok && first.commits.map(({ id }) => id)).toEqual(commits.slice(5).reverse());
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    const after = first.ok && first.next ? first.next : "";
    const second = await branch.history.list({ limit: 3, after });
    expect(second).toMatchObject({ ok: true, commits: [{ id: commits[0] }], next: null });
    expect(await branch.history.list({ limit: 3, after: "01ZZZZZZZZZZZZZZZZZZZZZZZZ" })).toEqual(NO_VERSION);
  });

  test("keeps all that HEAD has, however old", async () => {
    const branch = await freshBranch();
    for (const path of ["x", "y", "z"]) await put(branch, path);
    await overwrites(branch, 5);
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    expect(await listed(branch)).toEqual(["a", "x", "y", "z"]);
    for (const path of ["x", "y", "z"])
      expect(await branch.files.read({ path })).toMatchObject(inlineOf(path));
    expect(await branch.files.list({ prefix: "", limit: 10, modified: "file" })).toMatchObject({ ok: true });
    expect(await rowsLeft(branch)).toMatchObject({ files: 4, contents: 4 });
  });

  test("condemns the blobs of what it gives back, and no others", async () => {
    const branch = await freshBranch();
    for (const n of [1, 2, 3]) await putBlob(branch, n);
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    expect(await ledgerOf(branch)).toMatchObject({ blobs: [["b/3", 1]], condemned: ["b/1", "b/2"] });
  });

  test("goes on as commits come, without being asked again", async () => {
    const branch = await freshBranch();
    await branch.settings.change({ keep: { commits: 2 } });
    const commits = await overwrites(branch, 6);
    await givenBack(branch);
    expect(await readable(branch, commits)).toEqual([false, false, false, false, true, true]);
    const later = await overwrites(branch, 3, "b");
    expect(await runInDurableObject(branch, (_, { storage }) => storage.getAlarm())).not.toBeNull();
    await givenBack(branch);
    expect(await readable(branch, [...commits, ...later].slice(-3))).toEqual([false, true, true]);
    expect(await rowsLeft(branch)).toMatchObject({ files: 3 });
  });

  test("keeps more from then on if it is told to, and has nothing back", async () => {
    const branch = await freshBranch();
    const commits = await overwrites(branch, 4);
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    await branch.settings.change({ keep: null });
    const later = await overwrites(branch, 3, "b");
    await givenBack(branch);
    expect(await readable(branch, [...commits, ...later])).toEqual([
      false,
      false,
      false,
      true,
      true,
      true,
      true,
    ]);
  });

  test("rests when all is given back", async () => {
    const branch = await freshBranch();
    await overwrites(branch, 4);
    await branch.settings.change({ keep: { commits: 2 } });
    await givenBack(branch);
    await expect
      .poll(async () => {
        await runInDurableObject(branch, (_, { storage: { sql } }) => {
          for (const table of ["outbox", "pending_deletions", "uploads"])
            sql.exec(`UPDATE ${table} SET due = 1`);
        });
        return await runDurableObjectAlarm(branch);
      })
      .toBe(false);
  });

  test("is told so for one life alone", async () => {
    const branch = await freshBranch();
    await branch.settings.change({ keep: { commits: 2 } });
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    expect(await branch.settings.read()).toMatchObject({ keep: null });
  });
});

describe("a branch that keeps what was replaced lately", () => {
  /** The commits become so many days old, in their order. */
  async function age(branch: BranchStub, days: readonly number[]): Promise<void> {
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      for (const [n, old] of days.entries()) {
        sql.exec("UPDATE commits SET createdAt = ? WHERE seq = ?", Date.now() - old * DAY_MS, n + 1);
      }
    });
    await evictDurableObject(branch);
  }

  test("keeps a commit until the next one is so many days old", async () => {
    const branch = await freshBranch();
    const commits = await overwrites(branch, 5);
    await age(branch, [40, 30, 20, 4, 2]);
    await branch.settings.change({ keep: { days: 7 } });
    await givenBack(branch);
    expect(await readable(branch, commits)).toEqual([false, false, true, true, true]);
  });

  test("keeps what either says, the days or the number", async () => {
    const branch = await freshBranch();
    const commits = await overwrites(branch, 5);
    await age(branch, [40, 30, 20, 4, 2]);
    await branch.settings.change({ keep: { days: 7, commits: 4 } });
    await givenBack(branch);
    expect(await readable(branch, commits)).toEqual([false, true, true, true, true]);
    await branch.settings.change({ keep: { days: 7, commits: 1 } });
    await givenBack(branch);
    expect(await readable(branch, commits)).toEqual([false, false, true, true, true]);
  });

  test("always keeps HEAD", async () => {
    const branch = await freshBranch();
    const commits = await overwrites(branch, 3);
    await age(branch, [40, 30, 20]);
    await branch.settings.change({ keep: { days: 1 } });
    await givenBack(branch);
    expect(await readable(branch, commits)).toEqual([false, false, true]);
  });

  test("sets the alarm for when the next commit is old enough", async () => {
    const branch = await freshBranch();
    await overwrites(branch, 3);
    await age(branch, [40, 30, 2]);
    await branch.settings.change({ keep: { days: 7 } });
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branch);
        const alarm = await runInDurableObject(branch, (_, { storage }) => storage.getAlarm());
        return Math.round(((alarm ?? 0) - Date.now()) / DAY_MS);
      })
      .toBe(5);
    expect(await horizonOf(branch)).toBe(2);
  });
});

describe("versions of a key, when history was given back,", () => {
  test("are those whose rows are there, each read by the id that the list names it by", async () => {
    const branch = await freshBranch();
    const commits = await overwrites(branch, 6);
    const other = (await put(branch, "b")) ?? "";
    await branch.tags.create({ name: "v2", commit: commits[1] ?? "", force: false });
    await overwrites(branch, 2, "c");
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    expect(await versionsOf(branch, { prefix: "a" })).toEqual([
      `a version ${commits[5]}`,
      `a version ${commits[1]}`,
    ]);
    expect(await readable(branch, [commits[5] ?? "", commits[1] ?? "", other])).toEqual([false, true, false]);
    expect(await branch.files.read({ path: "a", commit: commits[5] ?? "" })).toMatchObject({
      ...inlineOf("a 5 5"),
      commit: commits[5],
    });
    expect(await branch.files.read({ path: "a", commit: other })).toEqual(NO_VERSION);
    expect(await branch.files.read({ path: "b", commit: other })).toMatchObject(inlineOf("b"));
    expect(await branch.files.read({ path: "b", commit: commits[5] ?? "" })).toEqual(NO_VERSION);
  });

  test("show a deletion where the path was deleted, and none where it was replaced", async () => {
    const branch = await freshBranch();
    const [first = ""] = await overwrites(branch, 3);
    await branch.tags.create({ name: "v1", commit: first, force: false });
    const deletion = committed(await commitFiles(branch, { deletes: ["a"] }));
    const [again = ""] = await overwrites(branch, 1);
    await put(branch, "z");
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    expect(await versionsOf(branch, { prefix: "a" })).toEqual([
      `a version ${again}`,
      `a deletion ${deletion}`,
      `a version ${first}`,
    ]);
  });

  test("are listed on after one that was given back meanwhile", async () => {
    const branch = await freshBranch();
    const commits = await overwrites(branch, 6);
    await branch.tags.create({ name: "v1", commit: commits[0] ?? "", force: false });
    const page = await branch.files.versions({ prefix: "", limit: 2 });
    expect(page).toMatchObject({ ok: true, next: { path: "a", version: commits[4] } });
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    const after = page.ok && page.next ? page.next : { path: "" };
    expect(await versionsOf(branch, { after })).toEqual([`a version ${commits[0]}`]);
  });
});

describe("what names a commit holds it, and lets go:", () => {
  test("a tag that is deleted or moved, a day later", async () => {
    const branch = await freshBranch();
    const commits = await overwrites(branch, 6);
    const [first = "", second = ""] = commits;
    await branch.tags.create({ name: "one", commit: first, force: false });
    await branch.tags.create({ name: "two", commit: second, force: false });
    await branch.settings.change({ keep: { commits: 2 } });
    await givenBack(branch);
    expect(await rowsLeft(branch)).toMatchObject({ files: 4, held: 2 });
    const before = Date.now();
    await branch.tags.delete({ name: "one" });
    await branch.tags.create({ name: "two", commit: commits[5] ?? "", force: true });
    // A crash does not let go of them either.
    await evictDurableObject(branch);
    await givenBack(branch);
    expect(await readable(branch, commits)).toEqual([true, true, false, false, true, true]);
    expect(await rowsLeft(branch)).toMatchObject({ files: 4, held: 2 });
    const alarm = await runInDurableObject(branch, (_, { storage }) => storage.getAlarm());
    expect(alarm).toBeGreaterThanOrEqual(before + DAY_MS);
    await dayAfterTags(branch);
    expect((await branch.history.commit({ commit: first })).ok).toBe(false);
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branch);
        return await rowsLeft(branch);
      })
      .toMatchObject({ files: 2, contents: 2, held: 0 });
    await givenBack(branch);
    await expectRefsRight(branch);
  });

  test("a tag that went, also if the history is cut only then; made again by the commit's id, it is as it was", async () => {
    const branch = await freshBranch();
    const commits = await overwrites(branch, 4);
    const [first = ""] = commits;
    await branch.tags.create({ name: "v1", commit: first, force: false });
    await branch.tags.delete({ name: "v1" });
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    expect(await horizonOf(branch)).toBe(4);
    expect(await readable(branch, commits)).toEqual([true, false, false, true]);
    const log = await branch.history.list({ limit: 10 });
    expect(log.ok && log.commits.map(({ id }) => id)).toEqual([commits[3], first]);
    expect(await branch.tags.create({ name: "v1", commit: first, force: false })).toMatchObject({
      change: "made",
    });
    await dayAfterTags(branch);
    await givenBack(branch);
    expect(await branch.files.read({ path: "a", openCommit: "v1" })).toMatchObject(inlineOf("a 0 0"));
  });

  test("a tag that went twice, a day after the last time", async () => {
    const branch = await freshBranch();
    const [first = ""] = await overwrites(branch, 2);
    const until = () =>
      runInDurableObject(branch, (_, { storage: { sql } }) =>
        sql.exec("SELECT seq, due, name FROM untagged").toArray(),
      );
    await branch.tags.create({ name: "v1", commit: first, force: false });
    await branch.tags.delete({ name: "v1" });
    await runInDurableObject(
      branch,
      (_, { storage: { sql } }) => void sql.exec("UPDATE untagged SET due = 5"),
    );
    const before = Date.now();
    await branch.tags.create({ name: "v2", commit: first, force: false });
    await branch.tags.delete({ name: "v2" });
    const [row, ...others] = await until();
    expect([row?.seq, row?.name, others]).toEqual([1, "v2", []]);
    expect(row?.due).toBeGreaterThanOrEqual(before + DAY_MS);
  });

  test("a tag that went, when the branch is deleted, and nothing wakes the branch for it", async () => {
    const branch = await freshBranch();
    await overwrites(branch, 3);
    await branch.tags.create({ name: "v1", force: false });
    await put(branch, "a", "later");
    await branch.tags.delete({ name: "v1" });
    await branch.lifecycle.destroy();
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branch);
        return await runInDurableObject(branch, async (_, { storage }) => [
          storage.sql.exec("SELECT * FROM untagged").toArray(),
          storage.sql.exec("SELECT * FROM files").toArray(),
        ]);
      })
      .toEqual([[], []]);
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branch);
        return await runInDurableObject(branch, (_, { storage }) => storage.getAlarm());
      })
      .toBeNull();
  });

  test("an open commit, of what HEAD was when it began", async () => {
    const branch = await freshBranch();
    const [first = ""] = await overwrites(branch, 1);
    const openCommit = await startOpenCommit(branch);
    await branch.files.put({
      openCommit,
      path: "new",
      content: inline("new"),
      attributes: {},
      condition: { noneMatch: "any" },
    });
    await branch.files.put({
      openCommit,
      path: "a",
      content: inline("x"),
      attributes: {},
      condition: { match: "any" },
    });
    await branch.settings.change({ keep: { commits: 1 } });
    await put(branch, "b");
    await givenBack(branch);
    expect(await readable(branch, [first])).toEqual([true]);
    expect(await branch.openCommits.finish({ openCommit })).toMatchObject({ ok: true, state: "finished" });
    await givenBack(branch);
    expect(await readable(branch, [first])).toEqual([false]);
    expect(await listed(branch)).toEqual(["a", "b", "new"]);
  });

  test("a fork, also while its rows are being copied, and when its parent is deleted", async () => {
    const bucket = freshBucket();
    const parent = await freshBranch(bucket);
    await put(parent, "x");
    const [first = ""] = await overwrites(parent, 1);
    const tree = await treeOf(parent);
    await parent.forks.addRoot({ fork: "slow", bucket: "a.b", commit: first });
    await overwrites(parent, 4);
    await parent.settings.change({ keep: { commits: 1 } });
    await givenBack(parent);
    const page = await parent.forks.rootPage({ fork: "slow", after: "" });
    expect(page.ok && page.slices.flatMap(({ files }) => files.map(([path]) => path))).toEqual(["a", "x"]);
    const { branch } = await forkOf(bucket, { commit: first });
    await parent.lifecycle.destroy();
    await givenBack(parent);
    expect(await treeOf(branch)).toEqual(tree);
    expect((await parent.forks.rootPage({ fork: "slow", after: "" })).ok).toBe(true);
    expect(await rowsLeft(parent)).toMatchObject({ files: 2 });
    await parent.forks.dropRoot({ fork: "slow" });
    await branch.lifecycle.destroy();
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branch);
        await runDurableObjectAlarm(parent);
        return await rowsLeft(parent);
      })
      .toMatchObject({ files: 0, contents: 0, commits: 1, held: 0 });
  });

  test("a revert that is under way", async () => {
    const branch = await freshBranch();
    const [first = ""] = await overwrites(branch, 6);
    await branch.tags.create({ name: "v1", commit: first, force: false });
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    const crash = crashAt({ statement: /INSERT OR REPLACE INTO staged/, nth: 1 });
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const begun = await branch.openCommits.revert({ commit: "v1" });
    await crash.reached();
    await branch.tags.delete({ name: "v1" });
    await dayAfterTags(branch);
    await runDurableObjectAlarm(branch);
    expect(await rowsLeft(branch)).toMatchObject({ files: 2, held: 1 });
    crash.resume();
    await runDurableObjectAlarm(branch);
    const openCommit = begun.ok ? begun.openCommit : "";
    await expect
      .poll(() => branch.openCommits.finish({ openCommit }))
      .toMatchObject({ ok: true, state: "finished" });
    expect(await branch.files.read({ path: "a" })).toMatchObject(inlineOf("a 0 0"));
  });
});

describe("a branch that nobody calls any more condemns what is due within 30 seconds of", () => {
  /** The second blob replaces the first one, which a commit that something names still has. */
  async function holdsFirst(branch: BranchStub): Promise<void> {
    await putBlob(branch, 2);
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
  }

  /** Of what lets the first blob go: makes a branch ready for it, and returns it. */
  const CAUSES: Readonly<Record<string, (branch: BranchStub) => Promise<() => Promise<unknown>>>> = {
    "a commit": async (branch) => {
      await branch.settings.change({ keep: { commits: 1 } });
      return () => putBlob(branch, 2);
    },
    "what is said to be kept": async (branch) => {
      await putBlob(branch, 2);
      return () => branch.settings.change({ keep: { commits: 1 } });
    },
    "a lifecycle rule": async (branch) => {
      await putBlob(branch, 2);
      await runInDurableObject(branch, (_, { storage: { sql } }) => {
        sql.exec("UPDATE commits SET createdAt = createdAt - ?", 3 * DAY_MS);
      });
      await evictDurableObject(branch);
      const rule = { id: "old", enabled: true, prefix: "", filter: "empty", noncurrentDays: 1 } as const;
      return () => branch.settings.change({ lifecycle: { rules: [rule] } });
    },
    "its deletion": async (branch) => () => branch.lifecycle.destroy(),
    "the deletion of a tag": async (branch) => {
      await branch.tags.create({ name: "v1", force: false });
      await holdsFirst(branch);
      return async () => {
        await branch.tags.delete({ name: "v1" });
        await dayAfterTags(branch);
      };
    },
    "the abortion of an open commit": async (branch) => {
      const openCommit = await startOpenCommit(branch);
      await holdsFirst(branch);
      return () => branch.openCommits.abort({ openCommit });
    },
    "the end of an open commit that changes nothing": async (branch) => {
      const openCommit = await startOpenCommit(branch);
      await holdsFirst(branch);
      return () => branch.openCommits.finish({ openCommit });
    },
    "the end of an open commit, when all is kept by then": async (branch) => {
      const openCommit = await startOpenCommit(branch);
      await holdsFirst(branch);
      await branch.settings.change({ keep: null });
      await branch.files.put({ openCommit, path: "new", content: inline("new"), attributes: {} });
      return () => branch.openCommits.finish({ openCommit });
    },
    "the time at which an open commit runs out": async (branch) => {
      await startOpenCommit(branch);
      await holdsFirst(branch);
      return () =>
        runInDurableObject(branch, async (_, { storage }) => {
          storage.sql.exec("UPDATE open_commits SET due = 1");
          await storage.setAlarm(Date.now());
        });
    },
    "the reading on of a subscriber": async (branch) => {
      await branch.feed.subscribe({ uid: "u", pipeline: "p", starts: [] });
      await holdsFirst(branch);
      return () => branch.feed.setMark({ uid: "u", generation: 1, seq: 2, job: null, starts: [] });
    },
  };

  /** Rings each alarm, and returns how long the branch would have waited for them until a blob was condemned. */
  async function condemnedAfter(branch: BranchStub, blob: string): Promise<number> {
    let waitedMs = 0;
    const isCondemned = async (): Promise<boolean> => {
      if ((await ledgerOf(branch)).condemned.includes(blob)) return true;
      const alarm = await runInDurableObject(branch, (_, { storage }) => storage.getAlarm());
      // One that is due rings by itself, too.
      if (alarm !== null) waitedMs += Math.max(0, alarm - Date.now());
      await runDurableObjectAlarm(branch);
      return (await ledgerOf(branch)).condemned.includes(blob);
    };
    await expect.poll(isCondemned, { timeout: 30_000, interval: 5 }).toBe(true);
    return waitedMs;
  }

  for (const [cause, ready] of Object.entries(CAUSES)) {
    test(cause, { timeout: 60_000 }, async () => {
      const branch = await freshBranch();
      await putBlob(branch, 1);
      const letGo = await ready(branch);
      expect((await ledgerOf(branch)).condemned).toEqual([]);
      await letGo();
      expect(await condemnedAfter(branch, "b/1")).toBeLessThanOrEqual(30_000);
    });
  }
});

describe("a subscriber", () => {
  const at = { generation: 1 };

  test("that never told what it needs holds everything", async () => {
    const branch = await freshBranch();
    const commits = await overwrites(branch, 5);
    await branch.feed.subscribe({ uid: "u", pipeline: "p" });
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    expect(await readable(branch, commits)).toEqual([true, true, true, true, true]);
    await branch.feed.unsubscribe({ uid: "u" });
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branch);
        return await horizonOf(branch);
      })
      .toBe(5);
    await givenBack(branch);
    expect(await rowsLeft(branch)).toMatchObject({ files: 1 });
  });

  test("holds all since the position that it told last, and what comes late takes nothing back", async () => {
    const branch = await freshBranch();
    const commits = await overwrites(branch, 3);
    const { cursor } = await branch.feed.subscribe({ uid: "u", pipeline: "p", starts: [] });
    expect(cursor).toEqual({ ...at, seq: 3 });
    await branch.settings.change({ keep: { commits: 1 } });
    const later = await overwrites(branch, 4, "b");
    await givenBack(branch);
    expect(await horizonOf(branch)).toBe(3);
    const { events } = await branch.feed.read({ cursor, limit: 100 });
    expect(events.map(({ seq, gap, changes }) => [seq, gap, changes.length])).toEqual(
      [4, 5, 6, 7].map((seq) => [seq, undefined, 1]),
    );
    await branch.feed.setMark({ uid: "u", ...at, seq: 5, job: null, starts: [] });
    await branch.feed.setMark({ uid: "u", ...at, seq: 4, job: null, starts: [] });
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branch);
        return await horizonOf(branch);
      })
      .toBe(5);
    await givenBack(branch);
    expect(await readable(branch, [...commits, ...later])).toEqual([
      false,
      false,
      false,
      false,
      true,
      true,
      true,
    ]);
    expect(
      (await branch.feed.filesAt({ ...at, seq: 5, prefix: "", after: "", limit: 9 })).files,
    ).toHaveLength(2);
    expect((await branch.feed.changes({ ...at, seq: 6, after: "", limit: 9 })).changes).toHaveLength(1);
    await inObject(branch, async (object) => {
      const asked = { ...at, seq: 4, prefix: "", after: "", limit: 9 };
      await expect(object.feed.filesAt(asked)).rejects.toThrow("kept no more");
    });
    expect(
      await branch.feed.compare({ from: { ...at, seq: 4 }, to: { ...at, seq: 6 }, paths: ["b"] }),
    ).toBeNull();
  });

  test("that was put back to before the horizon hears that something is lost", async () => {
    const branch = await freshBranch();
    await overwrites(branch, 6);
    await branch.settings.change({ keep: { commits: 2 } });
    await givenBack(branch);
    const { events, more } = await branch.feed.read({ cursor: { ...at, seq: 1 }, limit: 100 });
    expect(events.map(({ seq, gap }) => [seq, gap])).toEqual([
      [5, true],
      [6, undefined],
    ]);
    expect(more).toBe(false);
  });

  test("holds the commits that its inputs start after, also while it is stopped", async () => {
    const branch = await freshBranch();
    const [commit = "", ...others] = await overwrites(branch, 4);
    const starts = [{ commit, ...at, seq: 1 }];
    await branch.feed.subscribe({ uid: "u", pipeline: "p", starts });
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    await branch.feed.unsubscribe({ uid: "u", stopped: true });
    await put(branch, "b");
    await givenBack(branch);
    expect(await readable(branch, [commit, ...others])).toEqual([true, false, false, false]);
    await branch.feed.unsubscribe({ uid: "u" });
    await put(branch, "c");
    await givenBack(branch);
    expect(await readable(branch, [commit])).toEqual([false]);
    expect(await branch.feed.position({ commit })).toBeNull();
  });

  test("is told where a commit stood that was given back before it could hold it", async () => {
    const branch = await freshBranch();
    const [commit = ""] = await overwrites(branch, 4);
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    await branch.feed.subscribe({ uid: "u", pipeline: "p", starts: [{ commit, ...at, seq: 1 }] });
    expect(await branch.feed.position({ commit })).toEqual({ ...at, seq: 1 });
    expect(await readable(branch, [commit])).toEqual([false]);
  });
});

describe("a deleted generation", () => {
  test("goes whole, and what the next one has stays", async () => {
    const branch = await freshBranch();
    await overwrites(branch, 5);
    await put(branch, "b");
    await branch.tags.create({ name: "v1", force: false });
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    await put(branch, "new");
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branch);
        return await rowsLeft(branch);
      })
      .toMatchObject({ files: 1, contents: 1, commits: 2, held: 0 });
    expect(await listed(branch)).toEqual(["new"]);
    await expectRefsRight(branch);
  });

  test("stays while a subscriber needs it", async () => {
    const branch = await freshBranch();
    await branch.feed.subscribe({ uid: "u", pipeline: "p", starts: [] });
    await overwrites(branch, 3);
    await branch.lifecycle.destroy();
    await givenBack(branch);
    expect(await rowsLeft(branch)).toMatchObject({ files: 3 });
    const { events } = await branch.feed.read({ cursor: { generation: 0, seq: 0 }, limit: 100 });
    expect(events.map(({ kind }) => kind)).toEqual(["commit", "commit", "commit", "deletion"]);
    await branch.feed.setMark({ uid: "u", generation: 1, seq: 4, job: null, starts: [] });
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branch);
        return await rowsLeft(branch);
      })
      .toMatchObject({ files: 0, contents: 0, commits: 1 });
    expect((await branch.feed.read({ cursor: { generation: 1, seq: 4 }, limit: 100 })).events).toEqual([]);
  });
});

describe("what the commits of jobs descend from", () => {
  /** An output branch with a commit for each of these versions of a pipeline. Nobody claims it any more. */
  async function descending(branch: BranchStub, versions: readonly number[]): Promise<string[]> {
    const claim = await branch.output.claim({ pipeline: "p", uid: "P1" });
    if (!claim.ok) throw new Error(claim.reason);
    const commits: string[] = [];
    for (const [n, version] of versions.entries()) {
      const content = inline(`${n}`);
      const operations = [{ put: "a", digest: content.digest, size: content.size }];
      const job = { uid: "P1", epoch: claim.epoch, origin: `J${n}`, operations, contents: [content] };
      commits.push(committed(await branch.output.commit({ ...job, lineage: { P0: version } })) ?? "");
    }
    await branch.output.release({ uid: "P1", destroy: false });
    return commits;
  }

  /** The numbers of commits from which on the rows hold. */
  function lineagesOf(branch: BranchStub): Promise<number[]> {
    return runInDurableObject(branch, (_, { storage: { sql } }) =>
      sql
        .exec("SELECT seq FROM lineages ORDER BY seq")
        .toArray()
        .map(({ seq }) => Number(seq)),
    );
  }

  /** By the numbers of commits, the version that the feed tells of each. */
  async function told(branch: BranchStub, seqs: readonly number[]): Promise<unknown[]> {
    const versions: unknown[] = [];
    for (const seq of seqs) {
      const { events } = await branch.feed.read({ cursor: { generation: 1, seq: seq - 1 }, limit: 1 });
      versions.push([events[0]?.seq, events[0]?.lineage?.P0]);
    }
    return versions;
  }

  test("goes with the last kept commit that has it, and stays for those that are kept and all that are tagged", async () => {
    const branch = branchOf(freshBucket());
    // Rows at 1, 3, 5, 6 and 9: each holds until the next.
    const commits = await descending(branch, [1, 1, 2, 2, 3, 4, 4, 4, 5, 5]);
    expect(await lineagesOf(branch)).toEqual([1, 3, 5, 6, 9]);
    await branch.tags.create({ name: "v1", commit: commits[3] ?? "", force: false });
    await branch.settings.change({ keep: { commits: 3 } });
    await givenBack(branch);
    expect(await horizonOf(branch)).toBe(8);
    expect(await lineagesOf(branch)).toEqual([3, 6, 9]);
    expect(await told(branch, [8, 9, 10])).toEqual([
      [8, 4],
      [9, 5],
      [10, 5],
    ]);
    await branch.tags.delete({ name: "v1" });
    await dayAfterTags(branch);
    await givenBack(branch);
    await expect.poll(() => lineagesOf(branch)).toEqual([6, 9]);
  });

  test("stays for the commits that a job which has not ended needs, until it has", async () => {
    const branch = branchOf(freshBucket());
    await branch.feed.subscribe({ uid: "u", pipeline: "q", starts: [] });
    await descending(branch, [1, 2, 3, 4, 5, 6]);
    await branch.feed.setMark({ uid: "u", generation: 1, seq: 3, job: "J", starts: [] });
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    expect(await lineagesOf(branch)).toEqual([3, 4, 5, 6]);
    await branch.feed.setMark({ uid: "u", generation: 1, seq: 6, job: null, starts: [] });
    await givenBack(branch);
    await expect.poll(() => lineagesOf(branch)).toEqual([6]);
    expect(await told(branch, [6])).toEqual([[6, 6]]);
  });

  test("goes in slices, however many rows there are, and with a deleted branch to the last one", async () => {
    const branch = branchOf(freshBucket());
    await descending(branch, [1, 2, 3]);
    // As if more jobs had gone before than one slice takes.
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec(
        `INSERT INTO lineages (gen, seq, lineage)
         WITH RECURSIVE numbers (seq) AS (SELECT -2500 UNION ALL SELECT seq + 1 FROM numbers WHERE seq < 0)
         SELECT 1, seq, '{}' FROM numbers`,
      );
    });
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    await expect.poll(() => lineagesOf(branch)).toEqual([3]);
    await branch.lifecycle.destroy();
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branch);
        return await rowsLeft(branch);
      })
      .toMatchObject({ files: 0, commits: 1, lineages: 0 });
  });
});

describe("a crash while history is given back", () => {
  const FILES = 700;
  const CRASHES = [
    ["before the horizon rises", /INSERT OR REPLACE INTO horizons/, 1],
    ["before commits are held", /INSERT OR IGNORE INTO held/, 1],
    ["before commits are marked", /UPDATE commits SET kind = 2/, 1],
    ["when they are marked", /INSERT OR REPLACE INTO horizons/, 2],
    ["before the first rows go", /DELETE FROM files/, 1],
    ["before gaps are closed", /UPDATE files INDEXED BY by_died SET died/, 1],
    ["before the commits of the first rows go", /DELETE FROM commits WHERE gen = \?1 AND seq IN/, 1],
    ["before the contents of the first rows go", /UPDATE contents SET refs = refs - /, 1],
    ["when the first rows are gone", /INSERT OR REPLACE INTO horizons/, 3],
    ["before more rows go", /DELETE FROM files/, 3],
    ["before the last of it", /DELETE FROM lineages/, 1],
  ] as const;

  /** A branch of four commits with as many files each, the first of them tagged. */
  async function written(): Promise<{ branch: BranchStub; commits: string[] }> {
    const branch = await freshBranch();
    const commits: string[] = [];
    for (const round of [1, 2, 3, 4]) {
      const puts = Object.fromEntries(Array.from({ length: FILES }, (_, n) => [`${n}`, `${n} in ${round}`]));
      commits.push(committed(await commitFiles(branch, { puts })) ?? "");
    }
    await branch.tags.create({ name: "first", commit: commits[0] ?? "", force: false });
    return { branch, commits };
  }

  for (const [when, statement, nth] of CRASHES) {
    test(`${when} loses nothing that is kept, shows nothing that is not, and is got over`, async () => {
      vi.spyOn(console, "warn").mockImplementation(() => {});
      const { branch, commits } = await written();
      const crash = crashAt({ statement, nth });
      await branch.settings.change({ keep: { commits: 1 } });
      await crash.reached();
      await restarted(branch);
      expect(await tornCommits(branch)).toEqual([]);
      const isRaised = (await horizonOf(branch)) > 0;
      expect(await readable(branch, commits)).toEqual([true, !isRaised, !isRaised, true]);
      for (const [commit, round] of [
        [commits[0], 1],
        [commits[3], 4],
      ] as const) {
        expect(await branch.files.read({ path: "699", commit: commit ?? "" })).toMatchObject(
          inlineOf(`699 in ${round}`),
        );
        expect(await branch.files.read({ path: "0", commit: commit ?? "" })).toMatchObject(
          inlineOf(`0 in ${round}`),
        );
      }
      crash.resume();
      await givenBack(branch);
      expect(await readable(branch, commits)).toEqual([true, false, false, true]);
      expect(await rowsLeft(branch)).toMatchObject({ files: 2 * FILES, contents: 2 * FILES, held: 1 });
      expect(await versionsOf(branch, { prefix: "699" })).toEqual([
        `699 version ${commits[3]}`,
        `699 version ${commits[0]}`,
      ]);
      await expectRefsRight(branch);
    });
  }

  test("leaves no trace of a deleted branch once it goes on", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const { branch } = await written();
    for (const [statement, nth] of [
      [/DELETE FROM files/, 2],
      [/DELETE FROM commits/, 2],
      [/DELETE FROM tags/, 1],
    ] as const) {
      const crash = crashAt({ statement, nth });
      await branch.lifecycle.destroy();
      await runDurableObjectAlarm(branch);
      await crash.reached();
      await restarted(branch);
      crash.resume();
    }
    await expect
      .poll(async () => {
        await runDurableObjectAlarm(branch);
        return await rowsLeft(branch);
      })
      .toMatchObject({ files: 0, contents: 0, commits: 1, held: 0 });
  });
});

describe("a mark on what is gone", () => {
  test("is on each commit that lacks rows: one below the horizon that is not marked yet has all of them", async () => {
    const branch = await freshBranch();
    const commits = await overwrites(branch, 8);
    await branch.settings.change({ keep: { commits: 4 } });
    await givenBack(branch);
    const kinds = await runInDurableObject(branch, (_, { storage: { sql } }) =>
      sql
        .exec("SELECT seq, kind FROM commits ORDER BY seq")
        .toArray()
        .map(({ seq, kind }) => [seq, kind]),
    );
    // The parent of the oldest commit is left, for its counts.
    expect(kinds).toEqual([
      [4, 2],
      [5, 0],
      [6, 0],
      [7, 0],
      [8, 0],
    ]);
    await branch.settings.change({ keep: { commits: 1 } });
    // It names a commit below the horizon that is not marked yet.
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE horizons SET horizon = 8");
      sql.exec(
        "INSERT OR REPLACE INTO tags (gen, name, \"commit\", createdAt) VALUES (1, 'old', ?, 0)",
        commits[5] ?? "",
      );
    });
    await evictDurableObject(branch);
    await givenBack(branch);
    expect(await branch.files.read({ path: "a", openCommit: "old" })).toMatchObject(inlineOf("a 5 5"));
    expect(await readable(branch, commits.slice(4))).toEqual([false, true, false, true]);
  });

  test("is on nothing that a subscriber may need which has not told what it needs", async () => {
    const branch = await freshBranch();
    const commits = await overwrites(branch, 4);
    await runInDurableObject(
      branch,
      (_, { storage: { sql } }) => void sql.exec("INSERT INTO subscribers (uid, pipeline) VALUES ('u', 'p')"),
    );
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    expect(await readable(branch, commits)).toEqual([true, true, true, true]);
  });
});

function inlineOf(text: string) {
  const { digest, size } = inline(text);
  return { ok: true, digest, size };
}
