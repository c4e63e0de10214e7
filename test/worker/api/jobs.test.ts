import { env } from "cloudflare:test";
import { encodeTime } from "ulid";
import { describe, expect, test, vi } from "vitest";
import {
  DatumPage,
  Job,
  JobPage,
  JobRetry,
  JobSummary,
  LogLine,
  Pipeline,
} from "../../../protocol/pipelines.ts";
import type { LeasedDatum } from "../../../protocol/runner.ts";
import { stepsOf } from "../../../worker/pipeline/views/job.ts";
import { api, commitFiles, failed, good, makeBranch, testContext } from "./support.ts";

function spec(name: string, more: object = {}): Record<string, unknown> {
  return {
    pipeline: { name },
    transform: { image: "busybox", cmd: ["true"] },
    parallelism_spec: { strategy: "CONSTANT", constant: 1 },
    inputs: [{ repo: { name: `${name}-in` }, glob: "/*" }],
    ...more,
  };
}

/** A pipeline with a commit of two files, of which a worker holds one. */
async function running(name: string, more: object = {}): Promise<{ worker: string; datum: LeasedDatum }> {
  const input = { repo: `${name}-in`, branch: "master" };
  await makeBranch(input);
  await good("POST /pipelines", { body: spec(name, more) });
  await commitFiles(input, { a: "1", b: "2" });
  const worker = `n1/${name}/0/x`;
  const body = { pipeline: name, node: "n1", worker, max: 1 };
  const { datums } = await good("POST /runner/lease", { body });
  return { worker, datum: datums[0] };
}

/** Asks until there is an answer: the catalogue, by which jobs are found and listed, may be a moment behind. */
async function soon<T>(ask: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    await scheduler.wait(10);
  }
}

async function known(job: string): Promise<void> {
  await soon(async () => ((await api(`GET /jobs/${job}`)).ok ? true : undefined));
}

describe("POST /jobs/{id}/stop", () => {
  test("kills a job, takes its leases away and answers the job; again it answers the same", async () => {
    const { worker, datum } = await running("halt");
    await known(datum.job);
    const job = Job.parse(await good(`POST /jobs/${datum.job}/stop`));
    expect(job).toMatchObject({
      id: datum.job,
      state: "killed",
      reason: "it was stopped",
      outputCommit: null,
    });
    expect(await good(`POST /jobs/${datum.job}/stop`)).toEqual(job);
    const renewal = { pipeline: "halt", worker, leases: [datum.lease] };
    expect(await good("POST /runner/renew", { body: renewal })).toEqual({ lost: [datum.lease] });
    const killed = await soon(async () => (await good("GET /jobs?state=killed&pipeline=halt")).jobs[0]);
    expect(killed.id).toBe(datum.job);
  });

  test("refuses a job that has ended, and one that is not there", async () => {
    const input = { repo: "over-in", branch: "master" };
    await makeBranch(input);
    await good("POST /pipelines", {
      body: spec("over", { inputs: [{ repo: { name: "over-in" }, glob: "/x*" }] }),
    });
    await commitFiles(input, { a: "1" });
    const id: string = await soon(
      async () => (await good("GET /jobs?pipeline=over&state=success")).jobs[0]?.id,
    );
    const error = await failed(`POST /jobs/${id}/stop`);
    expect(error).toMatchObject({ status: 409, code: "JobEnded" });
    expect(error.message).toContain(id);
    expect(await failed("POST /jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/stop")).toMatchObject({
      status: 404,
      code: "NoSuchJob",
    });
    expect(await failed(`GET /jobs/${id}/stop`)).toMatchObject({ status: 405 });
  });
});

