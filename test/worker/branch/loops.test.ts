import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import { parseBucketName } from "../../../protocol/names.ts";
import { DEATHS, killAt, swallow } from "../objects/loop-faults.ts";
import { KILL, killBranch, killed } from "../pipeline/kill.ts";
import { numbered, stageAll } from "./large-support.ts";
import { erase, withCopies } from "./lent-support.ts";
import { branchOf, chunked, commitFiles, DAY_MS, freshBranch, freshBucket, put } from "./support.ts";

/** Work for one loop of a branch. */
interface Work {
  readonly bucket: string;
  /** Gives it to the loop. */
  begin(): Promise<unknown>;
  /** It is to be done later: the statement by which that time has come. Absent: it is to be done at once. */
  readonly passes?: string;
  /** Whether the loop did it. */
  isDone(): Promise<boolean>;
}

interface Scenario {
  readonly loop: string;
  readonly what: string;
  /** The methods whose wake has the work done. */
  readonly wokenBy: readonly string[];
  prepare(bucket: string): Promise<Work>;
}

const sql = (bucket: string, text: string): Promise<unknown[]> =>
  runInDurableObject(branchOf(bucket), (_, { storage }) => storage.sql.exec(text).toArray());

/** Whether a query finds nothing. */
const isEmpty = (bucket: string, text: string) => async () => (await sql(bucket, text)).length === 0;

