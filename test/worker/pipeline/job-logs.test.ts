import { describe, expect, it } from "vitest";
import type { LeasedDatum } from "../../../protocol/runner.ts";
import type { LogPage, PipelineApi } from "../../../worker/pipeline/contract.ts";
import { KEPT_JOBS } from "../../../worker/pipeline/jobs/job-store.ts";
import { killPipeline } from "./kill.ts";
import {
  allJobs,
  commit,
  expireLeases,
  leaseSome,
  makePipeline,
  makeRepo,
  outcomeOf,
  pathsOf,
  pipelineOf,
  query,
  specOf,
  workUntil,
} from "./support.ts";

async function made(name: string, files: Readonly<Record<string, string>>): Promise<PipelineApi> {
  await makeRepo(`${name}-in`);
  const pipeline = await makePipeline({ name, globs: { [`${name}-in`]: "/*" }, more: { datumTries: 1 } });
  await commit(`${name}-in`, files);
  return pipeline;
}

const entry = (lease: string, seq: number, ...texts: string[]) => ({
  ...{ lease, seq, dropped: 0 },
  lines: texts.map((text): [number, string] => [0, text]),
});

const print = (pipeline: PipelineApi, { lease }: LeasedDatum, seq: number, ...texts: string[]) =>
  pipeline.logs.add({ worker: "w1", entries: [entry(lease, seq, ...texts)] });

async function pages(
  pipeline: PipelineApi,
  which: { job: string; datum?: string },
  { after = null, waitMs = null }: { after?: string | null; waitMs?: number | null } = {},
): Promise<LogPage[]> {
  const found: LogPage[] = [];
  for (let place = after; ; ) {
    const page = await pipeline.logs.read({ ...which, after: place, waitMs });
    if (!page.ok) throw new Error(page.reason);
    found.push(page);
    place = page.after;
    if (page.rest !== "more") return found;
  }
}

/** What is shown, line by line. */
async function textsOf(...asked: Parameters<typeof pages>): Promise<string[]> {
  return (await pages(...asked)).flatMap(({ chunks }) =>
    chunks.flatMap(({ lines, seen }) => lines.slice(seen).map(([, text]) => text)),
  );
}

/** Ends what a worker has leased. */
async function finish(
  pipeline: PipelineApi,
  datums: readonly LeasedDatum[],
  how: "fail" | "write" = "write",
): Promise<void> {
  const output = await pipeline.leases.output();
  if (!output) throw new Error("no output");
  const command = (datum: LeasedDatum) => (how === "fail" ? how : { [pathsOf(datum)[0] ?? ""]: "x" });
  const outcomes = await Promise.all(datums.map((datum) => outcomeOf(datum, { command, output })));
  const { lost } = await pipeline.leases.finish({ worker: "w1", outcomes });
  if (lost.length > 0) throw new Error("lost");
}

