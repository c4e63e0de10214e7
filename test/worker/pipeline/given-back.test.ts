import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { bucketName } from "../../../protocol/names.ts";
import { feed } from "../../../worker/branch/calls/feed.ts";
import { UploadStore } from "../../../worker/branch/uploads/upload-store.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { JobTable } from "../../../worker/catalogue/jobs.ts";
import { ResultStore } from "../../../worker/pipeline/attempts/result-store.ts";
import { GivenUpStore } from "../../../worker/pipeline/attempts/upload-store.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { JobStore } from "../../../worker/pipeline/jobs/job-store.ts";
import { PipelineStore } from "../../../worker/pipeline/lifecycle/pipeline-store.ts";
import { MakerStore } from "../../../worker/pipeline/output/published-store.ts";
import { REST, sampled } from "../../support/suite.ts";
import { HELD } from "../branch/held.ts";
import { dayAfterTags } from "../branch/retention-support.ts";
import { branchOf as bucketOf } from "../branch/support.ts";
import { type FaultPoint, type Gateway, insist, killedAt, ringAlarms, shortenPauses } from "./faults.ts";
import { killBranch } from "./kill.ts";
import {
  allJobs,
  branchOf,
  type Command,
  commit,
  contentOf,
  echo,
  filesOf,
  leaseSome,
  leftRow,
  makePipeline,
  makeRepo,
  OUTPUTS,
  outcomeOf,
  pathsOf,
  pipelineOf,
  query,
  type Ran,
  workUntil,
} from "./support.ts";

afterEach(() => vi.spyOn(feed, "kept").mockRestore());

/** Writes to a path of its input's name, so that a new content of a file replaces the old output. */
const same: Command = (datum) => ({ [`${pathsOf(datum)[0]}.out`]: datum.datum });

/** A pipeline over a repo, after one job for each of these commits. */
async function pipelineAfter(
  name: string,
  commits: readonly Readonly<Record<string, string | null>>[],
): Promise<PipelineApi> {
  await makeRepo(`${name}-in`);
  const pipeline = await makePipeline({ name, globs: { [`${name}-in`]: "/*" } });
  for (const [index, files] of commits.entries()) {
    await commit(`${name}-in`, files);
    await workUntil(pipeline, { jobs: index + 1, command: same });
  }
  return pipeline;
}

/** The output commits of a pipeline's jobs, by their number from 0 on. */
async function outputsOf(name: string): Promise<(string | null)[]> {
  return (await allJobs(pipelineOf(name))).map(({ outputCommit }) => outputCommit);
}

/** Lets the output branches keep the commits of these jobs of a pipeline alone, and calls it. */
async function keep(name: string, jobs: readonly number[]): Promise<void> {
  const outputs = await outputsOf(name);
  const gone = new Set(outputs.filter((_, index) => !jobs.includes(index)));
  vi.spyOn(feed, "kept").mockImplementation(async (_, { commits }) => ({
    kept: commits.filter((id) => !gone.has(id)),
  }));
  await tell(name);
}

/** As the output branch calls when it keeps less. */
async function tell(name: string): Promise<void> {
  const [row] = await query<{ uid: string }>(name, "SELECT uid FROM pipeline");
  await pipelineOf(name).wakeUps.outputKept({ uid: row?.uid ?? "" });
}

async function count(name: string, table: string): Promise<number> {
  const [row] = await query<{ n: number }>(name, `SELECT count(*) AS n FROM ${table}`);
  return row?.n ?? 0;
}

/** What uploads hold in the output branch of a pipeline. */
async function held(name: string): Promise<{ uploads: number; holds: number }> {
  const stub = env.BRANCH.getByName(bucketName({ repo: name, branch: "master" }));
  return runInDurableObject(stub, (_, { storage: { sql } }) => ({
    uploads: sql.exec<{ n: number }>("SELECT count(*) AS n FROM uploads WHERE lost = 0").one().n,
    holds: sql.exec<{ n: number }>(`SELECT count(*) AS n FROM ${HELD}`).one().n,
  }));
}

/** Rows that the history of a pipeline has. What made a path and does so still stands with what is published. */
async function history(name: string): Promise<Record<string, number>> {
  const [rows = {}] = await query<Record<string, number>>(
    name,
    `SELECT (SELECT count(*) FROM results) AS results, (SELECT count(*) FROM (${OUTPUTS})) AS outputs,
      (SELECT count(*) FROM made) + (SELECT count(*) FROM published WHERE born IS NOT NULL) AS made,
      (SELECT count(*) FROM given_up) AS given_up`,
  );
  return rows;
}