describe("GET /jobs?state=", () => {
  /** Pipelines that may be asked for one page. */
  const MOST_ASKED = 50;

  test("has those that wait as waiting, and leaves them out of their states", async () => {
    const { datum } = await running("stands");
    await commitFiles({ repo: "stands-in", branch: "master" }, { c: "3" });
    const ids = async (state: string, more = "&pipeline=stands"): Promise<string[]> =>
      (await good(`GET /jobs?state=${state}${more}`)).jobs.map(({ id }: Job) => id);
    const [waits] = await soon(async () => {
      const waiting = await ids("waiting");
      return waiting.length > 0 ? waiting : undefined;
    });
    expect(waits).not.toBe(datum.job);
    expect(await ids("waiting", "")).toContain(waits);
    expect(await ids("running")).toEqual([datum.job]);
    expect(await ids("running", "")).not.toContain(waits);
    expect(await ids("starting")).toEqual([]);
    const { jobs } = await good("GET /jobs?pipeline=stands");
    expect(jobs).toMatchObject([{ id: waits, waitsFor: "job", reason: `behind job ${datum.job}` }, {}]);
    expect(["starting", "running"]).toContain(jobs[0].state);
    expect(await failed("GET /jobs?state=idle")).toMatchObject({
      ...{ status: 400, issues: [{ path: "state", message: expect.stringContaining("waiting") }] },
    });
  });

  test("ends a page before the 51st pipeline that would have to be asked", async () => {
    const id = (n: number): string => `7ZZZZZZZZZ${String(n).padStart(16, "0")}`;
    const at = Date.now();
    for (let n = 0; n <= MOST_ASKED; n++) {
      const job: Job = {
        ...{
          id: id(n),
          pipeline: `asked-${n}`,
          state: "running",
          reason: null,
          inputs: [],
          outputCommit: null,
        },
        ...{ version: 1, output: { repo: `asked-${n}`, branch: "master" } },
        datums: { total: 1, processed: 0, skipped: 0, failed: 0 },
        ...{ createdAt: at, startedAt: at, finishedAt: null },
      };
      await testContext().catalogue.jobs.record([{ job, version: 1 }], { uid: "u" });
    }
    const first = await good("GET /jobs?state=running&limit=1000");
    expect(first.jobs.length).toBe(MOST_ASKED);
    expect(first.next).toBe(id(1));
    const { jobs } = await good(`GET /jobs?state=running&after=${first.next}`);
    expect(jobs[0].id).toBe(id(0));
  });
});