const SCENARIOS: readonly Scenario[] = [
  {
    loop: "outbox",
    what: "a subscriber is to hear of a commit",
    wokenBy: ["Outbox.ring"],
    async prepare(bucket) {
      const branch = await freshBranch(bucket);
      await branch.feed.subscribe({ uid: "u", pipeline: "no-such-pipeline" });
      return { bucket, begin: () => put(branch, "a"), isDone: isEmpty(bucket, "SELECT 1 FROM outbox") };
    },
  },
  {
    loop: "outbox",
    what: "the catalogue is to hear of an erasure",
    wokenBy: ["Outbox.tellErased"],
    async prepare(bucket) {
      const branch = await freshBranch(bucket);
      const version = (await put(branch, "a")) ?? "";
      await put(branch, "a", "2");
      return {
        bucket,
        begin: () => branch.erasures.erase({ versions: [{ path: "a", version }] }),
        isDone: isEmpty(bucket, "SELECT 1 FROM outbox"),
      };
    },
  },
  {
    loop: "housekeeping",
    what: "an upload is forgotten after its lease",
    wokenBy: ["UploadStore.open"],
    async prepare(bucket) {
      const branch = await freshBranch(bucket);
      return {
        bucket,
        begin: () => branch.uploads.open({}),
        passes: "UPDATE uploads SET due = 1",
        isDone: isEmpty(bucket, "SELECT 1 FROM uploads"),
      };
    },
  },
  {
    loop: "housekeeping",
    what: "an export ends whose reader is gone",
    wokenBy: ["ExportStore.open"],
    async prepare(bucket) {
      const branch = await freshBranch(bucket);
      await put(branch, "a");
      return {
        bucket,
        begin: () => branch.exports.begin(),
        passes: "UPDATE exports SET due = 1",
        isDone: isEmpty(bucket, "SELECT 1 FROM exports"),
      };
    },
  },
  {
    loop: "blob reaper",
    what: "the blobs of an upload are deleted that was given up",
    wokenBy: ["PendingDeletionStore.add"],
    async prepare(bucket) {
      const branch = await freshBranch(bucket);
      const opened = await branch.uploads.open({});
      if (!opened.ok) throw new Error(opened.reason);
      const { upload } = opened;
      await branch.uploads.add({ upload, contents: [chunked("one", ["b/1"])] });
      return {
        bucket,
        begin: () => branch.uploads.abort({ upload }),
        passes: "UPDATE condemned SET due = 1",
        isDone: isEmpty(bucket, "SELECT 1 FROM condemned"),
      };
    },
  },
  {
    loop: "orphan scan",
    what: "somebody wants orphans removed",
    wokenBy: ["SweepStore.ask"],
    async prepare(bucket) {
      const branch = await freshBranch(bucket);
      return {
        bucket,
        begin: () => branch.admin.sweep({ remove: true }),
        isDone: isEmpty(bucket, "SELECT 1 FROM sweeps WHERE due IS NOT NULL"),
      };
    },
  },
  {
    loop: "large commit",
    what: "an open commit of many operations is applied",
    wokenBy: ["ApplyingStore.begin"],
    async prepare(bucket) {
      const branch = await freshBranch(bucket);
      const operations = numbered("f/", 10_001).map((path) => ({ delete: path }));
      const openCommit = await stageAll(branch, operations);
      return {
        bucket,
        begin: () => branch.openCommits.finish({ openCommit }),
        isDone: isEmpty(bucket, "SELECT 1 FROM applying"),
      };
    },
  },
  {
    loop: "large commit",
    what: "a commit is reverted",
    wokenBy: ["ApplyingStore.beginRevert"],
    async prepare(bucket) {
      const branch = await freshBranch(bucket);
      const commit = (await put(branch, "a")) ?? "";
      await put(branch, "b");
      return {
        bucket,
        begin: () => branch.openCommits.revert({ commit }),
        isDone: async () => {
          const page = await branchOf(bucket).files.list({ prefix: "", limit: 10, after: "" });
          return page.ok && page.entries.length === 1;
        },
      };
    },
  },
  {
    loop: "forks",
    what: "a fork is copied",
    wokenBy: ["ForkStore.startCopying"],
    async prepare(bucket) {
      const from = freshBucket();
      await commitFiles(await freshBranch(from), { puts: { a: "1", b: "2" } });
      return {
        bucket,
        begin: () => branchOf(bucket).lifecycle.fork({ parent: from }),
        isDone: async () => {
          const found = await branchOf(bucket).lifecycle.inspect();
          return found.ok && found.fork?.ready === true;
        },
      };
    },
  },
  {
    loop: "fork check",
    what: "a fork is asked whether it still has the bytes of an erased version",
    wokenBy: ["PinStore.add"],
    async prepare() {
      const { from, versions } = await withCopies(1);
      return {
        bucket: from,
        begin: () => erase(from, versions),
        passes: "UPDATE pin_asks SET due = 1",
        isDone: isEmpty(from, "SELECT 1 FROM pin_asks WHERE due = 1"),
      };
    },
  },
  {
    loop: "lifecycle scan",
    what: "a rule is to delete what will have expired",
    wokenBy: ["RoundStore.plan"],
    async prepare(bucket) {
      const branch = await freshBranch(bucket);
      await put(branch, "logs/a");
      const about = { id: "r", enabled: true, prefix: "logs/", filter: "prefix" } as const;
      const rules = [{ ...about, expiration: { days: 1 } }];
      return {
        bucket,
        begin: () => branch.settings.change({ lifecycle: { rules, key: "operator" } }),
        passes: `UPDATE commits SET created_at = created_at - ${9 * DAY_MS}; UPDATE rounds SET due = 1`,
        isDone: async () => {
          const page = await branchOf(bucket).files.list({ prefix: "", limit: 10, after: "" });
          return page.ok && page.entries.length === 0;
        },
      };
    },
  },
  {
    loop: "history GC",
    what: "fewer commits are kept",
    wokenBy: ["SettingsStore.save"],
    async prepare(bucket) {
      const branch = await freshBranch(bucket);
      const first = await put(branch, "a", "1");
      for (const text of ["2", "3"]) await put(branch, "a", text);
      return {
        bucket,
        begin: () => branch.settings.change({ keep: { commits: 1 } }),
        isDone: async () => !(await branchOf(bucket).files.read({ path: "a", commit: first ?? "" })).ok,
      };
    },
  },
  {
    loop: "history GC",
    what: "an export ends that kept commits",
    wokenBy: ["ExportStore.close"],
    async prepare(bucket) {
      const branch = await freshBranch(bucket);
      const first = await put(branch, "a", "1");
      for (const text of ["2", "3"]) await put(branch, "a", text);
      const begun = await branch.exports.begin();
      if (!begun.ok) throw new Error(begun.reason);
      await branch.settings.change({ keep: { commits: 1 } });
      return {
        bucket,
        begin: () => branch.exports.end({ export: begun.export }),
        isDone: async () => !(await branchOf(bucket).files.read({ path: "a", commit: first ?? "" })).ok,
      };
    },
  },
  {
    loop: "imports",
    what: "an import is given up",
    wokenBy: ["ImportStore.giveUp"],
    async prepare(bucket) {
      const branch = branchOf(bucket);
      const settings = { public: false, cors: null, writer: null, modified: null, emptyOnly: false };
      const head = { createdAt: 1, head: 1, floor: 0, settings };
      const begun = await branch.imports.begin({ archive: "0".repeat(64), branch: head });
      if (!begun.ok) throw new Error(begun.reason);
      return {
        bucket,
        begin: () => branch.imports.abort({ import: begun.import }),
        isDone: isEmpty(bucket, "SELECT 1 FROM imports"),
      };
    },
  },
];

