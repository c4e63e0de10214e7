import { encodeTime } from "ulid";
import { describe, expect, test } from "vitest";
import {
  type Job,
  Overview,
  PipelineGraph,
  PipelineList,
  PipelineSummary,
} from "../../../protocol/pipelines.ts";
import { api, commitFiles, failed, good, makeBranch, testContext } from "./support.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

function job(id: string, more: Partial<Job> & Pick<Job, "pipeline" | "state">): Job {
  const at = Date.now();
  return {
    ...{ id, reason: null, inputs: [], outputCommit: null, createdAt: at, startedAt: at, finishedAt: null },
    datums: { total: 1, processed: 0, skipped: 0, failed: 0 },
    ...{ version: 1, output: { repo: more.pipeline, branch: "master" } },
    ...more,
  };
}

async function record(...jobs: Job[]): Promise<void> {
  for (const one of jobs) await testContext().catalogue.jobs.record([{ job: one, version: 1 }], { uid: "u" });
}

async function now(repos: readonly string[] | null): Promise<Overview> {
  const caller = { scope: { level: "read", repos } } as const;
  return Overview.parse(await good("GET /now", { caller }));
}

/** The job of a new pipeline, which waits for a runner with two datums. */
async function waitingJob(pipeline: string): Promise<Job> {
  const input = { repo: `${pipeline}-in`, branch: "master" };
  await makeBranch(input);
  const spec = {
    pipeline: { name: pipeline },
    transform: { image: "busybox", cmd: ["true"] },
    inputs: [{ repo: { name: input.repo }, glob: "/*" }],
  };
  await good("POST /pipelines", { body: spec });
  await commitFiles(input, { a: "1", b: "2" });
  for (;;) {
    const [waiting] = (await now([pipeline])).underWay;
    if (waiting?.reason?.startsWith("no live runner")) return waiting;
    await scheduler.wait(10);
  }
}

/** What the catalogue says of a job from now on is as if it had just been made. */
async function lagBehind(job: Job): Promise<void> {
  const datums = { total: 0, processed: 0, skipped: 0, failed: 0 };
  const old = { ...job, state: "starting", reason: null, startedAt: null, datums } as const;
  await testContext().catalogue.jobs.record([{ job: old, version: 1_000_000 }], { uid: "u" });
}

const ids = (jobs: readonly { id: string }[]): string[] => jobs.map(({ id }) => id);

