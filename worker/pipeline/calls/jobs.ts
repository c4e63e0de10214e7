import type { Refused } from "../../branch/contract/answers.ts";
import type { Tx } from "../../objects/transaction.ts";
import { WaitTime } from "../../objects/waiters.ts";
import type { PipelineContext } from "../context.ts";
import type { JobCalls } from "../contract.ts";
import { ALL_COLLECTED, type JobRow, oldestListed, type Retry } from "../jobs/job-store.ts";
import type { Definition } from "../lifecycle/definition.ts";
import { shownJob, shownJobs, summarize } from "../views/job.ts";
import { foundPipeline } from "../views/pipeline.ts";
import { flushPage } from "../work/catalogue.ts";
import { insertJob, pipelineEvent, stopJob } from "../work/jobs.ts";
import { answered, changeState, inputsRest, type PipelineFacet, type Reach } from "./facet.ts";
import { wakeUps } from "./lifecycle.ts";

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
    return row ? await shownJob(reach, row) : null;
  },

  async unfinished(reach, ids) {
    const rows = ids.flatMap((id) => rowOf(reach, id) ?? []);
    const open = rows.filter(({ finishedAt }) => finishedAt === null);
    return open.length === 0 ? [] : await shownJobs(reach, open);
  },

  async wait(reach, { id, waitMs }) {
    const { peers, memory } = reach;
    const time = new WaitTime(waitMs, peers.now);
    for (;;) {
      const row = rowOf(reach, id);
      const { leftMs } = time;
      if (!row) return null;
      if (row.finishedAt !== null || leftMs <= 0) return await shownJob(reach, row);
      await memory.ended.wait(id, leftMs);
    }
  },

  async summary(reach, id) {
    const row = rowOf(reach, id);
    return answered(row ? summarize(reach.ledger, row) : "no-such-job");
  },

  async stop(reach, id) {
    const { ledger } = reach;
    const stopped = ledger.exists ? ledger.transaction((tx) => stopJob(tx, reach, id)) : "no-such-job";
    if (stopped !== "stopped" && stopped !== "was-stopped") return { ok: false, reason: stopped };
    const row = rowOf(reach, id);
    return row ? { ok: true, job: await shownJob(reach, row) } : { ok: false, reason: "no-such-job" };
  },

  /** Makes a job in which nothing changed: it takes over what failed, as any next job does. */
  async retry(reach, { job: asked, every, key }) {
    const { ledger, engine } = reach;
    if (!foundPipeline(ledger)) return { ok: false, reason: "no-such-job" };
    // A change that is under way comes first, and then what the inputs have.
    await changeState(reach);
    if (!(await inputsAreRead(reach))) return { ok: false, reason: "unavailable" };
    const retry = { asked, every, ...(key !== undefined && { key }) };
    let begun = beginRetry(reach, retry);
    await changeState(reach);
    // Another change came first, perhaps that of the same retry.
    if (!begun.ok && begun.reason === "unavailable") begun = beginRetry(reach, retry);
    if (!begun.ok) return begun;
    void engine.resume();
    await tellOfJobs(reach);
    const made = ledger.jobs.get(begun.made);
    if (!made) return { ok: false, reason: "unavailable" };
    return { ok: true, job: await shownJob(reach, made), newest: begun.newest };
  },
};

/** Reads what the inputs have, if the pipeline runs. Returns false if that is not done in time. */
async function inputsAreRead(reach: Reach): Promise<boolean> {
  const { ledger } = reach;
  const active = ledger.active();
  if (!active) return true;
  await wakeUps.ring(reach, { uid: active.uid });
  await inputsRest(reach);
  return ledger.pipeline.row()?.pullDue !== 1;
}

/** The catalogue hears of new jobs before a caller does, who may ask for one by its id. If it can't be reached, it hears later. */
async function tellOfJobs(reach: Reach): Promise<void> {
  try {
    await flushPage(reach);
  } catch (error) {
    console.warn(
      `the catalogue can't be told of a new job of pipeline ${reach.ledger.pipeline.name()} yet: ${error}`,
    );
  }
}

function rowOf({ ledger }: Reach, id: string): JobRow | undefined {
  return ledger.exists ? ledger.jobs.byId(id) : undefined;
}

/** `made`: the number of the job, which is there at once, or once the change of state that makes it is done. */
type RetryBegun =
  | { readonly ok: true; readonly made: number; readonly newest: string }
  | Refused<"no-such-job" | "stopped" | "no-data" | "unavailable">
  | { readonly ok: false; readonly reason: "job-running"; readonly job: string };

/**
 * Begins one job for where the inputs are now, whatever the job read that was asked for: what failed or was left undone
 * is taken over from the newest one, as by any next job (work/finish/advance.ts). If every datum is to run again, the
 * specification becomes a version with another salt, as by an update that reprocesses; the pipeline stays whose it is.
 *
 * While a job has not ended, there is nothing to retry yet. If that job was made by this very retry, whose answer may
 * have been lost, it is the answer: asking twice makes one job.
 */
function beginRetry(context: PipelineContext, { key, ...retry }: Retry & { key?: string }): RetryBegun {
  const { ledger } = context;
  return ledger.transaction((tx): RetryBegun => {
    const { jobs, pipeline } = ledger;
    const row = pipeline.row();
    const definition = pipeline.definition();
    const newest = jobs.newest();
    if (!row || !definition || !newest || !jobs.byId(retry.asked))
      return { ok: false, reason: "no-such-job" };
    if (row.state === "stopped") return { ok: false, reason: "stopped" };
    if (row.state !== "active") return { ok: false, reason: "unavailable" };
    const running = jobs.newestUnfinished();
    if (running && jobs.madeByRetry(retry) === running.n) {
      return { ok: true, made: running.n, newest: jobs.get(running.n - 1)?.id ?? retry.asked };
    }
    if (running) return { ok: false, reason: "job-running", job: running.id };
    if (row.hadFirstJob !== 1) return { ok: false, reason: "no-data" };
    const made = newest.n + 1;
    if (retry.every) reprocess(tx, context, { definition, key: key ?? null });
    else repeat(tx, context, definition);
    jobs.setRetry(retry, made);
    return { ok: true, made, newest: newest.id };
  });
}

/** A job in which nothing has changed: all that it runs is what the ones before it left undone. */
function repeat(tx: Tx, context: PipelineContext, definition: Definition): void {
  context.ledger.pipeline.setNewVersion();
  insertJob(tx, context, { ...pipelineEvent(context.ledger, definition), fill: ALL_COLLECTED });
}

/** The update goes on with it (work/saga/update.ts), and makes the job. */
function reprocess(
  _: Tx,
  { ledger, peers }: PipelineContext,
  { definition, key }: { definition: Definition; key: string | null },
): void {
  const { spec, starts, limited, ...before } = definition;
  const revision = before.revision + 1;
  // The specification is the same, and so is what it was read from.
  const by = { key, text: ledger.versions.text(before.revision) };
  ledger.pipeline.setNextRevision(
    { revision, spec, starts, limited, salt: String(revision) },
    { by, now: peers.now() },
  );
  ledger.pipeline.setState("updating");
}
