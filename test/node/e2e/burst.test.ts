// @module-tag rest
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Control } from "../../support/control.ts";
import { type DevServer, startDevServer, startRunner } from "../../support/dev-server.ts";
import { FakeRunner, nameOf, smallOutput, succeeded } from "../../support/fake-runner.ts";
import { S3 } from "../../support/s3.ts";

const COMMITS = 1000;
/** PUTs under way at once. */
const WRITERS = 16;

let server: DevServer;
let s3: S3;
let control: Control;
beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  control = new Control(server);
});
afterAll(() => server?.stop());

describe("a burst of 1,000 commits of one file each, and two runners", { timeout: 240_000 }, () => {
  test("ends with 1,000 jobs, right counters and every file, with real runners", async () => {
    await s3.createBucket("master.real");
    await control.createPipeline(copySpec("real-copy", "real"));
    const runners = ["one", "two"].map((node) => startRunner(server, { node }));
    try {
      await putAll("real");
      await expectAllDone("real-copy");
    } finally {
      await Promise.all(runners.map((runner) => runner.stop()));
    }
  });

  test("never answers a lease call empty while a datum is queued", async () => {
    await s3.createBucket("master.fake");
    await control.createPipeline(copySpec("fake-copy", "fake"));
    const runners = ["three", "four"].map((node) => new FakeRunner(server, { node }));
    await Promise.all(runners.map((runner) => runner.heartbeat()));
    const over = new AbortController();
    let done = 0;
    let empty = 0;
    // All the commits are made before the first lease, so that until the last datum is out, some are queued.
    await putAll("fake");
    const work = async (runner: FakeRunner): Promise<void> => {
      while (done < COMMITS) {
        const lease = runner.lease("fake-copy", { max: 16, signal: over.signal });
        const { slot, datums } = await lease.catch((error) => {
          if (over.signal.aborted) return { slot: true, datums: [] };
          throw error;
        });
        if (over.signal.aborted) return;
        if (datums.length === 0) {
          if (slot) empty++;
          continue;
        }
        const outcomes = datums.map((datum) => succeeded(datum, [smallOutput(nameOf(datum).slice(5), "x")]));
        expect(await runner.finish("fake-copy", outcomes)).toEqual([]);
        done += datums.length;
        await runner.heartbeat();
      }
      over.abort();
    };
    await Promise.all(runners.map(work));
    expect(empty).toBe(0);
    expect(done).toBe(COMMITS);
    await expectAllDone("fake-copy");
  });
});

async function putAll(repo: string): Promise<void> {
  const numbers = Array.from({ length: COMMITS }, (_, n) => n).values();
  const writer = async (): Promise<void> => {
    for (const n of numbers) await s3.put(`master.${repo}`, `file-${n}`, `content ${n}\n`);
  };
  await Promise.all(Array.from({ length: WRITERS }, writer));
}

async function expectAllDone(pipeline: string): Promise<void> {
  const jobs = await control.ended(pipeline, { count: COMMITS, withinMs: 180_000 });
  const states = new Set(jobs.map(({ state, datums }) => `${state}, ${datums.failed} failed`));
  expect([...states]).toEqual(["success, 0 failed"]);
  // Each job sees one file more than the one before.
  expect(jobs.map(({ datums }) => datums.total)).toEqual(jobs.map((_, n) => n + 1));
  expect(jobs.reduce((sum, { datums }) => sum + datums.processed, 0)).toBe(COMMITS);
  for (const { datums } of jobs) expect(datums.processed + datums.skipped).toBe(datums.total);
  expect(new Set(jobs.map(({ outputCommit }) => outputCommit)).size).toBe(COMMITS);

  const keys = await s3.keys(`master.${pipeline}`);
  expect(keys).toHaveLength(COMMITS);
  expect(await s3.headCommit(`master.${pipeline}`)).toBe(jobs.at(-1)?.outputCommit);
}

function copySpec(name: string, repo: string): object {
  return {
    pipeline: { name },
    transform: { image: "busybox", cmd: ["sh"], stdin: [`cp /pfs/${repo}/* /pfs/out/`] },
    inputs: [{ repo: { name: repo }, glob: "/*" }],
  };
}