describe("GET /now", () => {
  test("shows what has not ended, what failed in the last day and what ended last, newest first", async () => {
    const finishedAt = Date.now();
    await record(
      job("01NOW1", { pipeline: "a", state: "success", finishedAt }),
      job("01NOW2", { pipeline: "a", state: "failure", reason: "no luck", finishedAt }),
      job("01NOW3", { pipeline: "a", state: "running" }),
      job("01NOW4", { pipeline: "a", state: "starting" }),
      job("01NOW5", { pipeline: "a", state: "egressing" }),
      job("01NOW6", { pipeline: "a", state: "failure", finishedAt: finishedAt - DAY_MS - 1 }),
      job("01NOW7", { pipeline: "other", state: "failure", finishedAt }),
    );
    const shown = await now(["a"]);
    expect(ids(shown.underWay)).toEqual(["01NOW5", "01NOW4", "01NOW3"]);
    expect(shown.failed).toMatchObject([{ id: "01NOW2", reason: "no luck" }]);
    expect(ids(shown.ended)).toEqual(["01NOW6", "01NOW2", "01NOW1"]);
    expect(shown.more).toEqual({ underWay: false, failed: false });
    expect(shown.nodes).toBe(null);
    const all = await now(null);
    expect(ids(all.failed)).toContain("01NOW7");
    expect(all.nodes).toMatchObject({ running: 0 });
  });

  test("says why a job waits, and which pipelines are stopped", async () => {
    await waitingJob("now-waits");
    expect((await now(["now-waits"])).pipelines).toEqual({ total: 1, stopped: [] });
    await good("POST /pipelines/now-waits/stop");
    for (;;) {
      const { pipelines } = await now(["now-waits"]);
      if (pipelines.stopped.includes("now-waits")) break;
      await scheduler.wait(10);
    }
  });

  test("takes all of a job from its pipeline, however far behind the catalogue is", async () => {
    const live = await waitingJob("now-lags");
    expect(live).toMatchObject({ state: "running", datums: { total: 2 } });
    await lagBehind(live);
    expect((await now(["now-lags"])).underWay).toEqual([live]);
  });

  test("shows at most 100 jobs that have not ended, and says that there are more", async () => {
    await record(
      ...Array.from({ length: 101 }, (_, n) =>
        job(`01MANY${String(n).padStart(3, "0")}`, { pipeline: "many", state: "running" }),
      ),
    );
    const shown = await now(["many"]);
    expect(shown.underWay).toHaveLength(100);
    expect(shown.underWay[0]?.id).toBe("01MANY100");
    expect(shown.more.underWay).toBe(true);
  });

  test("counts what failed in the last day also beyond what it shows, of the repos that the key may read", async () => {
    const at = Date.now();
    const id = (time: number, n: number): string => `${encodeTime(time, 10)}${String(n).padStart(16, "0")}`;
    const failures = (pipeline: string, from: number, count: number, time: number): Job[] =>
      Array.from({ length: count }, (_, n) =>
        job(id(time, from + n), { pipeline, state: "failure", finishedAt: time }),
      );
    await record(
      ...failures("fails", 0, 53, at),
      ...failures("fails-too", 100, 2, at),
      ...failures("fails", 200, 3, at - 2 * DAY_MS),
    );
    const shown = await now(["fails"]);
    expect([shown.failed.length, shown.failedCount, shown.more.failed]).toEqual([50, 53, true]);
    const few = await now(["fails-too"]);
    expect([few.failed.length, few.failedCount, few.more.failed]).toEqual([2, 2, false]);
    expect((await now(null)).failedCount).toBeGreaterThanOrEqual(55);
  });

  test("says which of the jobs that failed a later one of the pipeline mended, and since when", async () => {
    const finishedAt = Date.now();
    await record(
      job("01MEND1", { pipeline: "mends", state: "failure", finishedAt }),
      job("01MEND2", { pipeline: "mends-not", state: "success", finishedAt }),
      job("01MEND3", { pipeline: "mends", state: "success", finishedAt: finishedAt + 7 }),
      job("01MEND4", { pipeline: "mends", state: "failure", finishedAt }),
    );
    const { failed: bad } = await now(["mends", "mends-not"]);
    expect(bad.map(({ id, mended }) => [id, mended])).toEqual([
      ["01MEND4", undefined],
      ["01MEND1", { job: "01MEND3", at: finishedAt + 7 }],
    ]);
  });

  test("is 304 to who has it already, until something is new", async () => {
    await record(job("01TAG1", { pipeline: "tagged", state: "running" }));
    const caller = { scope: { level: "read", repos: ["tagged"] } } as const;
    const etag = (await api("GET /now", { caller })).headers.get("etag") ?? "";
    const headers = { "if-none-match": etag };
    const same = await api("GET /now", { caller, headers });
    expect([same.status, await same.text(), same.headers.get("etag")]).toEqual([304, "", etag]);
    await record(job("01TAG2", { pipeline: "tagged", state: "running" }));
    expect((await api("GET /now", { caller, headers })).status).toBe(200);
  });

  test("takes no parameter", async () => {
    expect((await api("GET /now?since=1")).status).toBe(400);
  });
});