describe("GET /jobs?search=&since=&before=", () => {
  const made = (at: number, n: number): string => `${encodeTime(at, 10)}${String(n).padStart(16, "0")}`;

  function failedJob(id: string, pipeline: string, reason: string): Job {
    return {
      ...{ id, pipeline, state: "failure", reason, inputs: [], outputCommit: null, version: 1 },
      output: { repo: pipeline, branch: "master" },
      datums: { total: 1, processed: 0, skipped: 0, failed: 1 },
      ...{ createdAt: 1, startedAt: 1, finishedAt: 2 },
    };
  }

  async function record(...jobs: Job[]): Promise<void> {
    for (let at = 0; at < jobs.length; at += 50) {
      const records = jobs.slice(at, at + 50).map((job) => ({ job, version: 1 }));
      await testContext().catalogue.jobs.record(records, { uid: "u" });
    }
  }

  const seeing = (...repos: string[]) => ({ caller: { scope: { level: "read", repos } } }) as const;
  const page = async (query: string, ...repos: string[]): Promise<JobPage> =>
    JobPage.parse(await good(`GET /jobs?${query}`, seeing(...repos)));
  const ids = ({ jobs }: JobPage): string[] => jobs.map(({ id }) => id);

  test("finds by the pipeline's name and by the reason, and by when a job was made", async () => {
    const [one, two, three] = [made(1000, 1), made(2000, 2), made(3000, 3)];
    await record(
      failedJob(one, "find-a", "exit code 4"),
      failedJob(two, "find-b", "No soup today"),
      failedJob(three, "find-soup", "exit code 4"),
    );
    const repos = ["find-a", "find-b", "find-soup"];
    const found = await page("search=soup", ...repos);
    expect([ids(found), found.next, found.looked]).toEqual([[three, two], null, { jobs: 3, since: 1000 }]);
    expect(ids(await page("search=SOUP&pipeline=find-b", ...repos))).toEqual([two]);
    expect(ids(await page("search=soup&before=3000", ...repos))).toEqual([two]);
    expect(ids(await page("search=code&state=failure&since=3000", ...repos))).toEqual([three]);
    expect(await page("search=code&state=success", ...repos)).toMatchObject({ jobs: [], next: null });
    const inTime = await page("since=1001&before=3000", ...repos);
    expect([ids(inTime), inTime]).toEqual([
      [two],
      expect.not.objectContaining({ looked: expect.anything() }),
    ]);
    expect(ids(await page("pipeline=find-a&before=1000", ...repos))).toEqual([]);
    expect((await page("search=soup", "find-a")).looked).toEqual({ jobs: 1, since: 1000 });
    const etag = (await api("GET /jobs", seeing(...repos))).headers.get("etag") ?? "";
    const again = { ...seeing(...repos), headers: { "if-none-match": etag } };
    expect((await api("GET /jobs", again)).status).toBe(304);
  });

  test("looks through 2,000 jobs a page, and goes on behind them and behind what a page shows", async () => {
    const jobs = Array.from({ length: 2003 }, (_, n) =>
      failedJob(made(5000, n), "long", n === 0 || n > 2000 ? "needle" : "hay"),
    );
    await record(...jobs);
    const first = await page("search=needle&limit=1", "long");
    expect([ids(first), first.looked]).toEqual([[made(5000, 2002)], { jobs: 1, since: 5000 }]);
    const second = await page(`search=needle&after=${first.next}`, "long");
    expect([ids(second), second.looked?.jobs]).toEqual([[made(5000, 2001)], 2001]);
    const third = await page(`search=needle&after=${second.next}`, "long");
    expect([ids(third), third.looked?.jobs, third.next]).toEqual([[made(5000, 0)], 2003, null]);
  });

  test("asks the catalogue once a page, whatever is asked, and reads no more than it looks through", async () => {
    const jobs = Array.from({ length: 2500 }, (_, n) => failedJob(made(7000, n), "counted", "hay"));
    await record(...jobs);
    const statements = Object.getPrototypeOf(env.DB.prepare("SELECT 1"));
    const { all } = statements;
    const read: number[] = [];
    vi.spyOn(statements, "all").mockImplementation(async function (this: unknown, ...args: unknown[]) {
      const answer = await all.apply(this, args);
      read.push(answer.meta.rows_read);
      return answer;
    });
    const rows = async (query: string, ...repos: string[]): Promise<number | undefined> => {
      read.length = 0;
      await (repos.length > 0 ? page(query, ...repos) : good(`GET /jobs?${query}`));
      expect(read, query).toHaveLength(1);
      return read[0];
    };
    const search = "search=needle&limit=50";
    const counts = {
      all: await rows("limit=50"),
      waiting: await rows("limit=50&state=waiting"),
      inTime: await rows("limit=50&state=failure&since=1&before=8000"),
      ofPipeline: await rows("limit=50&state=failure&pipeline=counted"),
      search: await rows(search),
      searchInState: await rows(`${search}&state=failure`),
      searchInPipeline: await rows(`${search}&pipeline=counted`),
      searchInOne: await rows(search, "counted"),
      searchInSome: await rows(search, "counted", "other", "third"),
      searchFinds: await rows("search=hay&limit=50"),
    };
    vi.restoreAllMocks();
    const most = { list: 51 * 2, search: 2000 * 2, some: 2000 * 8, finds: 500 };
    const few = 10;
    const bounds: Record<keyof typeof counts, number> = {
      ...{ all: most.list, waiting: most.list, inTime: most.list, ofPipeline: most.list },
      ...{ search: most.search, searchInState: most.search, searchInPipeline: most.search },
      ...{ searchInOne: most.search, searchInSome: most.some, searchFinds: most.finds },
    };
    for (const [name, bound] of Object.entries(bounds))
      expect(counts[name as keyof typeof counts], name).toBeLessThanOrEqual(bound + few);
  });

  test("ends behind the newest 10,000, wherever its pages ended", async () => {
    const few = Array.from({ length: 5 }, (_, n) => failedJob(made(6000, n), "end", "hay"));
    await record(...few);
    const last = await page(`search=needle&after=${made(6000, 4)}.9998`, "end");
    expect([last.jobs, last.next, last.looked?.jobs]).toEqual([[], null, 10_000]);
    const over = await page(`search=needle&after=${made(6000, 4)}.10000`, "end");
    expect([over.jobs, over.next, over.looked?.jobs]).toEqual([[], null, 10_000]);
  });

  test("says what is wrong with a request", async () => {
    for (const [query, path] of [
      ["search=", "search"],
      [`search=${"x".repeat(201)}`, "search"],
      ["since=yesterday", "since"],
      ["before=281474976710656", "before"],
    ] as const) {
      const issues = [{ path, message: expect.any(String) }];
      expect(await failed(`GET /jobs?${query}`)).toMatchObject({ status: 400, issues });
    }
  });
});