/** What dies with its object is no fault. */
function unlessKilled(error: unknown): false {
  if (!killed(error)) throw error;
  return false;
}

/** As they stand in the object that there is now: a stub is of no use when its object has died. */
async function standing(bucket: string) {
  return (await branchOf(bucket).admin.loops())?.loops ?? [];
}

/** Whether no loop has anything to do now. */
async function rests(bucket: string): Promise<boolean> {
  return (await standing(bucket)).every(
    ({ state, due }) => state === "idle" || (state === "due" && (due ?? 0) > Date.now()),
  );
}

/** An alarm stands if, and only if, a loop has something to do at some time. */
async function alarmFits(bucket: string): Promise<boolean> {
  const isIdle = (await standing(bucket)).every(({ state }) => state === "idle");
  const alarm = await runInDurableObject(branchOf(bucket), (_, { storage }) => storage.getAlarm());
  return isIdle === (alarm === null);
}

afterEach(() => {
  vi.restoreAllMocks();
});

test("every loop of a branch has work here", async () => {
  const bucket = freshBucket();
  await freshBranch(bucket);
  const loops = (await standing(bucket)).map(({ name }) => name).sort();
  expect([...new Set(SCENARIOS.map(({ loop }) => loop))].sort()).toEqual(loops);
});

describe.each(SCENARIOS)("the loop '$loop' of a branch, when $what,", ({ loop, wokenBy, prepare }) => {
  test.each(DEATHS)("goes on if the object dies $at, and then the object rests", async ({ when, step }) => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const { bucket, begin, passes, isDone } = await prepare(freshBucket());
    let abort = (): void => {};
    await runInDurableObject(branchOf(bucket), (_, state) => {
      abort = () => state.abort(KILL);
    });
    const death = killAt({ object: `branch ${bucket}`, loop, when, step }, () => abort());
    const work = async () => {
      await begin();
      if (passes) await sql(bucket, passes).then(() => runDurableObjectAlarm(branchOf(bucket)));
    };
    await work().catch(unlessKilled);
    // A loop may be done before so many steps: then the object dies at rest.
    const stood = async () => death.isKilled() || ((await isDone()) && (await rests(bucket)));
    await expect.poll(() => stood().catch(unlessKilled), { timeout: 20_000 }).toBe(true);
    death.end();
    await killBranch(parseBucketName(bucket) ?? { repo: "", branch: "" });
    const goesOn = async () => {
      await runDurableObjectAlarm(branchOf(bucket));
      return (await isDone()) && (await rests(bucket)) && (await alarmFits(bucket));
    };
    await expect.poll(() => goesOn().catch(unlessKilled), { timeout: 20_000 }).toBe(true);
  });

  test("is woken by what gives it its work: if that wake is lost, it sleeps", async () => {
    const run = async (lost?: string) => {
      const { bucket, begin, passes, isDone } = await prepare(freshBucket());
      // What stands for other loops is done with: no alarm of theirs comes in between.
      await expect.poll(() => settled(bucket), { timeout: 20_000 }).toBe(true);
      const wakes = swallow(loop, { lost, alone: passes !== undefined });
      await begin();
      await expect.poll(() => isStill(bucket), { timeout: 20_000 }).toBe(true);
      wakes.end();
      const sleeps = passes === undefined ? !(await isDone()) : !(await isCovered(bucket, loop));
      return { places: [...wakes.places], sleeps };
    };
    const { places, sleeps } = await run();
    expect(sleeps).toBe(false);
    const found = [];
    for (const place of places) if ((await run(place)).sleeps) found.push(place);
    expect(found).toEqual(wokenBy);
  });
});

/** Whether what is due is done, and the alarm is that of what is due later. */
async function settled(bucket: string): Promise<boolean> {
  await runDurableObjectAlarm(branchOf(bucket));
  return (await isStill(bucket)) && (await rests(bucket));
}

/** Whether no loop is at work. */
async function isStill(bucket: string): Promise<boolean> {
  return (await standing(bucket)).every(({ state }) => state !== "running");
}

/** Whether an alarm stands by which a loop does its work in time. */
async function isCovered(bucket: string, loop: string): Promise<boolean> {
  const due = (await standing(bucket)).find(({ name }) => name === loop)?.due ?? null;
  const alarm = await runInDurableObject(branchOf(bucket), (_, { storage }) => storage.getAlarm());
  return due !== null && alarm !== null && alarm <= due;
}
