// @module-tag rest
import { describe, expect, it } from "vitest";
import { MAX_COMMIT_OPERATIONS } from "../../../protocol/files.ts";
import { MAX_OUTPUTS_PER_DATUM, type Outcome, type Output } from "../../../protocol/runner.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { JobStore } from "../../../worker/pipeline/jobs/job-store.ts";
import { type EndingStep, EndingStore } from "../../../worker/pipeline/output/draft-store.ts";
import { PublishedStore } from "../../../worker/pipeline/output/published-store.ts";
import { type FaultPoint, insist, killedAt } from "./faults.ts";
import {
  allJobs,
  branchOf,
  commit,
  contentOf,
  leaseSome,
  makePipeline,
  makeRepo,
  master,
  pathsOf,
  pipelineOf,
  query,
  specOf,
  workUntil,
} from "./support.ts";

const FILES = 6000;

/** The moment when so many pages of a large commit have been staged. */
function pages(call: number): FaultPoint {
  const which = (_: number, { step }: EndingStep): boolean => step === "stage";
  return {
    at: `page ${call}`,
    of: EndingStore.prototype,
    method: "set",
    when: "after",
    which,
    call: call + 1,
  };
}

/** Runs the datums of a job, each of which writes more than half of what one commit takes at once. */
async function workLarge(pipeline: PipelineApi, { text = "x" }: { text?: string } = {}): Promise<void> {
  const { datums, output } = await leaseSome(pipeline);
  const content = contentOf(text);
  for (const { lease, inputs } of datums) {
    const opened = await branchOf(output).uploads.open({ lease });
    if (!opened.ok) throw new Error(opened.reason);
    await branchOf(output).uploads.add({ upload: opened.upload, contents: [content] });
    const { digest, size } = content;
    const outputs = Array.from(
      { length: FILES },
      (_, index): Output => ({ path: `${inputs[0]?.path}/${index}`, digest, size }),
    );
    const done: Outcome = {
      lease,
      state: "success",
      exitCode: 0,
      outputs,
      upload: opened.upload,
      millis: 1,
      ran: { executor: "process", image: null },
    };
    await pipeline.leases.finish({ worker: "w1", outcomes: [done] });
  }
}

async function countFiles(repo: string): Promise<number> {
  let count = 0;
  let after: string | null = "";
  while (after !== null) {
    const page: Awaited<ReturnType<ReturnType<typeof master>["files"]["list"]>> = await master(
      repo,
    ).files.list({
      prefix: "",
      after,
      limit: 1000,
    });
    if (!page.ok) throw new Error(page.reason);
    count += page.entries.length;
    after = page.next;
  }
  return count;
}

/** How many commits a branch has. */
async function commitsOf(repo: string): Promise<number> {
  const commits = new Set<string>();
  let [cursor, more] = [{ generation: 0, seq: 0 }, true];
  while (more) {
    const page = await master(repo).feed.read({ cursor, limit: 1000 });
    for (const { id, generation, seq } of page.events) {
      commits.add(id);
      cursor = { generation, seq };
    }
    more = page.more;
  }
  return commits.size;
}

let crashes = 0;