function ranPaths(ran: readonly Ran[]): string[] {
  return ran.map(({ paths }) => paths.join("+")).sort();
}

const FOUR = [{ a: "1", b: "1" }, { a: "2" }, { a: "3" }, { a: "4" }];

describe("what no commit needs that the output branch keeps", () => {
  it("goes, uploads and all; what has not changed never runs again for that", async () => {
    const pipeline = await pipelineAfter("horizon", FOUR);
    expect(await history("horizon")).toEqual({ results: 5, outputs: 5, made: 5, given_up: 0 });
    expect(await held("horizon")).toEqual({ uploads: 5, holds: 5 });
    await keep("horizon", [3]);
    const left = { results: 2, outputs: 2, made: 2, given_up: 0 };
    await expect.poll(() => history("horizon")).toEqual(left);
    expect(await held("horizon")).toEqual({ uploads: 2, holds: 2 });
    await commit("horizon-in", { c: "1" });
    expect(ranPaths(await workUntil(pipeline, { jobs: 5, command: same }))).toEqual(["c"]);
    expect(await filesOf({ repo: "horizon", branch: "master" })).toEqual(["a.out", "b.out", "c.out"]);
    // What comes back, and is kept no more, is computed anew.
    await commit("horizon-in", { a: "2" });
    expect(ranPaths(await workUntil(pipeline, { jobs: 6, command: same }))).toEqual(["a"]);
  });

  it("goes by itself when the branch is told to keep less, and a day after a tag goes", REST, async () => {
    const pipeline = await pipelineAfter("told", FOUR);
    const gateway = {
      input: { repo: "told-in", branch: "master" },
      output: { repo: "told", branch: "master" },
    };
    const [, second] = await outputsOf("told");
    const branch = branchOf(gateway.output);
    expect(await branch.tags.create({ name: "v1", commit: second ?? "", force: false })).toMatchObject({
      ok: true,
    });
    expect(await branch.settings.change({ keep: { commits: 1 } })).toEqual({ ok: true });
    const rung = async () => {
      await ringAlarms("told", gateway);
      return history("told");
    };
    await expect.poll(rung).toEqual({ results: 3, outputs: 3, made: 3, given_up: 0 });
    expect(await branch.tags.delete({ name: "v1" })).toEqual({ ok: true });
    await dayAfterTags(bucketOf(bucketName(gateway.output)));
    await expect.poll(rung).toEqual({ results: 2, outputs: 2, made: 2, given_up: 0 });
    await commit("told-in", { c: "1" });
    expect(ranPaths(await workUntil(pipeline, { jobs: 5, command: same }))).toEqual(["c"]);
    // As each commit is replaced, too.
    await commit("told-in", { c: "2" });
    await workUntil(pipeline, { jobs: 6, command: same });
    await expect.poll(rung).toEqual({ results: 3, outputs: 3, made: 3, given_up: 0 });
  });

  it("stays if a single commit needs it, until that goes, too", async () => {
    const pipeline = await pipelineAfter("single", FOUR);
    await keep("single", [1, 3]);
    await expect.poll(() => history("single")).toEqual({ results: 3, outputs: 3, made: 3, given_up: 0 });
    const job = (await allJobs(pipeline))[1]?.id ?? "";
    const asked = { job, path: "a.out", after: null, limit: 10 };
    expect(await pipeline.lineage.provenance(asked)).toMatchObject({
      ok: true,
      datums: [{ state: "success", job, exitCode: 0 }],
    });
    await keep("single", [3]);
    await expect.poll(() => history("single")).toEqual({ results: 2, outputs: 2, made: 2, given_up: 0 });
  });

  it("is nothing as long as the branch keeps all: it never calls, and what comes back is done", async () => {
    const asked = vi.spyOn(feed, "kept");
    const pipeline = await pipelineAfter("whole", [...FOUR, { a: "1" }]);
    expect(ranPaths(await workUntil(pipeline, { jobs: 5, command: same }))).toEqual([]);
    await tell("whole");
    await expect.poll(() => query("whole", "SELECT outputDue FROM pipeline")).toEqual([{ outputDue: 0 }]);
    expect(asked).toHaveBeenCalled();
    expect(await history("whole")).toEqual({ results: 5, outputs: 5, made: 6, given_up: 0 });
  });

  it("goes from an upload that several results share, and the rest of it stays", REST, async () => {
    await makeRepo("both-in");
    const pipeline = await makePipeline({ name: "both", globs: { "both-in": "/*" } });
    await commit("both-in", { a: "1", b: "1" });
    const { datums, output } = await leaseSome(pipeline);
    const opened = await branchOf(output).uploads.open({ lease: datums[0]?.lease ?? "" });
    if (!opened.ok) throw new Error(opened.reason);
    const { upload } = opened;
    const texts = datums.map((datum) => Object.entries(same(datum))[0] as [string, string]);
    await branchOf(output).uploads.add({ upload, contents: texts.map(([, text]) => contentOf(text)) });
    const outcomes = datums.map(({ lease }, index) => {
      const [path, text] = texts[index] ?? ["", ""];
      const { digest, size } = contentOf(text);
      const outputs = [{ path, digest, size }];
      return {
        lease,
        state: "success",
        exitCode: 0,
        outputs,
        millis: 1,
        ran: { executor: "process", image: null },
        upload,
      } as const;
    });
    expect(await pipeline.leases.finish({ worker: "w1", outcomes })).toEqual({ lost: [] });
    await workUntil(pipeline, { jobs: 1 });
    await commit("both-in", { a: "2" });
    await workUntil(pipeline, { jobs: 2, command: same });
    expect(await held("both")).toEqual({ uploads: 2, holds: 3 });
    await keep("both", [1]);
    await expect.poll(() => history("both")).toEqual({ results: 2, outputs: 2, made: 2, given_up: 0 });
    expect(await held("both")).toEqual({ uploads: 2, holds: 2 });
    await commit("both-in", { c: "1" });
    expect(ranPaths(await workUntil(pipeline, { jobs: 3, command: same }))).toEqual(["c"]);
  });

  it("goes while the pipeline is stopped, too, and when it ends its stop", REST, async () => {
    const pipeline = await pipelineAfter("stopped", FOUR);
    await pipeline.lifecycle.stop();
    await keep("stopped", [3]);
    await expect.poll(() => history("stopped")).toEqual({ results: 2, outputs: 2, made: 2, given_up: 0 });
    await pipeline.lifecycle.start();
    await commit("stopped-in", { c: "1" });
    expect(ranPaths(await workUntil(pipeline, { jobs: 5, command: same }))).toEqual(["c"]);
  });

  it("is what failed jobs computed, too, but for datums that are alive", REST, async () => {
    await makeRepo("fails-in");
    const more = { datumTries: 1 };
    const pipeline = await makePipeline({ name: "fails", globs: { "fails-in": "/*" }, more });
    const command: Command = (datum) => (pathsOf(datum)[0] === "evil" ? "fail" : same(datum));
    await commit("fails-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command });
    await commit("fails-in", { evil: "1", c: "1", d: "1" });
    await workUntil(pipeline, { jobs: 2, command });
    await commit("fails-in", { evil: null, c: null });
    await workUntil(pipeline, { jobs: 3, command });
    await commit("fails-in", { a: "2" });
    await workUntil(pipeline, { jobs: 4, command });
    // a twice, b, c, d; of d, the result of the failed job is that of the newest one.
    expect(await count("fails", "results")).toBe(5);
    await keep("fails", [3]);
    await expect.poll(() => count("fails", "results")).toBe(3);
    await commit("fails-in", { evil: "2" });
    expect(ranPaths(await workUntil(pipeline, { jobs: 5, command }))).toEqual(["evil"]);
  });

  it("is of nobody's concern to a pipeline that was made anew under the name", async () => {
    await pipelineAfter("anew", [{ a: "1" }]);
    const [row] = await query<{ uid: string }>("anew", "SELECT uid FROM pipeline");
    await pipelineOf("anew").lifecycle.destroy({ keepOutput: false });
    await pipelineOf("anew").wakeUps.outputKept({ uid: row?.uid ?? "" });
    await makePipeline({ name: "anew", globs: { "anew-in": "/*" } });
    await pipelineOf("anew").wakeUps.outputKept({ uid: row?.uid ?? "" });
    expect(await query("anew", "SELECT outputDue FROM pipeline")).toEqual([{ outputDue: 0 }]);
  });
});

describe("a result that goes for another reason", () => {
  it(
    "lets go of its upload: after an update, the branch holds what the files have and the new results",
    REST,
    async () => {
      const pipeline = await pipelineAfter("salted", [{ a: "1", b: "1" }]);
      const found = await pipeline.lifecycle.inspect();
      if (!found.ok) throw new Error(found.reason);
      await pipeline.specification.update({ spec: found.pipeline.spec, reprocess: true });
      await workUntil(pipeline, { jobs: 2, command: (datum) => ({ [`${pathsOf(datum)[0]}.out`]: "anew" }) });
      await expect.poll(() => held("salted")).toEqual({ uploads: 2, holds: 2 });
      await expect.poll(() => count("salted", "given_up")).toBe(0);
    },
  );

  it("lets go of it if its content is gone, and the datum runs again", REST, async () => {
    const pipeline = await pipelineAfter("lost", [{ a: "1" }]);
    await commit("lost-in", { b: "1" });
    const { datums, output } = await leaseSome(pipeline);
    const outcomes = await Promise.all(datums.map((datum) => outcomeOf(datum, { command: same, output })));
    const [outcome] = outcomes;
    const upload = (outcome?.state === "success" && outcome.upload) || "";
    await branchOf(output).uploads.abort({ upload });
    await pipeline.leases.finish({ worker: "w1", outcomes });
    expect(ranPaths(await workUntil(pipeline, { jobs: 2, command: same }))).toEqual(["b"]);
    await expect.poll(() => count("lost", "given_up")).toBe(0);
    expect(await held("lost")).toEqual({ uploads: 2, holds: 2 });
  });
});

const catalogue = openCatalogue(env.DB);
/** As variables are by default. */
const KEPT_JOBS = 10_000;

describe("what outcomes share that were reported together", () => {
  it("stays while a result names it, and goes an hour later if the gateway died before it recorded any", async () => {
    await makeRepo("shared-in");
    const pipeline = await makePipeline({ name: "shared", globs: { "shared-in": "/*" } });
    await commit("shared-in", { a: "1" });
    const { datums, output } = await leaseSome(pipeline);
    const branch = branchOf(output);
    const lease = datums[0]?.lease ?? "";
    const share = async (text: string) => {
      const opened = await branch.uploads.open({ lease: `shared.${lease}.${crypto.randomUUID()}` });
      if (!opened.ok) throw new Error(opened.reason);
      await branch.uploads.add({ upload: opened.upload, contents: [contentOf(text)] });
      return opened.upload;
    };
    await share("never recorded");
    const upload = await share("recorded");
    const { digest, size } = contentOf("recorded");
    const outputs = [{ path: "a.out", digest, size }];
    const ran = { executor: "process", image: null } as const;
    const outcome = { lease, state: "success", exitCode: 0, outputs, upload, millis: 1, ran } as const;
    expect(await pipeline.leases.finish({ worker: "w1", outcomes: [outcome] })).toEqual({ lost: [] });
    const stub = env.BRANCH.getByName(bucketName(output));
    await runInDurableObject(stub, (_, { storage }) => storage.setAlarm(Date.now()));
    await runDurableObjectAlarm(stub);
    expect(await held("shared")).toEqual({ uploads: 2, holds: 2 });

    // An hour later: the time that is in an id is one of long ago.
    const earlier = (column: string) => `${column} = replace(${column}, '.01', '.00')`;
    for (const table of ["results", "result_uploads"])
      await query("shared", `UPDATE ${table} SET ${earlier("upload")}`);
    await runInDurableObject(stub, async (_, { storage }) => {
      storage.sql.exec(`UPDATE uploads SET ${earlier("id")}`);
      storage.sql.exec(`UPDATE holds SET ${earlier("upload")}`);
      await storage.setAlarm(Date.now());
    });
    await runDurableObjectAlarm(stub);
    await expect.poll(() => held("shared")).toEqual({ uploads: 1, holds: 1 });
    expect(await branch.files.content({ digest, size })).toMatchObject({ ok: true });
    const never = contentOf("never recorded");
    expect((await branch.files.content(never)).ok).toBe(false);
    // It has asked, and rests.
    const isDue = async () =>
      (await branch.admin.loops())?.loops.find(({ name }) => name === "shared uploads")?.due;
    expect(await isDue()).toBeNull();
  });
});

describe("jobs that are listed no more", () => {
  it("are neither in the catalogue nor in the pipeline's list; their commits still tell of them", async () => {
    const pipeline = await pipelineAfter("listed", [{ a: "1" }, { b: "1" }]);
    const [first, second] = await allJobs(pipeline);
    // As if many jobs had been between the second and the third.
    await query("listed", `UPDATE jobs SET n = n + ${KEPT_JOBS} + 200 WHERE n = 2`);
    await leftRow("listed", `committed = ${KEPT_JOBS} + 202`);
    await query("listed", `UPDATE published SET born = born + ${KEPT_JOBS} + 200 WHERE born = 2`);
    await commit("listed-in", { c: "1" });
    await expect.poll(async () => (await pipeline.jobs.list({ limit: 10 })).jobs.length).toBe(2);
    await workUntil(pipeline, { jobs: 2, command: same });
    await expect.poll(() => catalogue.jobs.pipelineOf(first?.id ?? "")).toBeNull();
    const listed = await allJobs(pipeline);
    expect(listed[0]?.id).toBe(second?.id);
    expect(listed).toHaveLength(2);
    await expect
      .poll(async () => (await catalogue.jobs.list({ pipeline: "listed", limit: 10 })).map(({ id }) => id))
      .toEqual(listed.map(({ id }) => id).reverse());
    const page = await pipeline.jobs.list({ limit: 1 });
    expect(await pipeline.jobs.list({ limit: 1, after: page.next ?? "" })).toMatchObject({ next: null });
    const asked = { job: first?.id ?? "", path: "a.out", after: null, limit: 10 };
    expect(await pipeline.lineage.provenance(asked)).toMatchObject({
      ok: true,
      datums: [{ job: first?.id }],
    });
    expect(await pipeline.jobs.view(first?.id ?? "")).toMatchObject({ outputCommit: first?.outputCommit });
  });

  it("go from the pipeline, too, once the output branch keeps their commits no more", REST, async () => {
    const pipeline = await pipelineAfter("rows", [{ a: "1" }, { b: "1" }, { c: "1" }]);
    await query("rows", `UPDATE jobs SET n = n + ${KEPT_JOBS} + 200 WHERE n > 2`);
    await leftRow("rows", `committed = ${KEPT_JOBS} + 203`);
    await query("rows", `UPDATE published SET born = born + ${KEPT_JOBS} + 200 WHERE born > 2`);
    const first = await query<{ commit: string }>(
      "rows",
      `SELECT outputCommit AS "commit" FROM jobs WHERE n = 1`,
    );
    vi.spyOn(feed, "kept").mockImplementation(async (_, { commits }) => ({
      kept: commits.filter((id) => id !== first[0]?.commit),
    }));
    await commit("rows-in", { d: "1" });
    await workUntil(pipeline, { jobs: 2, command: same });
    await tell("rows");
    const numbers = () => query<{ n: number }>("rows", "SELECT n FROM jobs ORDER BY n LIMIT 2");
    await expect
      .poll(async () => {
        await tell("rows");
        return (await numbers()).map(({ n }) => n);
      })
      .toEqual([2, KEPT_JOBS + 203]);
    // All that ran in it is alive: nothing runs again, though nobody knows the job any more.
    await commit("rows-in", { e: "1" });
    expect(ranPaths(await workUntil(pipeline, { jobs: 3, command: same }))).toEqual(["e"]);
    const job = (await allJobs(pipeline)).at(-1)?.id ?? "";
    expect(await pipeline.lineage.provenance({ job, path: "a.out", after: null, limit: 10 })).toMatchObject({
      ok: true,
      datums: [{ state: "skipped", job: null, exitCode: 0, code: { version: 1 } }],
    });
  });

  it("stay while they have not ended, however many came after them", REST, async () => {
    await makeRepo("waits-in");
    const pipeline = await makePipeline({ name: "waits", globs: { "waits-in": "/*" } });
    await commit("waits-in", { a: "1" });
    await expect.poll(() => allJobs(pipeline)).toHaveLength(1);
    await commit("waits-in", { b: "1" });
    await expect.poll(() => allJobs(pipeline)).toHaveLength(2);
    await query("waits", `UPDATE jobs SET n = n + ${KEPT_JOBS} + 200 WHERE n = 2`);
    await ringAlarms("waits");
    expect(await allJobs(pipeline)).toHaveLength(2);
    await expect.poll(() => catalogue.jobs.list({ pipeline: "waits", limit: 10 })).toHaveLength(2);
  });
});

describe("a deleted pipeline", () => {
  it("leaves neither jobs in the catalogue nor rows, and a write that comes late brings none back", async () => {
    const pipeline = await pipelineAfter("dead", [{ a: "1" }, { b: "1" }]);
    const [uid] = await query<{ uid: string }>("dead", "SELECT uid FROM pipeline");
    const [job] = await allJobs(pipeline);
    if (!job || !uid) throw new Error("no job");
    await expect.poll(() => catalogue.jobs.list({ pipeline: "dead", limit: 10 })).toHaveLength(2);
    await pipeline.lifecycle.destroy({ keepOutput: false });
    await expect.poll(() => query("dead", "SELECT state FROM pipeline")).toEqual([{ state: "deleted" }]);
    expect(await catalogue.jobs.list({ pipeline: "dead", limit: 10 })).toEqual([]);
    await catalogue.jobs.record([{ job, version: 99 }], uid);
    expect(await catalogue.jobs.list({ pipeline: "dead", limit: 10 })).toEqual([]);
    for (const table of ["jobs", "results", "made", "published", "log_chunks", "codes", "given_up"])
      expect(await count("dead", table)).toBe(0);
    await makePipeline({ name: "dead", globs: { "dead-in": "/*" } });
    await workUntil(pipeline, { jobs: 1 });
    await expect.poll(() => catalogue.jobs.list({ pipeline: "dead", limit: 10 })).toHaveLength(1);
  });

  it(
    "leaves its jobs in the catalogue if its output is kept, also when the name is asked for again",
    REST,
    async () => {
      const pipeline = await pipelineAfter("keeps", [{ a: "1" }]);
      const [job] = await allJobs(pipeline);
      await pipeline.lifecycle.destroy({ keepOutput: true });
      await expect.poll(() => query("keeps", "SELECT state FROM pipeline")).toEqual([{ state: "deleted" }]);
      expect(await catalogue.jobs.list({ pipeline: "keeps", limit: 10 })).toEqual([job]);
      await expect(makePipeline({ name: "keeps", globs: { "keeps-in": "/*" } })).rejects.toThrow(
        "output-exists",
      );
      await expect.poll(() => query("keeps", "SELECT state FROM pipeline")).toEqual([{ state: "deleted" }]);
      expect(await catalogue.jobs.list({ pipeline: "keeps", limit: 10 })).toEqual([job]);
    },
  );

  it("gives no upload to a worker that comes late, also when another has its name by then", async () => {
    await makeRepo("late-in");
    const pipeline = await makePipeline({ name: "late", globs: { "late-in": "/*" } });
    await commit("late-in", { a: "1" });
    const { datums, output } = await leaseSome(pipeline);
    const lease = datums[0]?.lease ?? "";
    await pipeline.lifecycle.destroy({ keepOutput: false });
    const late = () => branchOf(output).uploads.open({ lease });
    expect(await late()).toEqual({ ok: false, reason: "no-such-branch" });
    await makePipeline({ name: "late", globs: { "late-in": "/*" } });
    expect(await late()).toEqual({ ok: false, reason: "lost-lease" });
    const shared = `shared.${lease}.${crypto.randomUUID()}`;
    expect(await branchOf(output).uploads.open({ lease: shared })).toEqual({
      ok: false,
      reason: "lost-lease",
    });
    expect(await held("late")).toEqual({ uploads: 0, holds: 0 });
    await workUntil(pipeline, { jobs: 1, command: echo });
    expect(await filesOf(output)).toEqual(["a.out"]);
  });
});

describe("codes that nothing names any more", () => {
  it("go once there are many; what results and the history of outputs name stays", REST, async () => {
    const pipeline = await pipelineAfter("codes", [{ a: "1" }, { a: "2" }]);
    const [job] = await allJobs(pipeline);
    await query(
      "codes",
      `WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
       INSERT INTO codes (number, version, node, executor, image) SELECT i, 1, 'node-' || i, '', '' FROM n;
       UPDATE made SET code = 700;
       UPDATE results SET code = 800 WHERE died IS NULL`,
    );
    await commit("codes-in", { b: "1" });
    await workUntil(pipeline, { jobs: 3, command: same });
    await expect
      .poll(() => query("codes", "SELECT number FROM codes ORDER BY number"))
      .toMatchObject([{ number: 1 }, { number: 700 }, { number: 800 }]);
    const asked = { job: job?.id ?? "", path: "a.out", after: null, limit: 1 };
    await query("codes", "DELETE FROM results WHERE died IS NOT NULL");
    expect(await pipeline.lineage.provenance(asked)).toMatchObject({
      datums: [{ code: { node: "node-700" } }],
    });
  });
});

const isFreedTo = (fields: object): boolean => "freedTo" in fields;

/** Each is a moment before and a moment after which the gateway may die, while what is kept becomes less. */
const STEPS: readonly Omit<FaultPoint, "when">[] = [
  { at: "the call is noted", of: PipelineStore.prototype, method: "addOutputNews" },
  { at: "the branch is asked", of: feed, method: "kept", in: "output" },
  { at: "what is gone is noted", of: JobStore.prototype, method: "release" },
  { at: "from where to look is noted", of: PipelineStore.prototype, method: "setReleased" },
  { at: "the answer is noted", of: PipelineStore.prototype, method: "settleOutputNews" },
  { at: "results go", of: ResultStore.prototype, method: "free" },
  { at: "an upload is given up", of: GivenUpStore.prototype, method: "add" },
  { at: "another one is", of: GivenUpStore.prototype, method: "add", call: 2 },
  { at: "the history goes", of: MakerStore.prototype, method: "free" },
  { at: "how far it went is noted", of: PipelineStore.prototype, method: "set", which: isFreedTo },
  { at: "the branch lets go", of: UploadStore.prototype, method: "retire", in: "output" },
  { at: "it has let go", of: GivenUpStore.prototype, method: "settle" },
];

const POINTS = STEPS.flatMap((step): FaultPoint[] => [
  { ...step, when: "before", at: `before ${step.at}` },
  { ...step, when: "after", at: `after ${step.at}` },
]);

beforeAll(shortenPauses);

let lives = 0;

describe("a gateway that is killed while it gives back", () => {
  for (const [point, options] of sampled(POINTS, { every: 12 })) {
    it(`${point.at}, gives back all of it, and nothing else`, options, async () => {
      const name = `back-${++lives}`;
      await pipelineAfter(name, FOUR);
      const gateway = {
        input: { repo: `${name}-in`, branch: "master" },
        output: { repo: name, branch: "master" },
      };
      await keepNewest(gateway);
      await killedAt(name, { point, gateway, work: () => tell(name) });
      await insist(() => tell(name));
      await expect
        .poll(async () => {
          await ringAlarms(name, gateway);
          return { ...(await history(name)), ...(await held(name)) };
        })
        .toEqual({ results: 2, outputs: 2, made: 2, given_up: 0, uploads: 2, holds: 2 });
      await commit(`${name}-in`, { c: "1" });
      const ran = await insist(() => workUntil(pipelineOf(name), { jobs: 5, command: same }));
      expect(ranPaths(ran)).toEqual(["c"]);
      expect(await filesOf(gateway.output)).toEqual(["a.out", "b.out", "c.out"]);
    });
  }

  /** As if the output branch kept nothing but its newest commit, and had told nobody yet. */
  async function keepNewest({ output }: Gateway): Promise<void> {
    const stub = env.BRANCH.getByName(bucketName(output));
    await runInDurableObject(stub, (_, { storage: { sql } }) => {
      sql.exec("INSERT INTO horizons (gen, horizon, marked, diedFrom, diedPath) VALUES (1, 4, 0, 0, '')");
    });
    await killBranch(output);
  }
});

describe("a deletion that is killed while jobs go from the catalogue", () => {
  for (const when of ["before", "after"] as const) {
    it(`${when} some went, lets all of them go`, REST, async () => {
      const name = `gone-${++lives}`;
      const pipeline = await pipelineAfter(name, [{ a: "1" }, { b: "1" }]);
      const point: FaultPoint = { at: `${when} jobs go`, of: JobTable.prototype, method: "remove", when };
      await killedAt(name, { point, work: () => pipeline.lifecycle.destroy({ keepOutput: false }) });
      await expect
        .poll(async () => {
          await ringAlarms(name);
          return insist(() => query(name, "SELECT state FROM pipeline"));
        })
        .toEqual([{ state: "deleted" }]);
      expect(await catalogue.jobs.list({ pipeline: name, limit: 10 })).toEqual([]);
    });
  }
});
