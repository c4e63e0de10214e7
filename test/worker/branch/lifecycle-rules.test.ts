// @module-tag rest
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { ObjectTag } from "../../../protocol/object-tags.ts";
import { type LifecycleRule, midnightAfter } from "../../../worker/core/lifecycle-rules.ts";
import { allPaths, crashAt, expectRefsRight, numbered, pagesOf, putText, seed } from "./large-support.ts";
import {
  type BranchStub,
  begin,
  branchOf,
  chunked,
  committed,
  DAY_MS,
  drained,
  finished,
  freshBranch,
  freshBucket,
  inline,
  ledgerOf,
  listed,
  put,
  stage,
  startOpenCommit,
} from "./support.ts";

const LOGS: LifecycleRule = {
  id: "logs",
  enabled: true,
  prefix: "logs/",
  filter: "prefix",
  expiration: { days: 7 },
};
const UPLOADS: LifecycleRule = { id: "parts", enabled: true, prefix: "", filter: "empty", abortDays: 3 };

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
  beginAtNoon();
});

afterEach(() => {
  vi.restoreAllMocks();
});

/**
 * The clock goes on from the noon (UTC) of a day to come. So no midnight falls into a test, after which what is written is
 * of another day, nor the hour after one, in which scans begin. And since the platform's clock is behind, alarms ring when
 * a test says so.
 */
function beginAtNoon(): void {
  const { now } = Date;
  const began = now();
  const ahead = midnightAfter(began) + DAY_MS / 2 - began;
  vi.spyOn(Date, "now").mockImplementation(() => now() + ahead);
}

async function setRules(branch: BranchStub, ...rules: LifecycleRule[]): Promise<void> {
  const done = await branch.settings.change({
    lifecycle: rules.length === 0 ? null : { rules, key: "operator" },
  });
  expect(done).toEqual({ ok: true });
}

/** As if so many days had passed. */
async function passed(branch: BranchStub, days: number): Promise<void> {
  await runInDurableObject(branch, (_, { storage: { sql } }) => {
    for (const [table, columns] of [
      ["commits", ["createdAt"]],
      ["multiparts", ["initiatedAt"]],
      ["files", ["renewed", "bytesAt"]],
      ["lifecycle_scans", ["due", "midnight", "cutoff", "oldest"]],
      ["clock", ["promised"]],
    ] as const) {
      sql.exec(`UPDATE ${table} SET ${columns.map((column) => `${column} = ${column} - ?1`)}`, days * DAY_MS);
    }
  });
  await evictDurableObject(branch);
}

/** Lets the alarm do what rules say, until nothing of it is left. */
async function night(branch: BranchStub): Promise<void> {
  await expect
    .poll(
      async () => {
        await runDurableObjectAlarm(branch);
        return await workOf(branch);
      },
      { timeout: 60_000 },
    )
    .toEqual([]);
}

/** The scans that go on or are due. */
function workOf(branch: BranchStub): Promise<unknown[]> {
  return runInDurableObject(branch, (_, { storage: { sql } }) =>
    sql.exec("SELECT rule FROM lifecycle_scans WHERE midnight IS NOT NULL OR due <= ?", Date.now()).toArray(),
  );
}

async function log(branch: BranchStub) {
  const found = await branch.history.list({ limit: 100 });
  if (!found.ok) throw new Error(found.reason);
  return found.commits;
}

async function countCommits(branch: BranchStub): Promise<number> {
  return (await log(branch)).length;
}

function alarmOf(branch: BranchStub): Promise<number | null> {
  return runInDurableObject(branch, (_, { storage }) => storage.getAlarm());
}

/** Two files that are due, and one that is not of the rule. */
async function withLogs(): Promise<BranchStub> {
  const branch = await freshBranch();
  await put(branch, "logs/a");
  await put(branch, "logs/b/c");
  await put(branch, "other");
  await setRules(branch, LOGS);
  return branch;
}

