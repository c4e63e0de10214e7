import { env, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Outcome } from "../../../protocol/runner.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import type { Element } from "../../../worker/pipeline/inputs/element-store.ts";
import { JobStore, oldestShown } from "../../../worker/pipeline/jobs/job-store.ts";
import { Ledger } from "../../../worker/pipeline/ledger/ledger.ts";
import { REST } from "../../support/suite.ts";
import {
  allJobs,
  commit,
  contentOf,
  makePipeline,
  makeRepo,
  master,
  pathsOf,
  query,
  workUntil,
} from "./support.ts";

const COMMITS = 1000;

/** Takes datums until so many were handed out to all workers together; returns how many of its calls came back empty. */
async function runner(
  pipeline: PipelineApi,
  { worker, handedOut }: { worker: string; handedOut: Map<string, string> },
): Promise<number> {
  let empty = 0;
  while (handedOut.size < COMMITS) {
    const leased = await pipeline.leases.take({
      node: worker,
      worker,
      max: 16,
      waitMs: handedOut.size ? 2_000 : 20_000,
    });
    if (!leased.ok) throw new Error(leased.reason);
    if (leased.datums.length === 0 && handedOut.size < COMMITS) empty++;
    for (const datum of leased.datums) handedOut.set(pathsOf(datum).join(), worker);
    const outcomes = leased.datums.map(
      ({ lease }): Outcome => ({
        lease,
        state: "success",
        exitCode: 0,
        outputs: [],
        millis: 1,
        ran: { executor: "process", image: null },
      }),
    );
    if (outcomes.length > 0) await pipeline.leases.finish({ worker, outcomes });
  }
  return empty;
}

describe("a burst of commits of one file each", () => {
  it("keeps both workers busy, makes a job a commit and counts right, in rows that grow with the commits", {
    ...REST,
    timeout: 120_000,
  }, async () => {
    await makeRepo("burst-in");
    const pipeline = await makePipeline({ name: "burst", globs: { "burst-in": "/*" }, workers: 2 });
    const names = Array.from({ length: COMMITS }, (_, index) => `f${String(index).padStart(4, "0")}`);
    const writing = Promise.all(
      names.map((path) => master("burst-in").files.put({ path, content: contentOf(path), attributes: {} })),
    );
    const handedOut = new Map<string, string>();
    const [, ...empty] = await Promise.all([
      writing,
      runner(pipeline, { worker: "w1", handedOut }),
      runner(pipeline, { worker: "w2", handedOut }),
    ]);
    expect(empty).toEqual([0, 0]);
    expect(new Set(handedOut.values()).size).toBe(2);

    await workUntil(pipeline, { jobs: COMMITS });
    const jobs = await allJobs(pipeline);
    expect(jobs).toHaveLength(COMMITS);
    expect(jobs.every(({ state }) => state === "success")).toBe(true);
    expect(jobs.map(({ datums }) => datums)).toEqual(
      names.map((_, index) => ({ total: index + 1, processed: 1, skipped: index, failed: 0 })),
    );
    for (const table of ["attempts", "elements", "datums", "results"]) {
      expect(await query("burst", `SELECT count(*) AS count FROM ${table}`)).toEqual([{ count: COMMITS }]);
    }
    expect(await query("burst", "SELECT count(*) AS count FROM touched")).toEqual([{ count: 0 }]);
  });
});

describe("the oldest job that keeps what it ran", () => {
  it("is found in as many rows, however many jobs wait for their turn", async () => {
    const stub = env.PIPELINE.getByName("many-wait");
    await runInDurableObject(stub, (_, { storage }) => {
      const ledger = new Ledger(storage);
      ledger.makeTables();
      ledger.sql.run`
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2 * ${COMMITS})
        INSERT INTO jobs (n, id, state, revision, source, generation, seq, positions, fill, filled, tookOver, committing,
          reaping, total, processed, skipped, failed, open, createdAt, finishedAt, version, flushed)
        SELECT n, n, 'running', 1, 0, 1, n, '[]', '{}', 1, n <= 10, 0, 0, 1, 0, 0, 0, 1, 1, iif(n < 10, 1, NULL), 1, 1
        FROM numbers`;
      const statements = vi.spyOn(Sql.prototype, "execute");
      expect(oldestShown(ledger.jobs, COMMITS)).toBe(10);
      const read = statements.mock.results.map(({ value }) => value.rowsRead as number);
      statements.mockRestore();
      expect(read.reduce((sum, rows) => sum + rows)).toBeLessThan(10);
    });
  });
});