describe("POST /jobs/{id}/retry", () => {
  test("makes one job for what the inputs have now, and names the one that was the newest", async () => {
    const { worker, datum } = await running("redo", { datumTries: 1 });
    const failure = { state: "failed", blame: "datum", exitCode: 1, reason: "no", log: "", millis: 1 };
    const body = { pipeline: "redo", worker };
    await good("POST /runner/finish", { body: { ...body, outcomes: [{ lease: datum.lease, ...failure }] } });
    const next = await good("POST /runner/lease", { body: { ...body, node: "n1", max: 1 } });
    const rest = next.datums.map(({ lease }: LeasedDatum) => ({ lease, ...failure }));
    await good("POST /runner/finish", { body: { ...body, outcomes: rest } });
    await soon(async () => (await good("GET /jobs?state=failure&pipeline=redo")).jobs[0]);
    const response = await api(`POST /jobs/${datum.job}/retry`);
    expect(response.status).toBe(201);
    const { job, newest } = JobRetry.parse(await response.json());
    expect(newest).toBe(datum.job);
    expect(job).toMatchObject({ pipeline: "redo", finishedAt: null });
    expect(job.id > datum.job).toBe(true);

    const again = await failed(`POST /jobs/${job.id}/retry?datums=all`);
    expect(again).toMatchObject({ status: 409, code: "JobRunning" });
    expect(again.message).toContain(`sluice job stop ${job.id}`);
    await good("POST /pipelines/redo/stop");
    const stopped = await failed(`POST /jobs/${datum.job}/retry`);
    expect(stopped).toMatchObject({ status: 409, code: "PipelineStopped" });
    expect(stopped.message).toContain("sluice pipeline start redo");
  });

  test("says what is wrong with a request", async () => {
    const { datum } = await running("redone");
    await known(datum.job);
    expect(await failed(`POST /jobs/${datum.job}/retry?datums=some`)).toMatchObject({
      ...{ status: 400, issues: [{ path: "datums", message: "must be 'failed' or 'all'" }] },
    });
    expect(await failed(`POST /jobs/${datum.job}/retry?failed=true`)).toMatchObject({ status: 400 });
    expect(await failed("POST /jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/retry")).toMatchObject({
      status: 404,
      code: "NoSuchJob",
    });
    expect(await failed(`GET /jobs/${datum.job}/retry`)).toMatchObject({ status: 405 });
  });
});

describe("GET /jobs/{id}/summary", () => {
  test("puts the datums together: how long they ran, which were slowest, which failed with their last lines", async () => {
    const { worker, datum } = await running("sums", { datumTries: 1 });
    await known(datum.job);
    const ask = `GET /jobs/${datum.job}/summary`;
    expect(JobSummary.parse(await good(ask))).toMatchObject({
      job: { id: datum.job, state: "running", output: { repo: "sums", branch: "master" } },
      ...{ durations: null, slowest: [], failed: [] },
      steps: [{ name: "fill" }, { name: "queued" }, { name: "datums", to: null }],
    });
    const log = Array.from({ length: 30 }, (_, n) => `line ${n}`).join("\n");
    const failure = {
      state: "failed",
      blame: "datum",
      exitCode: 7,
      reason: "no luck",
      log: `${log}\n`,
      millis: 1,
    };
    const body = { pipeline: "sums", worker };
    await good("POST /runner/finish", { body: { ...body, outcomes: [{ lease: datum.lease, ...failure }] } });
    const { datums } = await good("POST /runner/lease", { body: { ...body, node: "n1", max: 1 } });
    const success = {
      state: "success",
      exitCode: 0,
      millis: 1500,
      ran: { executor: "process", image: null },
      outputs: [],
    };
    await good("POST /runner/finish", {
      body: { ...body, outcomes: [{ lease: datums[0].lease, ...success }] },
    });
    const summary = JobSummary.parse(await good(ask));
    expect(summary.durations).toEqual({
      ...{ count: 1, more: false, median: 1500, p95: 1500, longest: 1500 },
      buckets: [{ below: 2048, count: 1 }],
    });
    expect(summary.slowest).toMatchObject([{ id: datums[0].datum, node: "n1", millis: 1500 }]);
    expect(summary.failed).toMatchObject([
      { id: datum.datum, node: "n1", tries: 1, exitCode: 7, reason: "no luck" },
    ]);
    expect(summary.failed[0]?.inputs).toEqual([{ name: "sums-in", path: datum.inputs[0]?.path }]);
    expect(summary.failed[0]?.log).toEqual(Array.from({ length: 10 }, (_, n) => `line ${n + 20}`));
    // A job that has ended changes no more.
    await soon(async () => JobSummary.parse(await good(ask)).job.finishedAt ?? undefined);
    const etag = (await api(ask)).headers.get("etag") ?? "";
    expect((await api(ask, { headers: { "if-none-match": etag } })).status).toBe(304);
    expect(await failed("GET /jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/summary")).toMatchObject({ code: "NoSuchJob" });
  });
});