describe("files expire", () => {
  test("as one commit, which names the rule and who put it; what is young or not of the prefix stays", async () => {
    const branch = await withLogs();
    const before = await countCommits(branch);
    await passed(branch, 9);
    await put(branch, "logs/new");
    await night(branch);
    expect(await listed(branch)).toEqual(["logs/new", "other"]);
    // The one of the file that is young, and the rule's.
    expect(await countCommits(branch)).toBe(before + 2);
    expect((await log(branch))[0]).toMatchObject({
      origin: null,
      annotation: { key: "operator", message: expect.stringContaining("'logs'") },
      changes: { written: 0, ended: 2 },
    });
    await expectRefsRight(branch);
    // History keeps them.
    const [, parent] = await log(branch);
    expect(await branch.files.read({ path: "logs/a", commit: parent?.id ?? "" })).toMatchObject({ ok: true });
  });

  test("by a rule whose id has several lines, in a commit whose message has one, as all have", async () => {
    const branch = await withLogs();
    await setRules(branch, { ...LOGS, id: "two\nlines" });
    await passed(branch, 9);
    await night(branch);
    expect((await log(branch))[0]).toMatchObject({
      annotation: { message: "expired by the lifecycle rule 'two lines'" },
    });
  });

  test("not before their days are full, and with no commit if none is due", async () => {
    const branch = await withLogs();
    const before = await branch.lifecycle.status();
    await passed(branch, 6);
    await night(branch);
    expect(await listed(branch)).toEqual(["logs/a", "logs/b/c", "other"]);
    expect(await branch.lifecycle.status()).toMatchObject({ head: before.ok && before.head });
    await passed(branch, 3);
    await night(branch);
    expect(await listed(branch)).toEqual(["other"]);
  });

  test("in one commit a day for each rule, whichever of them a file is due by", async () => {
    const branch = await withLogs();
    await setRules(branch, LOGS, { ...LOGS, id: "rest", prefix: "", filter: "empty" });
    await passed(branch, 9);
    const before = await countCommits(branch);
    await night(branch);
    expect(await listed(branch)).toEqual([]);
    expect((await log(branch)).slice(0, 2).map(({ changes }) => changes.ended)).toEqual([1, 2]);
    expect(await countCommits(branch)).toBe(before + 2);
    await evictDurableObject(branch);
    await runDurableObjectAlarm(branch);
    await night(branch);
    expect(await countCommits(branch)).toBe(before + 2);
  });

  test("from a date on, once it is there, what comes later too", async () => {
    const branch = await freshBranch();
    await put(branch, "logs/a");
    const date = Math.floor(Date.now() / DAY_MS) * DAY_MS + 5 * DAY_MS;
    await setRules(branch, { ...LOGS, expiration: { date } });
    await passed(branch, 3);
    await night(branch);
    expect(await listed(branch)).toEqual(["logs/a"]);
    expect(await alarmOf(branch)).toBeGreaterThan(Date.now());
    // A date does not move, so the rule is put as it would be after those days.
    await setRules(branch, { ...LOGS, expiration: { date: date - 6 * DAY_MS } });
    await passed(branch, 2);
    await night(branch);
    expect(await listed(branch)).toEqual([]);
    await put(branch, "logs/b");
    await passed(branch, 2);
    await night(branch);
    expect(await listed(branch)).toEqual([]);
  });

  test("empty directories like S3's keys that end in a slash", async () => {
    const branch = await freshBranch();
    committed(await branch.files.commit({ operations: [{ put: "logs/empty/", digest: "", size: 0 }] }));
    await setRules(branch, LOGS);
    await passed(branch, 9);
    await night(branch);
    expect(await listed(branch)).toEqual([]);
  });

  test("not by a rule that is disabled", async () => {
    const branch = await freshBranch();
    await put(branch, "logs/a");
    await setRules(branch, { ...LOGS, enabled: false });
    await passed(branch, 30);
    await night(branch);
    expect(await listed(branch)).toEqual(["logs/a"]);
    expect(await alarmOf(branch)).toBeNull();
  });

  test("not on the day on which the rule is put, so that a mistake can be taken back", async () => {
    const branch = await freshBranch();
    await put(branch, "logs/a");
    await passed(branch, 30);
    await setRules(branch, LOGS);
    await night(branch);
    expect(await listed(branch)).toEqual(["logs/a"]);
    await passed(branch, 2);
    await night(branch);
    expect(await listed(branch)).toEqual([]);
  });

  test("and pipelines hear of it as of one commit", async () => {
    const branch = await withLogs();
    const { cursor } = await branch.feed.subscribe({ uid: "u", pipeline: "reader" });
    await passed(branch, 9);
    await night(branch);
    const { events } = await branch.feed.read({ cursor, limit: 100 });
    expect(events.map(({ kind, changes }) => [kind, changes.map(({ path, now }) => [path, now])])).toEqual([
      [
        "commit",
        [
          ["logs/a", null],
          ["logs/b/c", null],
        ],
      ],
    ]);
  });
});

