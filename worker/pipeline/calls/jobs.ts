import type { Job } from "../../../protocol/pipelines.ts";
import type { JobCalls } from "../contract.ts";
import type { JobRow } from "../jobs/job-store.ts";
import { shownJobs } from "../views/job.ts";
import { foundPipeline } from "../views/pipeline.ts";
import { summarize } from "../views/summary.ts";
import { stopJob } from "../work/jobs/end.ts";
import { oldestListed } from "../work/trim/trim.ts";
import type { PipelineFacet, Reach } from "./facet.ts";
import { beginRetry } from "./retry.ts";

/** Greater than every job id. */
const AFTER_ALL_IDS = "~";

export const jobs: PipelineFacet<JobCalls> = {
  async list(reach, { after = AFTER_ALL_IDS, limit }) {
    const { ledger, peers } = reach;
    if (!ledger.exists) return { jobs: [], next: null };
    const from = oldestListed(ledger.jobs, peers.keptJobs);
    const rows = ledger.jobs.before(after, { from, limit: limit + 1 });
    const page = rows.slice(0, limit);
    return {
      jobs: await shownJobs(reach, page),
      next: rows.length > page.length ? (page.at(-1)?.id ?? null) : null,
    };
  },

  async view(reach, id) {
    const row = rowOf(reach, id);
    return row ? await viewOne(reach, row) : null;
  },

  async unfinished(reach, ids) {
    const rows = ids.map((id) => rowOf(reach, id)).filter((row) => row?.finishedAt === null);
    return await shownJobs(
      reach,
      rows.filter((row) => row !== undefined),
    );
  },

  async wait(reach, { id, waitMs }) {
    const { peers, engine } = reach;
    const deadline = peers.now() + waitMs;
    for (;;) {
      const row = rowOf(reach, id);
      const leftMs = deadline - peers.now();
      if (!row) return null;
      if (row.finishedAt !== null || leftMs <= 0) return await viewOne(reach, row);
      await engine.jobEnds(id, leftMs);
    }
  },

  async summary(reach, id) {
    const row = rowOf(reach, id);
    return row ? { ok: true, ...summarize(reach.ledger, row) } : { ok: false, reason: "no-such-job" };
  },

  async stop(reach, id) {
    const { ledger, engine } = reach;
    const stopped = ledger.exists ? ledger.transaction((tx) => stopJob(tx, reach, id)) : "no-such-job";
    if (stopped !== "stopped" && stopped !== "was-stopped") return { ok: false, reason: stopped };
    engine.watch();
    const row = rowOf(reach, id);
    const job = row && (await viewOne(reach, row));
    return job ? { ok: true, job } : { ok: false, reason: "no-such-job" };
  },

  async retry(reach, { job: asked, every, key }) {
    const { ledger, engine } = reach;
    if (!foundPipeline(ledger)) return { ok: false, reason: "no-such-job" };
    // A change that is under way comes first, and then what the inputs have.
    await engine.runSaga();
    if (!(await engine.lookAtInputs())) return { ok: false, reason: "unavailable" };
    const retry = { asked, every, ...(key !== undefined && { key }) };
    let begun = beginRetry(reach, retry);
    await engine.runSaga();
    // Another change came first, perhaps that of the same retry.
    if (!begun.ok && begun.reason === "unavailable") begun = beginRetry(reach, retry);
    if (!begun.ok) return begun;
    void engine.resume();
    await engine.tellOfJobs();
    const made = ledger.jobs.get(begun.made);
    const job = made && (await viewOne(reach, made));
    return job ? { ok: true, job, newest: begun.newest } : { ok: false, reason: "unavailable" };
  },
};

function rowOf({ ledger }: Reach, id: string): JobRow | undefined {
  return ledger.exists ? ledger.jobs.byId(id) : undefined;
}

async function viewOne(reach: Reach, row: JobRow): Promise<Job | null> {
  return (await shownJobs(reach, [row]))[0] ?? null;
}