describe("what GET /jobs/{id}/summary says to compare", () => {
  /** Fails each datum that the worker gets, with what it printed by the path that it reads. */
  async function failAll(name: string, logOf: (path: string) => string): Promise<JobSummary> {
    const worker = `n1/${name}/0/x`;
    const lease = { pipeline: name, node: "n1", worker, max: 64 };
    const { datums } = await soon(async () => {
      const answer = await good("POST /runner/lease", { body: lease });
      return answer.datums.length > 0 ? answer : undefined;
    });
    await known(datums[0].job);
    const outcomes = datums.map(({ lease: held, inputs: [input] }: LeasedDatum) => ({
      ...{ lease: held, state: "failed", blame: "datum", exitCode: 4, millis: 1 },
      ...{ reason: "the command ended with exit code 4", log: logOf(input?.path ?? "") },
    }));
    await good("POST /runner/finish", { body: { pipeline: name, worker, outcomes } });
    return JobSummary.parse(await good(`GET /jobs/${datums[0].job}/summary`));
  }

  async function begin(name: string, files: Record<string, string>): Promise<void> {
    const input = { repo: `${name}-in`, branch: "master" };
    await makeBranch(input);
    await good("POST /pipelines", { body: spec(name, { datumTries: 1 }) });
    await commitFiles(input, files);
  }

  test("datums that failed in the same way are one group, whatever they are called", async () => {
    await begin("same", { a: "1", "b.txt": "2", "c.txt": "3", at: "4" });
    const { failures } = await failAll("same", (path) =>
      path === "at" ? "odd\n" : `begins\nno soup in /pfs/same-in/${path} at all\n`,
    );
    expect(failures).toMatchObject([
      {
        ...{ reason: "the command ended with exit code 4", exitCode: 4, count: 3 },
        line: "no soup in /pfs/same-in/… at all",
        datums: ["a", "b.txt", "c.txt"].map((path) => ({ inputs: [{ name: "same-in", path }], node: "n1" })),
        log: ["begins", "no soup in /pfs/same-in/a at all"],
      },
      { count: 1, line: "odd", datums: [{ inputs: [{ name: "same-in", path: "at" }] }] },
    ]);
  });

  test("a file whose name is a number has no part in an exit code", async () => {
    await begin("numbers", { "4": "1", "5": "2" });
    const { failures } = await failAll("numbers", (path) => `4 of 5 lines of /pfs/numbers-in/${path}\n`);
    expect(failures).toMatchObject([
      { reason: "the command ended with exit code 4", line: "4 of 5 lines of /pfs/numbers-in/…", count: 2 },
    ]);
  });

  test("what failed without a word is one group, too, and names at most 20", async () => {
    const files = Object.fromEntries(Array.from({ length: 25 }, (_, n) => [`f${n}`, String(n)]));
    await begin("mute", files);
    const { failures } = await failAll("mute", () => "");
    expect(failures).toMatchObject([{ count: 25, line: null, log: [] }]);
    expect(failures[0]?.datums).toHaveLength(20);
  });

  test("which datum runs where, and since when", async () => {
    const before = Date.now();
    const { datum } = await running("where");
    await known(datum.job);
    const { running: now } = JobSummary.parse(await good(`GET /jobs/${datum.job}/summary`));
    expect(now).toMatchObject({
      count: 1,
      datums: [{ id: datum.datum, node: "n1", inputs: [{ name: "where-in", path: datum.inputs[0]?.path }] }],
    });
    expect(now.datums[0]?.since).toBeGreaterThanOrEqual(before);
  });

  test("the first job after one that failed that succeeded", async () => {
    await begin("mends", { x: "1" });
    const { job, mended } = await failAll("mends", () => "");
    expect(mended).toBeUndefined();
    await commitFiles({ repo: "mends-in", branch: "master" }, { x: "2" });
    const worker = "n1/mends/0/x";
    const { datums } = await soon(async () => {
      const body = { pipeline: "mends", node: "n1", worker, max: 1 };
      const answer = await good("POST /runner/lease", { body });
      return answer.datums.length > 0 ? answer : undefined;
    });
    const done = { state: "success", exitCode: 0, millis: 1, ran: { executor: "process", image: null } };
    const outcomes = [{ lease: datums[0].lease, ...done, outputs: [] }];
    await good("POST /runner/finish", { body: { pipeline: "mends", worker, outcomes } });
    await known(datums[0].job);
    const summary = await soon(async () => {
      const answer = JobSummary.parse(await good(`GET /jobs/${job.id}/summary`));
      return answer.mended && answer;
    });
    const mender = Job.parse(await good(`GET /jobs/${datums[0].job}`));
    expect(summary.mended).toEqual({ job: mender.id, at: mender.finishedAt });
    const own = JobSummary.parse(await good(`GET /jobs/${mender.id}/summary`));
    expect([own.mended, own.lastGood]).toEqual([undefined, null]);
  });

  test("the last job before it that succeeded, with what that read", async () => {
    const input = { repo: "good-in", branch: "master" };
    await makeBranch(input);
    // What its glob does not match makes jobs that succeed by themselves.
    await good("POST /pipelines", {
      body: spec("good", { datumTries: 1, inputs: [{ repo: { name: "good-in" }, glob: "/x*" }] }),
    });
    await commitFiles(input, { a: "1" });
    const first: Job = await soon(async () => (await good("GET /jobs?pipeline=good&state=success")).jobs[0]);
    expect(JobSummary.parse(await good(`GET /jobs/${first.id}/summary`)).lastGood).toBeNull();
    await commitFiles(input, { x: "1" });
    const { job, lastGood } = await failAll("good", () => "");
    expect(lastGood).toEqual({
      ...{ id: first.id, version: 1, finishedAt: first.finishedAt, inputs: first.inputs },
    });
    expect(job.inputs[0]?.commit).not.toBe(first.inputs[0]?.commit);
  });
});

