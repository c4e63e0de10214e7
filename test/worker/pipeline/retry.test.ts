import { describe, expect, it } from "vitest";
import type { PipelineApi, RetryAnswer } from "../../../worker/pipeline/contract.ts";
import {
  allJobs,
  type Command,
  commit,
  echo,
  filesOf,
  leaseSome,
  makePipeline,
  makeRepo,
  pathsOf,
  pipelineOf,
  specOf,
  workUntil,
} from "./support.ts";

const failing =
  (...paths: string[]): Command =>
  (datum) =>
    paths.includes(pathsOf(datum)[0] ?? "") ? "fail" : echo(datum);

const FAILED = { every: false };

/** A pipeline whose first job has failed with `evil`. */
async function begin(name: string): Promise<{ pipeline: PipelineApi; input: string; job: string }> {
  const input = `${name}-in`;
  await makeRepo(input);
  const pipeline = await makePipeline({ name, globs: { [input]: "/*" }, more: { datumTries: 1 } });
  await commit(input, { evil: "1", good: "1" });
  await workUntil(pipeline, { jobs: 1, command: failing("evil") });
  return { pipeline, input, job: (await allJobs(pipeline))[0]?.id ?? "" };
}

function jobOf(answer: RetryAnswer): string {
  if (!answer.ok) throw new Error(answer.reason);
  return answer.job.id;
}