describe("a file that a thousand jobs found changed, beside a thousand files that are gone", () => {
  it("is compared, ended and born again without looking at what was before", async () => {
    await runInDurableObject(env.PIPELINE.getByName("often-changed"), (_, { storage }) => {
      const ledger = new Ledger(storage);
      ledger.makeTables();
      const file = (path: string): Element => ({ path, kind: "file", digest: "d".repeat(64), size: 1 });
      const { elements } = ledger;
      for (let job = 1; job <= 1000; job++) {
        for (const path of ["changed", `gone-${String(job).padStart(4, "0")}`]) {
          elements.bear(file(path), { input: 0, job });
          elements.kill({ input: 0, path, job: job + 1 });
        }
      }
      elements.bear(file("changed"), { input: 0, job: 1001 });
      elements.bear(file("last"), { input: 0, job: 1001 });
      const statements = vi.spyOn(Sql.prototype, "execute");
      expect(elements.alive(0, "changed")?.path).toBe("changed");
      expect(elements.alive(0, "gone-0001")).toBeUndefined();
      expect(elements.aliveAfter({ input: 0, after: "changed", limit: 10 }).map(({ path }) => path)).toEqual([
        "last",
      ]);
      elements.kill({ input: 0, path: "changed", job: 1002 });
      const read = statements.mock.results.map(({ value }) => value.rowsRead as number);
      statements.mockRestore();
      expect(read.reduce((sum, rows) => sum + rows)).toBeLessThan(10);
      expect(elements.at({ input: 0, path: "changed", job: 1001 })?.path).toBe("changed");
    });
  });
});

describe("a job of a thousand datums that was called off", () => {
  it("leaves no list of its queue to whoever looks for work", async () => {
    await makeRepo("called-in");
    await makePipeline({ name: "called-off", globs: { "called-in": "/*" } });
    await runInDurableObject(env.PIPELINE.getByName("called-off"), (_, { storage }) => {
      const { attempts } = new Ledger(storage);
      const datums = Array.from({ length: 1000 }, (_, i) => ({ id: `d${1000 + i}`, key: `k${i}` }));
      for (const datum of datums) attempts.add(1, [datum]);
      attempts.add(2, [{ id: "other", key: "other" }]);
      expect(attempts.queued(2000)).toBe(1001);
      let after: string | null = "";
      while (after !== null) after = attempts.callOff(1, { after, limit: 100, now: 1 });
      const statements = vi.spyOn(Sql.prototype, "execute");
      expect(attempts.next(10, []).map(({ id }) => id)).toEqual(["other"]);
      const read = statements.mock.results.map(({ value }) => value.rowsRead as number);
      statements.mockRestore();
      expect(read.reduce((sum, rows) => sum + rows)).toBeLessThan(10);
    });
  });
});

/** Of each job whose end came to its commit: whether others had a turn since its own began. */
function turnsBeforeCommits(): boolean[] {
  const had: boolean[] = [];
  let isLater = false;
  const { beginTurn, setCommitting } = JobStore.prototype;
  vi.spyOn(JobStore.prototype, "beginTurn").mockImplementation(function (this: JobStore, ...args) {
    isLater = false;
    void scheduler.wait(0).then(() => {
      isLater = true;
    });
    return beginTurn.apply(this, args);
  });
  vi.spyOn(JobStore.prototype, "setCommitting").mockImplementation(function (this: JobStore, ...args) {
    had.push(isLater);
    return setCommitting.apply(this, args);
  });
  return had;
}

describe("the end of a job", () => {
  afterEach(() => vi.restoreAllMocks());

  it("writes all up to its commit in one turn if it changes little, so that it is flushed once", async () => {
    await makeRepo("little-in");
    const pipeline = await makePipeline({ name: "little", globs: { "little-in": "/*" } });
    await commit("little-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const had = turnsBeforeCommits();
    // No runner has anything to do for it.
    await commit("little-in", { a: null });
    await workUntil(pipeline, { jobs: 2 });
    expect(had).toEqual([false]);
  });

  it("lets others have their turn if it changes much", async () => {
    await makeRepo("much-in");
    const pipeline = await makePipeline({ name: "much", globs: { "much-in": "/*" } });
    const files = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`f${index}`, "x"]));
    await commit("much-in", files);
    await workUntil(pipeline, { jobs: 1, max: 50 });
    const had = turnsBeforeCommits();
    await commit("much-in", Object.fromEntries(Object.keys(files).map((path) => [path, null])));
    await workUntil(pipeline, { jobs: 2 });
    expect(had).toEqual([true]);
  });
});

describe("a commit of one file on many", () => {
  it("touches one datum", { ...REST, timeout: 60_000 }, async () => {
    await makeRepo("many-in");
    const files = Object.fromEntries(
      Array.from({ length: 5000 }, (_, index) => [`d${index % 50}/f${index}`, "x"]),
    );
    await commit("many-in", files);
    const pipeline = await makePipeline({ name: "many", globs: { "many-in": "/*/*" }, workers: 1 });
    await workUntil(pipeline, { jobs: 1, max: 64, command: () => ({}) });
    await commit("many-in", { "d7/f7": "y" });
    await workUntil(pipeline, { jobs: 2 });
    const [row] = await query(
      "many",
      `SELECT (SELECT count(*) FROM elements WHERE born = 2) AS elementsBorn,
         (SELECT count(*) FROM datums WHERE born = 2) AS datumsBorn,
         (SELECT count(*) FROM attempts WHERE job = 2) AS attempts,
         (SELECT count(*) FROM attempts) AS allAttempts`,
    );
    expect(row).toEqual({
      elementsBorn: 1,
      datumsBorn: 1,
      attempts: 1,
      allAttempts: 5001,
    });
    expect((await allJobs(pipeline))[1]?.datums).toEqual({
      total: 5000,
      processed: 1,
      skipped: 4999,
      failed: 0,
    });
  });
});