describe("the steps of a job", () => {
  const job = {
    ...{ createdAt: 1000, startedAt: null, turnAt: null, committingAt: null },
    ...{ finishedAt: null, outputCommit: null },
  };
  const counts = { open: 0, processed: 0, failed: 0 };
  const none = { first: null, last: null, pushes: false };
  /** A commit's id tells when it was made. */
  const commit = (at: number): string => `${encodeTime(at, 10)}0000000000000000`;
  const text = (...asked: Parameters<typeof stepsOf>): string =>
    stepsOf(...asked)
      .map(({ name, from, to }) => `${name} ${from}-${to ?? ""}`)
      .join(", ");

  test("are one after the other, and the last one goes on until the job ends", () => {
    expect(text({ ...job, ...counts }, none)).toBe("fill 1000-");
    const started = { ...job, startedAt: 1100 };
    const open = { ...counts, open: 2 };
    expect(text({ ...started, ...open }, none)).toBe("fill 1000-1100, queued 1100-");
    expect(text({ ...started, ...open }, { ...none, first: 1300 })).toBe(
      "fill 1000-1100, queued 1100-1300, datums 1300-",
    );
    const ran = { ...none, first: 1300, last: 1900 };
    expect(text({ ...started, ...counts, processed: 2 }, ran)).toBe(
      "fill 1000-1100, queued 1100-1300, datums 1300-1900, turn 1900-",
    );
    const done = { ...started, ...counts, processed: 2, turnAt: 1200, finishedAt: 2500 };
    const before = "fill 1000-1100, queued 1100-1300, datums 1300-1900";
    expect(text({ ...done, finishedAt: null }, ran)).toBe(`${before}, merge 1900-`);
    const merged = { ...done, committingAt: 1950 };
    expect(text({ ...merged, finishedAt: null }, ran)).toBe(`${before}, merge 1900-1950, commit 1950-`);
    expect(text({ ...merged, outputCommit: commit(2000) }, ran)).toBe(
      `${before}, merge 1900-1950, commit 1950-2500`,
    );
    expect(text({ ...merged, outputCommit: commit(2000) }, { ...ran, pushes: true })).toBe(
      `${before}, merge 1900-1950, commit 1950-2000, egress 2000-2500`,
    );
  });

  test("of a job that failed end with its datums, of one that ran none with its commit", () => {
    const failure = { ...job, ...counts, startedAt: 1100, turnAt: 1100, failed: 1, finishedAt: 2000 };
    // When they began is not known: that they ran is.
    expect(text(failure, { ...none, last: 1900 })).toBe("fill 1000-1100, datums 1100-2000");
    expect(text(failure, { ...none, first: 1200, last: 1900 })).toBe(
      "fill 1000-1100, queued 1100-1200, datums 1200-2000",
    );
    const skipped = {
      ...job,
      ...counts,
      startedAt: 1100,
      turnAt: 1400,
      committingAt: 1430,
      finishedAt: 1500,
    };
    expect(text({ ...skipped, outputCommit: commit(1450) }, none)).toBe(
      "fill 1000-1100, turn 1100-1400, merge 1400-1430, commit 1430-1500",
    );
  });

  test("never go back, whatever the clocks of branch and pipeline say", () => {
    const done = { ...job, ...counts, startedAt: 1100, turnAt: 1100, processed: 1, finishedAt: 2000 };
    const work = { first: 1050, last: 1900, pushes: true };
    expect(text({ ...done, committingAt: 1200, outputCommit: commit(9000) }, work)).toBe(
      "fill 1000-1100, queued 1100-1100, datums 1100-1900, merge 1900-1900, commit 1900-2000, egress 2000-2000",
    );
    // The clock was set back while the job went on.
    expect(text({ ...job, ...counts, open: 1, startedAt: 900 }, none)).toBe("fill 1000-1000, queued 1000-");
  });
});