describe("a job that changes more than fits one call", () => {
  it("makes one commit of it, and what follows is right", { timeout: 300_000 }, async () => {
    expect(2 * FILES).toBeGreaterThan(MAX_COMMIT_OPERATIONS);
    expect(FILES).toBeLessThanOrEqual(MAX_OUTPUTS_PER_DATUM);
    await makeRepo("large-in");
    const pipeline = await makePipeline({ name: "large", globs: { "large-in": "/*" } });
    await commit("large-in", { a: "1", b: "1" });
    await workLarge(pipeline);
    await workUntil(pipeline, { jobs: 1 });
    const [job] = await allJobs(pipeline);
    expect(job).toMatchObject({ state: "success", reason: null });
    const status = await master("large").lifecycle.status();
    expect(status.ok && status.head).toBe(job?.outputCommit);
    expect(await countFiles("large")).toBe(2 * FILES);
    expect(await commitsOf("large")).toBe(1);
    expect(await query("large", "SELECT count(*) AS n FROM published")).toEqual([{ n: 2 * FILES }]);

    await commit("large-in", { a: null, b: null, c: "1" });
    await workUntil(pipeline, { jobs: 2, command: (datum) => ({ [pathsOf(datum).join()]: "y" }) });
    expect((await allJobs(pipeline))[1]?.state).toBe("success");
    expect(await countFiles("large")).toBe(1);
    expect(await commitsOf("large")).toBe(2);
    expect(await query("large", "SELECT path, key FROM published")).toEqual([{ path: "c", key: "c" }]);
    for (const table of ["ending", "changed", "operations", "tasks"]) {
      expect(await query("large", `SELECT * FROM ${table}`)).toEqual([]);
    }
  });

  it("ends by that if its pipeline is stopped in the middle of it", {
    timeout: 300_000,
  }, async () => {
    await makeRepo("halt-in");
    const pipeline = await makePipeline({ name: "halt", globs: { "halt-in": "/*" } });
    await commit("halt-in", { a: "1", b: "1" });
    await killedAt("halt", { point: pages(2), work: () => workLarge(pipeline) });
    expect(await insist(async () => pipelineOf("halt").lifecycle.stop())).toMatchObject({
      ok: true,
      pipeline: { state: "stopped" },
    });
    expect((await allJobs(pipelineOf("halt")))[0]?.state).toBe("success");
    expect(await countFiles("halt")).toBe(2 * FILES);
    expect(await query("halt", "SELECT count(*) AS n FROM published")).toEqual([{ n: 2 * FILES }]);
  });

  const DEATHS: FaultPoint[] = [
    pages(1),
    { at: "the commit is noted", of: JobStore.prototype, method: "setCommitted", when: "before" },
    { at: "some is published", of: PublishedStore.prototype, method: "add", when: "after", call: 700 },
    { at: "the job ends", of: JobStore.prototype, method: "end", when: "before" },
  ];
  for (const point of DEATHS) {
    it(`makes it once if the pipeline dies when ${point.at}`, {
      timeout: 300_000,
    }, async () => {
      const name = `crash-${++crashes}`;
      await makeRepo(`${name}-in`);
      const pipeline = await makePipeline({ name, globs: { [`${name}-in`]: "/*" } });
      await commit(`${name}-in`, { a: "1", b: "1" });
      const work = async (): Promise<void> => {
        await workLarge(pipeline);
        await pipeline.jobs.wait({ id: (await allJobs(pipeline))[0]?.id ?? "", waitMs: 120_000 });
      };
      await killedAt(name, { point, work });
      const id = (await insist(async () => allJobs(pipelineOf(name))))[0]?.id ?? "";
      const job = await pipelineOf(name).jobs.wait({ id, waitMs: 120_000 });
      expect(job?.state).toBe("success");
      expect(await commitsOf(name)).toBe(1);
      expect(await countFiles(name)).toBe(2 * FILES);
      expect(await query(name, "SELECT count(*) AS n FROM published")).toEqual([{ n: 2 * FILES }]);
    });
  }

  it("goes on if the claim is lost in the middle", { timeout: 300_000 }, async () => {
    await makeRepo("claim-in");
    const pipeline = await makePipeline({ name: "claim", globs: { "claim-in": "/*" } });
    await commit("claim-in", { a: "1", b: "1" });
    const [row] = await query<{ uid: string }>("claim", "SELECT uid FROM pipeline");
    await workLarge(pipeline);
    await master("claim").output.claim({ pipeline: "claim", uid: row?.uid ?? "" });
    await workUntil(pipeline, { jobs: 1 });
    expect((await allJobs(pipeline))[0]?.state).toBe("success");
    expect(await countFiles("claim")).toBe(2 * FILES);
    expect(await commitsOf("claim")).toBe(1);
  });

  it("that computes the same again changes nothing of the branch", {
    timeout: 300_000,
  }, async () => {
    await makeRepo("again-in");
    const options = { name: "again", globs: { "again-in": "/*" } };
    const pipeline = await makePipeline(options);
    await commit("again-in", { a: "1", b: "1" });
    await workLarge(pipeline);
    await workUntil(pipeline, { jobs: 1 });
    await pipelineOf("again").specification.update({ spec: specOf(options), reprocess: true });
    await workLarge(pipeline);
    await workUntil(pipeline, { jobs: 2 });
    const page = await master("again").feed.read({ cursor: { generation: 1, seq: 1 }, limit: 10 });
    expect(page.events).toMatchObject([{ kind: "commit", changes: [], next: null }]);
    expect(await query("again", "SELECT DISTINCT salt FROM published")).toEqual([{ salt: "2" }]);
  });
});