describe("what somebody writes while a rule looks stays", () => {
  /** Stops a scan when it has found what is due, does something, and lets it go on. */
  async function between(branch: BranchStub, work: () => Promise<unknown>): Promise<void> {
    const crash = crashAt({ statement: /there\.born = staged\.precondition/, nth: 1 });
    await runDurableObjectAlarm(branch);
    await crash.reached();
    await work();
    crash.resume();
    await night(branch);
  }

  test("another file at the path", async () => {
    const branch = await withLogs();
    await passed(branch, 9);
    await between(branch, () => put(branch, "logs/a", "another"));
    expect(await listed(branch)).toEqual(["logs/a", "other"]);
    expect(await branch.files.read({ path: "logs/a" })).toMatchObject({ digest: inline("another").digest });
  });

  test("the same file, written once more", async () => {
    const branch = await withLogs();
    await passed(branch, 9);
    await between(branch, () => put(branch, "logs/a"));
    expect(await listed(branch)).toEqual(["logs/a", "other"]);
  });

  test("and if that was all, there is no commit", async () => {
    const branch = await withLogs();
    await passed(branch, 9);
    await between(branch, async () => {
      await put(branch, "logs/a");
      await put(branch, "logs/b/c");
    });
    expect(await countCommits(branch)).toBe(3);
    // They are looked at again when they are due.
    await passed(branch, 9);
    await night(branch);
    expect(await listed(branch)).toEqual(["other"]);
  });
});

describe("a file that is written again as it is", () => {
  test.each([
    ["by a PUT", (branch: BranchStub) => put(branch, "logs/a")],
    [
      "by a commit of many operations",
      (branch: BranchStub) => {
        const { digest, size } = inline("logs/a");
        return branch.files.commit({ operations: [{ put: "logs/a", digest, size }, { delete: "nothing" }] });
      },
    ],
    [
      "by an open commit",
      async (branch: BranchStub) => {
        const openCommit = await startOpenCommit(branch);
        await stage(branch, openCommit, { puts: ["logs/a"] });
        await finished(branch, openCommit);
      },
    ],
  ])("%s makes no commit and yet has its days again", async (_, again) => {
    const branch = await withLogs();
    await passed(branch, 5);
    const before = await countCommits(branch);
    await again(branch);
    expect(await countCommits(branch)).toBe(before);
    await passed(branch, 5);
    await night(branch);
    expect(await listed(branch)).toEqual(["logs/a", "other"]);
    await passed(branch, 5);
    await night(branch);
    expect(await listed(branch)).toEqual(["other"]);
  });

  test("costs nothing where nothing expires", async () => {
    const branch = await freshBranch();
    await put(branch, "logs/a");
    await put(branch, "logs/a");
    const renewed = await runInDurableObject(branch, (_, { storage: { sql } }) =>
      sql.exec("SELECT renewed FROM files").one(),
    );
    expect(renewed).toEqual({ renewed: null });
  });
});

describe("an open commit", () => {
  test("keeps what it holds for a path that expires, and is finished as if somebody had deleted that", async () => {
    const branch = await withLogs();
    const openCommit = await startOpenCommit(branch, 30 * DAY_MS);
    await stage(branch, openCommit, { puts: ["logs/a"] });
    await passed(branch, 9);
    await night(branch);
    expect(await listed(branch)).toEqual(["other"]);
    expect(await listed(branch, { openCommit })).toEqual(["logs/a", "other"]);
    await finished(branch, openCommit);
    expect(await listed(branch)).toEqual(["logs/a", "other"]);
    await expectRefsRight(branch);
  });
});