describe("what a lease prints", () => {
  it("is the job's, in the order in which it came, and stays when the datum has succeeded and the object died", async () => {
    const pipeline = await made("keep", { a: "1", b: "1" });
    const [a, b] = (await leaseSome(pipeline)).datums;
    if (!a || !b) throw new Error("too few datums");
    expect(await print(pipeline, a, 0, "a one")).toEqual({ lost: [] });
    await print(pipeline, b, 0, "b one", "b two");
    await print(pipeline, a, 1, "a two");
    await print(pipeline, a, 1, "a two");
    await finish(pipeline, [a, b]);
    await workUntil(pipeline, { jobs: 1 });
    await killPipeline("keep");
    expect(await textsOf(pipelineOf("keep"), { job: a.job })).toEqual(["a one", "b one", "b two", "a two"]);
    const own = await pages(pipelineOf("keep"), { job: a.job, datum: b.datum });
    expect(own).toMatchObject([
      { chunks: [{ datum: b.datum, node: "n1", dropped: 0, at: expect.any(Number) }], rest: "more" },
      { chunks: [], rest: "none" },
    ]);
  });

  it("is refused once the lease is lost, its datum is settled, or its job has ended", async () => {
    const pipeline = await made("fence", { a: "1" });
    const [first] = (await leaseSome(pipeline)).datums;
    if (!first) throw new Error("no datum");
    await print(pipeline, first, 0, "in time");
    await expireLeases("fence");
    expect(await print(pipeline, first, 1, "late")).toEqual({ lost: [first.lease] });
    const [second] = (await leaseSome(pipeline)).datums;
    if (!second) throw new Error("no datum");
    expect(await print(pipeline, first, 1, "late")).toEqual({ lost: [first.lease] });
    await print(pipeline, second, 0, "again");
    await pipeline.jobs.stop(second.job);
    const both = [entry("none", 0, "x"), entry(second.lease, 1, "stopped"), entry("none", 1, "y")];
    const { lost } = await pipeline.logs.add({ worker: "w1", entries: both });
    expect(lost.sort()).toEqual([second.lease, "none"].sort());
    expect(await textsOf(pipeline, { job: first.job })).toEqual(["in time", "again"]);
  });

  it("is nothing to a task: its lease is not lost for it", async () => {
    const pipeline = await made("task", { a: "1", b: "1" });
    const { datums, output } = await leaseSome(pipeline);
    const outcomes = await Promise.all(
      datums.map((datum) => outcomeOf(datum, { command: () => ({ same: datum.datum }), output })),
    );
    await pipeline.leases.finish({ worker: "w1", outcomes });
    const leased = await pipeline.leases.take({ node: "n1", worker: "w1", max: 1, waitMs: 10_000 });
    const task = leased.ok ? leased.tasks[0] : undefined;
    if (!task) throw new Error("no task");
    const entries = [entry(task.lease, 0, "merging")];
    expect(await pipeline.logs.add({ worker: "w1", entries })).toEqual({ lost: [] });
    expect(await textsOf(pipeline, { job: task.job })).toEqual([]);
  });

  it("is lost with a pipeline that is stopped or gone, and a new one of the name has none of it", async () => {
    const pipeline = await made("gone", { a: "1" });
    const [datum] = (await leaseSome(pipeline)).datums;
    if (!datum) throw new Error("no datum");
    await print(pipeline, datum, 0, "before");
    await pipeline.lifecycle.stop();
    expect(await print(pipeline, datum, 1, "after")).toEqual({ lost: [datum.lease] });
    await pipeline.lifecycle.destroy({ keepOutput: false });
    expect(await print(pipeline, datum, 1, "after")).toEqual({ lost: [datum.lease] });
    for (const table of ["log_chunks", "log_datums", "log_store"])
      expect(await query("gone", `SELECT * FROM ${table}`)).toEqual([]);
    expect(await pipeline.logs.read({ job: datum.job, after: null, waitMs: null })).toEqual({
      ok: false,
      reason: "no-such-job",
    });
    await pipelineOf("gone").lifecycle.create(specOf({ name: "gone", globs: { "gone-in": "/*" } }));
    const [again] = (await leaseSome(pipeline)).datums;
    if (!again) throw new Error("no datum");
    await print(pipeline, again, 0, "anew");
    expect(await textsOf(pipeline, { job: again.job })).toEqual(["anew"]);
  });
});