describe("GET /jobs/{id}/datums and /logs", () => {
  test("tell of each datum how it ended, and what a failed one wrote", async () => {
    const { worker, datum } = await running("tell", { datumTries: 1 });
    await known(datum.job);
    const outcome = {
      lease: datum.lease,
      state: "failed",
      blame: "datum",
      exitCode: 7,
      reason: "no luck",
      log: "x\ny\n",
      millis: 1,
    };
    await good("POST /runner/finish", { body: { pipeline: "tell", worker, outcomes: [outcome] } });
    const page = DatumPage.parse(await good(`GET /jobs/${datum.job}/datums`));
    expect(page.datums.find(({ id }) => id === datum.datum)).toMatchObject({
      state: "failed",
      tries: 1,
      exitCode: 7,
      reason: "no luck",
      node: "n1",
      inputs: [{ name: "tell-in", path: datum.inputs[0]?.path, commit: datum.inputs[0]?.commit }],
    });
    expect(page.datums.map(({ state }) => state).sort()).toEqual(["failed", "queued"]);
    for (const query of ["", `?datum=${datum.datum}`]) {
      const response = await api(`GET /jobs/${datum.job}/logs${query}`);
      expect(response.headers.get("content-type")).toBe("application/x-ndjson");
      const lines = (await response.text())
        .trimEnd()
        .split("\n")
        .map((line) => LogLine.parse(JSON.parse(line)));
      const kept = { datum: datum.datum, node: "n1", at: expect.any(Number), next: expect.any(String) };
      const inputs = [{ name: "tell-in", path: datum.inputs[0]?.path }];
      expect(lines).toEqual([
        { ...kept, line: "x", inputs },
        { ...kept, line: "y" },
      ]);
    }
  });

  test("tell why each was run, and what changed only to keys that may read all of the inputs", async () => {
    const { datum } = await running("reasons");
    await commitFiles({ repo: "reasons-in", branch: "master" }, { a: "11" });
    const second = await soon(async (): Promise<string | undefined> => {
      const [job] = (await good("GET /jobs?pipeline=reasons")).jobs;
      return job.id !== datum.job && job.state === "running" ? job.id : undefined;
    });
    await known(second);
    const whyOf = async (target: string, call = {}) => {
      const { datums } = DatumPage.parse(await good(target, call));
      return datums.find(({ inputs }) => inputs[0]?.path === "a")?.why;
    };
    const target = `GET /jobs/${second}/datums?why=true`;
    const change = { input: "reasons-in", path: "a", before: { size: 1 }, after: { size: 2 } };
    const keyFor = (repos: string[]) => ({ caller: { scope: { level: "read" as const, repos } } });
    for (const call of [{}, keyFor(["reasons", "reasons-in"])]) {
      expect(await whyOf(target, call)).toMatchObject([
        { reason: "changed", changes: [change], more: false },
      ]);
    }
    expect(await whyOf(target, keyFor(["reasons"]))).toEqual([
      { reason: "changed", changes: [], more: true, hidden: true },
    ]);
    expect(await whyOf(`GET /jobs/${second}/datums`)).toBeUndefined();
    expect(await whyOf(`GET /jobs/${datum.job}/datums?why=true`)).toEqual([
      { reason: "new", inputs: [{ name: "reasons-in", path: "a" }] },
    ]);
  });

  test("are asked for within bounds", async () => {
    const { datum } = await running("bound");
    await known(datum.job);
    for (const [target, path] of [
      ["datums?limit=0", "limit"],
      ["datums?limit=1001", "limit"],
      ["datums?after=zzz", "after"],
      ["datums?after=r%3D%25", "after"],
      ["datums?state=failed", "state"],
      ["datums?why=yes", "why"],
      ["logs?follow=yes", "follow"],
      ["logs?after=zzz", "after"],
      ["logs?datum=", "datum"],
      ["logs?tail=0", "tail"],
      ["logs?tail=5&after=1.1", "tail"],
    ] as const)
      expect(await failed(`GET /jobs/${datum.job}/${target}`)).toMatchObject({
        status: 400,
        issues: [{ path }],
      });
    expect(await failed(`GET /jobs/${datum.job}/logs?datum=none`)).toMatchObject({ status: 404 });
    expect(await failed("GET /jobs/nope/datums")).toMatchObject({ status: 404, code: "NoSuchJob" });
    expect(await failed("GET /jobs/nope/logs")).toMatchObject({ status: 404, code: "NoSuchJob" });
  });
});