describe("a job that is retried", () => {
  it("makes one new job that runs what failed, and nothing else", async () => {
    const { pipeline, job } = await begin("re-failed");
    const answer = await pipeline.jobs.retry({ job, ...FAILED });
    expect(answer).toMatchObject({ ok: true, newest: job });
    const ran = await workUntil(pipeline, { jobs: 2 });
    expect(ran).toEqual([{ job: jobOf(answer), paths: ["evil"] }]);
    const [, second] = await allJobs(pipeline);
    expect(second).toMatchObject({
      ...{ id: jobOf(answer), state: "success" },
      datums: { total: 2, processed: 1, skipped: 1, failed: 0 },
    });
    expect(await filesOf({ repo: "re-failed", branch: "master" })).toEqual(["evil.out", "good.out"]);
  });

  it("runs every datum if that is asked for, and stays whose it was", async () => {
    const { pipeline, job } = await begin("re-all");
    const before = await pipeline.lifecycle.inspect();
    const answer = await pipeline.jobs.retry({ job, every: true });
    const ran = await workUntil(pipeline, { jobs: 2 });
    expect(ran.map(({ paths }) => paths[0]).sort()).toEqual(["evil", "good"]);
    expect((await allJobs(pipeline))[1]?.id).toBe(jobOf(answer));
    const after = await pipeline.lifecycle.inspect();
    expect(after.ok && after.pipeline).toMatchObject({
      ...{ state: "active", version: 2 },
      limited: before.ok ? before.pipeline.limited : "",
    });
    expect(after.ok && before.ok && after.pipeline.spec).toEqual(before.ok && before.pipeline.spec);
  });

  it("reads the inputs as they are now, though it is not the newest", async () => {
    const { pipeline, input, job } = await begin("re-old");
    await commit(input, { later: "1" });
    await workUntil(pipeline, { jobs: 2, command: failing("evil") });
    const newest = (await allJobs(pipeline))[1]?.id;
    const answer = await pipeline.jobs.retry({ job, ...FAILED });
    expect(answer).toMatchObject({ ok: true, newest });
    await workUntil(pipeline, { jobs: 3 });
    const jobs = await allJobs(pipeline);
    expect(jobs[2]).toMatchObject({ state: "success", inputs: jobs[1]?.inputs, datums: { total: 3 } });
  });

  it("runs nothing if nothing failed, and succeeds", async () => {
    const { pipeline, input } = await begin("re-none");
    await commit(input, { evil: null });
    await workUntil(pipeline, { jobs: 2 });
    const job = (await allJobs(pipeline))[1]?.id ?? "";
    await pipeline.jobs.retry({ job, ...FAILED });
    expect(await workUntil(pipeline, { jobs: 3 })).toEqual([]);
    expect((await allJobs(pipeline))[2]).toMatchObject({ state: "success", datums: { processed: 0 } });
  });

  it("takes up what a job left undone that was stopped", async () => {
    const { pipeline, input } = await begin("re-stopped");
    await commit(input, { more: "1" });
    await leaseSome(pipeline);
    const job = (await allJobs(pipeline))[1]?.id ?? "";
    await pipeline.jobs.stop(job);
    await pipeline.jobs.retry({ job, ...FAILED });
    const ran = await workUntil(pipeline, { jobs: 3 });
    expect(ran.map(({ paths }) => paths[0]).sort()).toEqual(["evil", "more"]);
  });

  it("asked for twice at once makes one job; another retry has to wait for its end", async () => {
    const { pipeline, job } = await begin("re-twice");
    const [one, two] = await Promise.all([
      pipeline.jobs.retry({ job, ...FAILED }),
      pipeline.jobs.retry({ job, ...FAILED }),
    ]);
    expect(jobOf(one)).toBe(jobOf(two));
    expect(two).toMatchObject({ newest: job });
    const running = { ok: false, reason: "job-running", job: jobOf(one) };
    expect(await pipeline.jobs.retry({ job, every: true })).toEqual(running);
    expect(await pipeline.jobs.retry({ job: jobOf(one), ...FAILED })).toEqual(running);
    await workUntil(pipeline, { jobs: 2 });
    expect(jobOf(await pipeline.jobs.retry({ job, ...FAILED }))).not.toBe(jobOf(one));
    await workUntil(pipeline, { jobs: 3 });
  });

  it("asked for twice to run every datum makes one job", async () => {
    const { pipeline, job } = await begin("re-twice-all");
    const [one, two] = await Promise.all([
      pipeline.jobs.retry({ job, every: true }),
      pipeline.jobs.retry({ job, every: true }),
    ]);
    expect(jobOf(one)).toBe(jobOf(two));
    await workUntil(pipeline, { jobs: 2 });
    expect(await allJobs(pipeline)).toHaveLength(2);
  });

  it("finds the job of a commit that it had not heard of, and does not retry beside it", async () => {
    const { pipeline, input, job } = await begin("re-commit");
    await commit(input, { evil: "2" });
    const answer = await pipeline.jobs.retry({ job, ...FAILED });
    const [, newer] = await allJobs(pipeline);
    expect(answer).toEqual({ ok: false, reason: "job-running", job: newer?.id });
    await workUntil(pipeline, { jobs: 2 });
  });

  it("is refused while the pipeline is stopped, and for a job that is not there", async () => {
    const { pipeline, job } = await begin("re-refused");
    expect(await pipeline.jobs.retry({ job: "01ABSENT", ...FAILED })).toEqual({
      ok: false,
      reason: "no-such-job",
    });
    await pipeline.lifecycle.stop();
    expect(await pipeline.jobs.retry({ job, ...FAILED })).toEqual({ ok: false, reason: "stopped" });
    expect(await pipelineOf("re-nobody").jobs.retry({ job, ...FAILED })).toEqual({
      ok: false,
      reason: "no-such-job",
    });
  });

  it("is refused after an update to inputs that hold nothing yet", async () => {
    const { pipeline, job } = await begin("re-empty");
    await makeRepo("re-empty-other");
    const spec = specOf({ name: "re-empty", globs: { "re-empty-other": "/*" } });
    await pipeline.specification.update({ spec, reprocess: false });
    expect(await pipeline.jobs.retry({ job, ...FAILED })).toEqual({ ok: false, reason: "no-data" });
  });

  it("of a pipeline that skips bad datums cures them, and takes their earlier output away if all run again", async () => {
    await makeRepo("re-skip-in");
    const pipeline = await makePipeline({
      ...{ name: "re-skip", globs: { "re-skip-in": "/*" } },
      more: { datumTries: 1, onDatumFailure: "skip" },
    });
    await commit("re-skip-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: failing("a") });
    const jobs = async () => (await allJobs(pipeline)).map(({ state }) => state);
    const job = (await allJobs(pipeline))[0]?.id ?? "";
    await pipeline.jobs.retry({ job, ...FAILED });
    await workUntil(pipeline, { jobs: 2 });
    const files = () => filesOf({ repo: "re-skip", branch: "master" });
    expect(await files()).toEqual(["a.out", "b.out"]);
    await pipeline.jobs.retry({ job, every: true });
    await workUntil(pipeline, { jobs: 3, command: failing("b") });
    expect(await files()).toEqual(["a.out"]);
    expect(await jobs()).toEqual(["success", "success", "success"]);
    expect(await filesOf({ repo: "re-skip", branch: "errors" })).toHaveLength(1);
  });
});