describe("rules that change", () => {
  test("between finding and deleting: what a rule has found stays, if the rule is gone or another by then", async () => {
    for (const rules of [[], [{ ...LOGS, prefix: "logs/b/" }], [{ ...LOGS, enabled: false }]]) {
      const branch = await withLogs();
      await passed(branch, 9);
      const crash = crashAt({ statement: /there\.born = staged\.precondition/, nth: 1 });
      await runDurableObjectAlarm(branch);
      await crash.reached();
      await setRules(branch, ...rules);
      crash.resume();
      await night(branch);
      expect(await listed(branch)).toEqual(["logs/a", "logs/b/c", "other"]);
      await drained(branch);
      expect(await branch.lifecycle.status()).toMatchObject({ ok: true });
    }
  });

  test("do not put off a rule that stays as it was", async () => {
    const branch = await withLogs();
    await passed(branch, 9);
    await setRules(branch, { ...LOGS, id: "more", prefix: "x/" }, LOGS);
    await night(branch);
    expect(await listed(branch)).toEqual(["other"]);
  });

  test("are the same if they are put again", async () => {
    const branch = await withLogs();
    const revision = () =>
      runInDurableObject(branch, (_, { storage: { sql } }) =>
        sql.exec("SELECT revision FROM settings").one(),
      );
    const before = await revision();
    await setRules(branch, LOGS);
    expect(await revision()).toEqual(before);
  });

  test("end with their branch: one of the same name that is made again has none", async () => {
    const bucket = freshBucket();
    const branch = await freshBranch(bucket);
    await put(branch, "logs/a");
    await setRules(branch, LOGS);
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    await put(branch, "logs/a");
    await passed(branch, 9);
    await night(branch);
    expect(await listed(branch)).toEqual(["logs/a"]);
    expect(await branch.settings.read()).toMatchObject({ lifecycle: null });
  });
});

describe("a branch that is not to be written to keeps its files, and they go once it may be", () => {
  test("protected for somebody else than who put the rules", async () => {
    const branch = await withLogs();
    await branch.settings.change({ writer: { key: "another" } });
    await passed(branch, 9);
    await night(branch);
    expect(await listed(branch)).toEqual(["logs/a", "logs/b/c", "other"]);
    await branch.settings.change({ writer: { key: "operator" } });
    await passed(branch, 2);
    await night(branch);
    expect(await listed(branch)).toEqual(["other"]);
  });

  test("protected after they were found", async () => {
    const branch = await withLogs();
    await passed(branch, 9);
    const crash = crashAt({ statement: /there\.born = staged\.precondition/, nth: 1 });
    await runDurableObjectAlarm(branch);
    await crash.reached();
    await branch.settings.change({ writer: { key: "another" } });
    crash.resume();
    await night(branch);
    expect(await listed(branch)).toEqual(["logs/a", "logs/b/c", "other"]);
  });

  test("an output branch takes no rules by which files expire", async () => {
    const branch = branchOf(freshBucket());
    await branch.output.claim({ pipeline: "p", uid: "u" });
    expect(await branch.settings.change({ lifecycle: { rules: [LOGS] } })).toEqual({
      ok: false,
      reason: "pipeline-output",
    });
    expect(await branch.settings.change({ lifecycle: { rules: [UPLOADS] } })).toEqual({ ok: true });
  });
});

describe("an object rests", () => {
  test("while nothing is there that can become due, and from the first file on waits for the day on which it is", async () => {
    const branch = await freshBranch();
    await setRules(branch, LOGS);
    await passed(branch, 2);
    await night(branch);
    expect(await alarmOf(branch)).toBeNull();
    await put(branch, "other");
    await passed(branch, 9);
    await night(branch);
    expect(await alarmOf(branch)).toBeNull();
    await put(branch, "logs/a");
    const alarm = (await alarmOf(branch)) ?? 0;
    expect(alarm - Date.now()).toBeGreaterThan(7 * DAY_MS);
    expect(alarm - Date.now()).toBeLessThan(8 * DAY_MS + DAY_MS / 24);
    await passed(branch, 9);
    await night(branch);
    expect(await listed(branch)).toEqual(["other"]);
    expect(await alarmOf(branch)).toBeNull();
  });

  test("until the oldest of what stays is due", async () => {
    const branch = await withLogs();
    await passed(branch, 5);
    await night(branch);
    const alarm = (await alarmOf(branch)) ?? 0;
    expect(alarm - Date.now()).toBeGreaterThan(2 * DAY_MS);
    expect(alarm - Date.now()).toBeLessThan(3 * DAY_MS + DAY_MS / 24);
  });
});