describe("POST /pipelines/{name}/stop and /start", () => {
  test("show the state, also in lists, and may be repeated", async () => {
    const { datum } = await running("rest");
    const stopped = Pipeline.parse(await good("POST /pipelines/rest/stop"));
    expect(stopped).toMatchObject({ name: "rest", state: "stopped" });
    expect(await good("POST /pipelines/rest/stop")).toEqual(stopped);
    expect(await good("GET /pipelines/rest")).toMatchObject({ state: "stopped" });
    const listed = (await good("GET /pipelines")).pipelines.find(
      ({ name }: { name: string }) => name === "rest",
    );
    expect(listed).toMatchObject({ state: "stopped" });
    await known(datum.job);
    expect(await good(`GET /jobs/${datum.job}`)).toMatchObject({ state: "killed" });
    const beat = { node: "n1", executor: "process", capacity: 1 };
    expect((await good("POST /runner/heartbeat", { body: beat })).workers).not.toContainEqual(
      expect.objectContaining({ pipeline: "rest" }),
    );
    expect(await good("POST /pipelines/rest/start")).toMatchObject({ state: "active" });
    expect((await good("POST /runner/heartbeat", { body: beat })).workers).toContainEqual(
      expect.objectContaining({ pipeline: "rest", count: 1 }),
    );
  });

  test("are refused for what is not there, and with a query", async () => {
    for (const verb of ["stop", "start"]) {
      expect(await failed(`POST /pipelines/absent/${verb}`)).toMatchObject({
        status: 404,
        code: "NoSuchPipeline",
      });
      expect(await failed(`POST /pipelines/absent/${verb}?now=1`)).toMatchObject({ status: 400 });
    }
  });
});

describe("POST /pipelines?update=true", () => {
  test("makes the next version of a pipeline", async () => {
    await running("next");
    const body = spec("next", { transform: { image: "busybox", cmd: ["false"] } });
    const updated = await api("POST /pipelines?update=true", { body });
    expect(updated.status).toBe(200);
    expect(Pipeline.parse(await updated.json())).toMatchObject({ version: 2, state: "active" });
    expect(await good("POST /pipelines?update=true", { body })).toMatchObject({ version: 2 });
    expect(await good("POST /pipelines?update=true&reprocess=true", { body })).toMatchObject({ version: 3 });
  });

  test("can't move the output, and needs a pipeline", async () => {
    await running("move");
    const error = await failed("POST /pipelines?update=true", {
      body: spec("move", { outputBranch: "other" }),
    });
    expect(error).toMatchObject({ status: 400, code: "InvalidSpec", issues: [{ path: "outputBranch" }] });
    await makeBranch({ repo: "none-in", branch: "master" });
    expect(await failed("POST /pipelines?update=true", { body: spec("none") })).toMatchObject({
      status: 404,
      code: "NoSuchPipeline",
    });
  });
});

describe("DELETE /pipelines/{name}?force=true", () => {
  test("takes the output from under the pipeline that reads it, which goes on with nothing", async () => {
    await makeBranch({ repo: "up-in", branch: "master" });
    await good("POST /pipelines", { body: spec("up") });
    await good("POST /pipelines", {
      body: spec("down", { inputs: [{ repo: { name: "up" }, glob: "/*" }] }),
    });
    const error = await failed("DELETE /pipelines/up");
    expect(error).toMatchObject({ status: 409, code: "InUse" });
    expect(error.message).toContain("force=true");
    await good("DELETE /pipelines/up?force=true");
    expect(await failed("GET /pipelines/up")).toMatchObject({ status: 404 });
    expect(await good("GET /pipelines/down")).toMatchObject({ state: "active" });
  });
});