describe("the logs of a job", () => {
  it("are gone on with from any line, also where they end in tails", async () => {
    const pipeline = await made("place", { a: "1", b: "1" });
    const { datums } = await leaseSome(pipeline);
    const [a, b] = datums;
    if (!a || !b) throw new Error("too few datums");
    await print(pipeline, a, 0, "a one", "a two");
    await print(pipeline, a, 1, "a three");
    // Of b nothing comes but the outcome, with its last lines: "one" and "two".
    await finish(pipeline, [a, b], "fail");
    await workUntil(pipeline, { jobs: 1 });
    const which = { job: a.job };
    const all = ["a one", "a two", "a three", "one", "two"];
    expect(await textsOf(pipeline, which)).toEqual(all);
    const places = (await pages(pipeline, which)).flatMap(({ chunks }) =>
      chunks.flatMap(({ place, lines }) => lines.map((_, index) => `${place}.${index + 1}`)),
    );
    expect(places).toHaveLength(all.length);
    for (const [index, after] of places.entries())
      expect(await textsOf(pipeline, which, { after })).toEqual(all.slice(index + 1));
    expect(await textsOf(pipeline, { ...which, datum: b.datum })).toEqual(["one", "two"]);
    const [firstTail = ""] = places.slice(3);
    expect(await textsOf(pipeline, { ...which, datum: b.datum }, { after: firstTail })).toEqual(["two"]);
    expect(await pipeline.logs.read({ ...which, after: "zz", waitMs: null })).toEqual({
      ok: false,
      reason: "no-such-place",
    });
  });

  it("begin so many lines before their end, of all datums or of one", async () => {
    const pipeline = await made("end", { a: "1", b: "1" });
    const { datums } = await leaseSome(pipeline);
    const [a, b] = datums;
    if (!a || !b) throw new Error("too few datums");
    await print(pipeline, a, 0, "a one", "a two", "a three");
    await print(pipeline, b, 0, "b one", "b two");
    await print(pipeline, a, 1, "a four");
    const all = ["a one", "a two", "a three", "b one", "b two", "a four"];
    const last = async (tail: number, datum?: string): Promise<string[]> => {
      const which = { job: a.job, ...(datum !== undefined && { datum }) };
      const page = await pipeline.logs.read({ ...which, after: null, waitMs: null, tail });
      if (!page.ok) throw new Error(page.reason);
      return page.chunks.flatMap(({ lines, seen }) => lines.slice(seen).map(([, text]) => text));
    };
    for (let tail = 1; tail <= all.length + 1; tail++) expect(await last(tail)).toEqual(all.slice(-tail));
    expect(await last(2, a.datum)).toEqual(["a three", "a four"]);
    expect(await last(9, b.datum)).toEqual(["b one", "b two"]);
  });

  it("of a datum that is tried again are those of all its tries; where nothing came, the last lines of the last", async () => {
    await makeRepo("tries-in");
    const pipeline = await makePipeline({ name: "tries", globs: { "tries-in": "/*" } });
    await commit("tries-in", { a: "1" });
    const [first] = (await leaseSome(pipeline)).datums;
    if (!first) throw new Error("no datum");
    await finish(pipeline, [first], "fail");
    const which = { job: first.job, datum: first.datum };
    expect(await textsOf(pipeline, which)).toEqual(["one", "two"]);
    const [second] = (await leaseSome(pipeline)).datums;
    if (!second) throw new Error("no datum");
    await print(pipeline, second, 0, "second try");
    await finish(pipeline, [second], "fail");
    const [third] = (await leaseSome(pipeline)).datums;
    if (!third) throw new Error("no datum");
    await print(pipeline, third, 0, "third try");
    expect(await textsOf(pipeline, which)).toEqual(["second try", "third try"]);
  });

  it("of a datum that the job skipped are found at the job that ran it", async () => {
    const pipeline = await made("skip", { a: "1" });
    const [datum] = (await leaseSome(pipeline)).datums;
    if (!datum) throw new Error("no datum");
    await commit("skip-in", { b: "1" });
    await print(pipeline, datum, 0, "ran once");
    await finish(pipeline, [datum]);
    await workUntil(pipeline, { jobs: 2 });
    const later = (await allJobs(pipeline))[1]?.id ?? "";
    expect(await textsOf(pipeline, { job: later, datum: datum.datum })).toEqual(["ran once"]);
    expect(await textsOf(pipeline, { job: later })).toEqual([]);
  });

  it("are asked for by the first digits of a datum, where no other one has them", async () => {
    const files = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`f${n}`, "1"]));
    const pipeline = await made("prefix", files);
    const { datums } = await leaseSome(pipeline, { max: 20 });
    const [first] = datums;
    if (!first) throw new Error("no datum");
    await print(pipeline, first, 0, "found");
    const which = { job: first.job };
    expect(await textsOf(pipeline, { ...which, datum: first.datum.slice(0, 12) })).toEqual(["found"]);
    expect(await textsOf(pipeline, { ...which, datum: first.datum })).toEqual(["found"]);
    // Of twenty, two begin with the same digit.
    const digits = datums.map(({ datum }) => datum.slice(0, 1));
    const twice = digits.find((digit, index) => digits.indexOf(digit) !== index) ?? "";
    const call = { after: null, waitMs: null };
    expect(await pipeline.logs.read({ ...which, ...call, datum: twice })).toEqual({
      ok: false,
      reason: "several-datums",
    });
    for (const datum of ["none", `${first.datum}0`])
      expect(await pipeline.logs.read({ ...which, ...call, datum })).toEqual({
        ok: false,
        reason: "no-such-datum",
      });
    expect(await pipeline.logs.read({ ...call, job: "none" })).toEqual({ ok: false, reason: "no-such-job" });
  });

  it("are followed by several at once: each waits for more, and comes to the end with the job", async () => {
    const pipeline = await made("follow", { a: "1" });
    const [datum] = (await leaseSome(pipeline)).datums;
    if (!datum) throw new Error("no datum");
    const follow = async (): Promise<string[]> => {
      const found: string[] = [];
      for (let after: string | null = null; ; ) {
        const page = await pipeline.logs.read({ job: datum.job, after, waitMs: 20_000 });
        if (!page.ok) throw new Error(page.reason);
        found.push(...page.chunks.flatMap(({ lines, seen }) => lines.slice(seen).map(([, text]) => text)));
        after = page.after;
        if (page.rest === "none") return found;
      }
    };
    const followers = [follow(), follow()];
    for (const [seq, text] of ["one", "two", "three"].entries()) await print(pipeline, datum, seq, text);
    followers.push(follow());
    await finish(pipeline, [datum]);
    await workUntil(pipeline, { jobs: 1 });
    for (const found of await Promise.all(followers)) expect(found).toEqual(["one", "two", "three"]);
  });

  it("of a job that prints nothing are waited for as long as was asked, and no longer", async () => {
    const pipeline = await made("quiet", { a: "1" });
    const [datum] = (await leaseSome(pipeline)).datums;
    const page = await pipeline.logs.read({ job: datum?.job ?? "", after: null, waitMs: 30 });
    expect(page).toEqual({ ok: true, chunks: [], after: null, rest: "later" });
  });

  it("go when the job is long past", async () => {
    const pipeline = await made("past", { a: "1" });
    const [datum] = (await leaseSome(pipeline)).datums;
    if (!datum) throw new Error("no datum");
    await print(pipeline, datum, 0, "old");
    await finish(pipeline, [datum]);
    await workUntil(pipeline, { jobs: 1 });
    // As if many jobs had been between it and the next.
    await query(
      "past",
      `INSERT INTO jobs (n, id, state, reason, revision, source, generation, seq, positions, fill, filled, tookOver, turnAt,
        committing, reaping, total, processed, skipped, failed, open, outputCommit, createdAt, startedAt, finishedAt,
        version, flushed)
      SELECT n + ${KEPT_JOBS + 1}, id || 'x', state, reason, revision, source,
      generation, seq - 1000, positions, fill, filled, tookOver, turnAt, committing, reaping, total, processed, skipped,
      failed, open, outputCommit, createdAt, startedAt, finishedAt, version, flushed FROM jobs`,
    );
    await commit("past-in", { b: "1" });
    await workUntil(pipeline, { jobs: 3 });
    await expect.poll(() => query("past", "SELECT seq FROM log_chunks")).toEqual([]);
    await expect.poll(() => query("past", "SELECT job FROM log_datums")).toEqual([]);
  });
});