describe("a crash", () => {
  test.each(
    Array.from({ length: 6 }, (_, n) => n + 1),
  )("at slice %i of a scan loses nothing, and makes no second commit", async (nth) => {
    const branch = await withLogs();
    await passed(branch, 9);
    const before = await countCommits(branch);
    const crash = crashAt({
      statement: /UPDATE lifecycle_scans SET (midnight|path|due)|INSERT INTO commits|DELETE FROM staged/,
      nth,
    });
    await runDurableObjectAlarm(branch);
    await Promise.race([crash.reached(), idle(branch)]);
    expect(await branch.files.read({ path: "other" })).toMatchObject({ ok: true });
    await evictDurableObject(branch);
    crash.resume();
    await branch.lifecycle.status();
    await night(branch);
    expect(await listed(branch)).toEqual(["other"]);
    expect(await countCommits(branch)).toBe(before + 1);
    await drained(branch);
    await expectRefsRight(branch);
  });

  async function idle(branch: BranchStub): Promise<void> {
    await expect.poll(() => workOf(branch), { timeout: 60_000 }).toEqual([]);
  }
});

describe("more files than one transaction takes", () => {
  const PATHS = numbered("logs/", 10_300);

  async function manyLogs({ days = 9 } = {}): Promise<BranchStub> {
    const branch = await freshBranch();
    await seed(branch);
    for (const page of pagesOf(PATHS))
      committed(await branch.files.commit({ operations: page.map(putText) }));
    await setRules(branch, LOGS);
    await passed(branch, days);
    return branch;
  }

  test("go as one large commit, but for what somebody writes before the gate is closed", async () => {
    const branch = await manyLogs();
    const before = await countCommits(branch);
    const crash = crashAt({ statement: /INSERT INTO applying/, nth: 1 });
    await runDurableObjectAlarm(branch);
    await crash.reached();
    await put(branch, "logs/000100", "another");
    committed(await branch.files.commit({ operations: [putText("logs/000200", 200)] }));
    crash.resume();
    await night(branch);
    expect(await allPaths(branch, { prefix: "logs/" })).toEqual(["logs/000100", "logs/000200"]);
    expect(await countCommits(branch)).toBe(before + 2);
    await drained(branch);
    await expectRefsRight(branch);
  });

  test.each([
    /INSERT INTO applying/,
    /there\.born = staged\.precondition/,
    /UPDATE applying SET seq/,
    /UPDATE files SET died = \?4 FROM staged/,
    /INSERT INTO commits/,
  ])("a crash at %s loses none of it", async (statement) => {
    const branch = await manyLogs();
    const before = await countCommits(branch);
    const crash = crashAt({ statement, nth: 1 });
    await runDurableObjectAlarm(branch);
    await crash.reached();
    await evictDurableObject(branch);
    crash.resume();
    await night(branch);
    expect(await allPaths(branch, { prefix: "logs/" })).toEqual([]);
    expect(await countCommits(branch)).toBe(before + 1);
  });

  test("stay, and writers go on, if the rule goes while they are looked at once more", async () => {
    const branch = await manyLogs();
    const crash = crashAt({ statement: /there\.born = staged\.precondition/, nth: 1 });
    await runDurableObjectAlarm(branch);
    await crash.reached();
    const written = put(branch, "after");
    await setRules(branch);
    crash.resume();
    await written;
    await night(branch);
    expect(await allPaths(branch, { prefix: "logs/" })).toHaveLength(PATHS.length);
    await drained(branch);
    await expectRefsRight(branch);
  });

  test("written again as they are by a large commit have their days again", async () => {
    // None is due when they are written again: a scan begins with the first call of that day.
    const branch = await manyLogs({ days: 5 });
    const openCommit = await startOpenCommit(branch);
    for (const page of pagesOf(PATHS)) {
      committed(await branch.files.commit({ openCommit, operations: page.map(putText) }));
    }
    expect((await finished(branch, openCommit)).commit).toBeNull();
    await passed(branch, 5);
    await night(branch);
    expect(await allPaths(branch, { prefix: "logs/" })).toHaveLength(PATHS.length);
  });
});