describe("how pipelines stand", () => {
  const seeing = (...repos: string[]) => ({ caller: { scope: { level: "read", repos } } }) as const;

  async function makePipeline(name: string, inputs: readonly string[], more: object = {}): Promise<void> {
    const body = {
      pipeline: { name },
      transform: { image: "busybox", cmd: ["true"] },
      inputs: inputs.map((repo) => ({ repo: { name: repo }, glob: "/*" })),
      ...more,
    };
    await good("POST /pipelines", { body });
  }

  async function graph(...repos: string[]): Promise<PipelineGraph["pipelines"]> {
    return PipelineGraph.parse(await good("GET /graph", seeing(...repos))).pipelines;
  }

  test("GET /graph shows what feeds what, with each pipeline's newest job", async () => {
    for (const repo of ["g-in", "g-masks"]) await makeBranch({ repo, branch: "master" });
    await makePipeline("g-edges", ["g-in"], { onDatumFailure: "skip" });
    await makePipeline("g-montage", ["g-edges", "g-masks"]);
    const finishedAt = Date.now();
    await record(
      job("01GRA1", { pipeline: "g-edges", state: "failure", finishedAt }),
      job("01GRA2", { pipeline: "g-edges", state: "success", finishedAt }),
    );
    expect(await graph("g-edges", "g-montage", "g-none")).toMatchObject([
      {
        ...{ name: "g-edges", inputs: ["master.g-in"], outputs: ["master.g-edges", "errors.g-edges"] },
        job: { id: "01GRA2", state: "success", finishedAt },
      },
      { name: "g-montage", inputs: ["master.g-edges", "master.g-masks"], outputs: ["master.g-montage"] },
    ]);
    const [alone, ...others] = await graph("g-montage");
    expect([alone?.name, alone?.job, others]).toEqual(["g-montage", undefined, []]);
  });

  test("GET /graph says what is under way: the oldest job that has not ended, and what it waits for", async () => {
    await makeBranch({ repo: "g-wait-in", branch: "master" });
    await makePipeline("g-waits", ["g-wait-in"]);
    await commitFiles({ repo: "g-wait-in", branch: "master" }, { a: "1" });
    await commitFiles({ repo: "g-wait-in", branch: "master" }, { b: "2" });
    for (;;) {
      const [waits] = await graph("g-waits");
      if (waits?.underWay?.jobs === 2 && waits.underWay.reason?.startsWith("no live runner")) break;
      await scheduler.wait(10);
    }
  });

  test("a job that the catalogue has as it was is told as its pipeline knows it, in all lists", async () => {
    const live = await waitingJob("g-lags");
    await lagBehind(live);
    const { id, state, reason, waitsFor } = live;
    expect((await graph("g-lags"))[0]?.underWay).toEqual({ id, state, reason, waitsFor, jobs: 1 });
    const listed = async (query: string): Promise<Job[]> =>
      (await good(`GET /jobs${query}`, seeing("g-lags"))).jobs;
    expect(await listed("")).toEqual([live]);
    expect(await listed("?state=starting")).toEqual([]);
  });

  test("GET /graph is 304 to who has it already, until a job is made, and takes no parameter", async () => {
    await makeBranch({ repo: "g-tag-in", branch: "master" });
    await makePipeline("g-tag", ["g-tag-in"]);
    const etag = (await api("GET /graph", seeing("g-tag"))).headers.get("etag") ?? "";
    const again = { ...seeing("g-tag"), headers: { "if-none-match": etag } };
    expect((await api("GET /graph", again)).status).toBe(304);
    await record(job("01GTAG", { pipeline: "g-tag", state: "running" }));
    expect((await api("GET /graph", again)).status).toBe(200);
    expect((await failed("GET /graph?depth=1")).status).toBe(400);
  });

  test("GET /pipelines with runs shows the last jobs of each, in pages, and finds names", async () => {
    await makeBranch({ repo: "l-in", branch: "master" });
    const names = ["l-a", "l-b", "l-c"];
    for (const name of names) await makePipeline(name, ["l-in"]);
    await record(
      ...["1", "2", "3"].map((n) => job(`01LIST${n}`, { pipeline: "l-a", state: "success" })),
      job("01LIST4", { pipeline: "l-b", state: "running" }),
    );
    const list = async (query: string) =>
      PipelineList.parse(await good(`GET /pipelines?${query}`, seeing(...names)));
    const first = await list("runs=2&limit=2");
    expect(first.pipelines.map(({ name, runs }) => [name, ids(runs ?? [])])).toEqual([
      ["l-a", ["01LIST3", "01LIST2"]],
      ["l-b", ["01LIST4"]],
    ]);
    expect(first.pipelines[1]?.underWay).toMatchObject({ id: "01LIST4", jobs: 1 });
    expect([first.next, first.total]).toEqual(["l-b", 3]);
    const second = await list("runs=2&limit=2&after=l-b");
    expect([second.pipelines.map(({ name }) => name), second.next, second.total]).toEqual([["l-c"], null, 3]);
    expect((await list("search=L-C")).pipelines).toMatchObject([{ name: "l-c" }]);
    expect((await list("search=L-C")).pipelines[0]).not.toHaveProperty("runs");
    expect((await failed("GET /pipelines?runs=31")).status).toBe(400);
    expect((await failed("GET /pipelines?runs=1&limit=51")).status).toBe(400);
  });

  test("GET /pipelines/{name}/summary has its jobs, and its neighbours that the key may read", async () => {
    await makeBranch({ repo: "s-in", branch: "master" });
    await makePipeline("s-first", ["s-in"]);
    await makePipeline("s-mid", ["s-first"]);
    await makePipeline("s-last", ["s-mid"]);
    const summary = async (...repos: string[]) =>
      PipelineSummary.parse(await good("GET /pipelines/s-mid/summary", seeing(...repos)));
    const all = await summary("s-first", "s-mid", "s-last");
    expect(all).toMatchObject({
      pipeline: {
        name: "s-mid",
        version: 1,
        reason: expect.stringContaining("its first job waits for data"),
      },
      ...{ jobs: [], more: false },
      makers: [{ bucket: "master.s-first", pipeline: "s-first" }],
      readers: [{ bucket: "master.s-mid", pipeline: "s-last" }],
    });
    expect(await summary("s-mid")).toMatchObject({ makers: [], readers: [] });
    expect((await failed("GET /pipelines/s-gone/summary")).code).toBe("NoSuchPipeline");
    const { headers } = await api("GET /pipelines/s-mid/summary");
    const asked = { headers: { "if-none-match": headers.get("etag") ?? "" } };
    expect((await api("GET /pipelines/s-mid/summary", asked)).status).toBe(304);
  });
});