describe("multipart uploads", () => {
  test("that began long enough ago are aborted with their parts, those of the prefix; that of an open commit stays", async () => {
    const branch = await freshBranch();
    await setRules(branch, { ...UPLOADS, prefix: "big/" });
    const openCommit = await startOpenCommit(branch, 30 * DAY_MS);
    const [old, other, staged] = [
      await begin(branch, { path: "big/a", ttlMs: 90 * DAY_MS }),
      await begin(branch, { path: "small", ttlMs: 90 * DAY_MS }),
      await begin(branch, { path: "big/b", ttlMs: 90 * DAY_MS, openCommit }),
    ];
    await branch.multipart.addPart({ upload: old, number: 1, content: chunked("one", ["b/1"]) });
    await passed(branch, 5);
    const young = await begin(branch, { path: "big/c", ttlMs: 90 * DAY_MS });
    await night(branch);
    expect(await branch.multipart.status({ upload: old })).toEqual({ ok: false, reason: "no-such-upload" });
    for (const upload of [other, staged, young]) {
      expect(await branch.multipart.status({ upload })).toMatchObject({ ok: true });
    }
    expect(await ledgerOf(branch)).toMatchObject({ blobs: [], condemned: ["b/1"] });
    expect(await countCommits(branch)).toBe(0);
  });

  test("go in slices, however many they are", async () => {
    const branch = await freshBranch();
    await setRules(branch, UPLOADS);
    for (let n = 0; n < 12; n++) await begin(branch, { path: `p${n % 3}`, ttlMs: 90 * DAY_MS });
    await passed(branch, 5);
    await night(branch);
    expect(await ledgerOf(branch)).toMatchObject({ uploads: 0 });
    // They may have been begun before the object's instance, so blobs that nothing names are looked for once.
    await expect
      .poll(
        async () => {
          await runInDurableObject(branch, (_, { storage: { sql } }) => {
            sql.exec("UPDATE sweeps SET due = 1 WHERE due > 1");
          });
          await runDurableObjectAlarm(branch);
          return await alarmOf(branch);
        },
        { timeout: 60_000 },
      )
      .toBeNull();
  });
});

describe("a file that is there again, since its deletion was erased", () => {
  test("goes at the next midnight if it is due", async () => {
    const branch = await freshBranch();
    await put(branch, "logs/a");
    await setRules(branch, LOGS);
    await passed(branch, 5);
    const version = committed(await branch.files.commit({ operations: [{ delete: "logs/a" }] })) ?? "";
    await passed(branch, 4);
    await night(branch);
    expect(await alarmOf(branch)).toBeNull();
    expect(await branch.erasures.erase({ versions: [{ path: "logs/a", version }] })).toMatchObject({
      ok: true,
    });
    expect(await listed(branch)).toEqual(["logs/a"]);
    expect(await alarmOf(branch)).toBeLessThan(Date.now() + DAY_MS);
    await passed(branch, 1);
    await night(branch);
    expect(await listed(branch)).toEqual([]);
  });
});

describe("a rule of tags", () => {
  const SCRATCH: LifecycleRule = {
    id: "scratch",
    enabled: true,
    prefix: "logs/",
    filter: "and",
    tags: [
      ["kind", "scratch"],
      ["team", "a"],
    ],
    expiration: { days: 7 },
  };
  const tagged = (branch: BranchStub, path: string, tags: readonly ObjectTag[]) =>
    branch.files.put({ path, content: inline(path), attributes: { tags } });
  const ALL: readonly ObjectTag[] = [
    ["kind", "scratch"],
    ["more", "x"],
    ["team", "a"],
  ];

  /** When the rule looks next; null: when something comes. */
  const dueOf = (branch: BranchStub): Promise<unknown> =>
    runInDurableObject(
      branch,
      (_, { storage: { sql } }) => sql.exec("SELECT due FROM lifecycle_scans").one().due,
    );

  test("lets files go that have all of them, below its prefix, and no others", async () => {
    const branch = await freshBranch();
    await tagged(branch, "logs/all", ALL);
    await tagged(branch, "logs/half", [["kind", "scratch"]]);
    await tagged(branch, "logs/other", [
      ["kind", "scratch"],
      ["team", "b"],
    ]);
    await put(branch, "logs/none");
    await tagged(branch, "else", ALL);
    await setRules(branch, SCRATCH);
    await passed(branch, 9);
    await night(branch);
    expect(await listed(branch)).toEqual(["else", "logs/half", "logs/none", "logs/other"]);
    await expectRefsRight(branch);
  });

  test("counts the days of the bytes: what gets its tags late goes at the next midnight", async () => {
    const branch = await freshBranch();
    for (const path of ["logs/a", "logs/b"]) await put(branch, path);
    await setRules(branch, SCRATCH);
    await passed(branch, 5);
    // So the rule has something young to wait for.
    await tagged(branch, "logs/young", ALL);
    await night(branch);
    await passed(branch, 4);
    await night(branch);
    expect(await listed(branch)).toEqual(["logs/a", "logs/b", "logs/young"]);
    expect(await branch.files.setTags({ path: "logs/a", tags: ALL })).toMatchObject({ ok: true });
    await passed(branch, 1);
    await night(branch);
    expect(await listed(branch)).toEqual(["logs/b", "logs/young"]);
  });

  test("spares what loses its tags while a scan goes on, and finds in the next what gets them then", async () => {
    const branch = await freshBranch();
    for (const path of ["logs/gets", "logs/z-goes", "logs/z-loses"]) await put(branch, path);
    for (const path of ["logs/z-goes", "logs/z-loses"]) await branch.files.setTags({ path, tags: ALL });
    await setRules(branch, SCRATCH);
    await passed(branch, 9);
    const stopped = crashAt({ statement: /DELETE FROM staged\s+WHERE openCommit/, nth: 1 });
    await runDurableObjectAlarm(branch);
    await stopped.reached();
    // What it has staged is not committed yet: the scan has gone by both.
    await branch.files.setTags({ path: "logs/z-loses", tags: [] });
    await branch.files.setTags({ path: "logs/gets", tags: ALL });
    stopped.resume();
    await night(branch);
    expect(await listed(branch)).toEqual(["logs/gets", "logs/z-loses"]);
    await passed(branch, 1);
    await night(branch);
    expect(await listed(branch)).toEqual(["logs/z-loses"]);
    await expectRefsRight(branch);
  });

  test("rests once nothing has them, though other files are there", async () => {
    const branch = await freshBranch();
    await put(branch, "logs/none");
    await setRules(branch, SCRATCH);
    await passed(branch, 9);
    await night(branch);
    expect(await dueOf(branch)).toBeNull();
    expect(await alarmOf(branch)).toBeNull();
  });

  test("looks at the next midnight once a file is under it again, since a version of it was erased", async () => {
    const branch = await freshBranch();
    await tagged(branch, "logs/a", ALL);
    await setRules(branch, SCRATCH);
    await passed(branch, 5);
    const untagged = await branch.files.setTags({ path: "logs/a", tags: [] });
    await passed(branch, 4);
    await night(branch);
    expect(await dueOf(branch)).toBeNull();
    expect(await alarmOf(branch)).toBeNull();
    const version = (untagged.ok && untagged.commit) || "";
    expect(await branch.erasures.erase({ versions: [{ path: "logs/a", version }] })).toMatchObject({
      ok: true,
    });
    expect(await dueOf(branch)).toBeLessThan(Date.now() + DAY_MS);
    expect(await alarmOf(branch)).not.toBeNull();
    await passed(branch, 1);
    await night(branch);
    expect(await listed(branch)).toEqual([]);
  });

  test("is written no more by tags that change nothing of when it looks", async () => {
    const branch = await freshBranch();
    await put(branch, "logs/a");
    await setRules(branch, SCRATCH, { ...SCRATCH, id: "other" });
    await passed(branch, 9);
    await night(branch);
    const planned = () =>
      runInDurableObject(branch, (_, { storage: { sql } }) =>
        sql.exec("SELECT rule, due IS NULL AS rests FROM lifecycle_scans ORDER BY rule").toArray(),
      );
    expect(await planned()).toMatchObject([{ rests: 1 }, { rests: 1 }]);
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("CREATE TABLE written (rule TEXT)");
      sql.exec(
        "CREATE TRIGGER tell AFTER UPDATE ON lifecycle_scans BEGIN INSERT INTO written VALUES (new.rule); END",
      );
    });
    for (const team of ["a", "b", "c"]) {
      expect(await branch.files.setTags({ path: "logs/a", tags: [["team", team]] })).toMatchObject({
        ok: true,
      });
    }
    expect(await planned()).toMatchObject([{ rests: 0 }, { rests: 0 }]);
    const written = await runInDurableObject(branch, (_, { storage: { sql } }) =>
      sql.exec("SELECT rule, count(*) AS times FROM written GROUP BY rule ORDER BY rule").toArray(),
    );
    // Once as what waited for something, and once as what looks sooner than that.
    expect(written).toEqual([
      { rule: "other", times: 2 },
      { rule: "scratch", times: 2 },
    ]);
  });

  test("that is put again as it is goes on as it was", async () => {
    const branch = await freshBranch();
    await tagged(branch, "logs/a", ALL);
    await setRules(branch, SCRATCH);
    await passed(branch, 9);
    await setRules(branch, SCRATCH);
    await night(branch);
    expect(await listed(branch)).toEqual([]);
  });
});
