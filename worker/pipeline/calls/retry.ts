import type { Refused } from "../../branch/contract.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { Uses } from "../context.ts";
import { ALL_COLLECTED } from "../jobs/job-store.ts";
import type { Retry } from "../jobs/retry-store.ts";
import type { Definition } from "../lifecycle/definition.ts";
import { insertJob, type MakesJobs, pipelineEvent } from "../work/jobs/make.ts";

type Needs = MakesJobs & Uses<"transaction" | "pipeline" | "versions" | "retries">;

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
export function beginRetry(uses: Needs, { key, ...retry }: Retry & { key?: string }): RetryBegun {
  const { ledger } = uses;
  return ledger.transaction((tx): RetryBegun => {
    const { jobs, pipeline, retries } = ledger;
    const row = pipeline.row();
    const definition = pipeline.definition();
    const newest = jobs.newest();
    if (!row || !definition || !newest || !jobs.byId(retry.asked))
      return { ok: false, reason: "no-such-job" };
    if (row.state === "stopped") return { ok: false, reason: "stopped" };
    if (row.state !== "active") return { ok: false, reason: "unavailable" };
    const running = jobs.newestUnfinished();
    if (running && retries.made(retry) === running.n) {
      return { ok: true, made: running.n, newest: jobs.get(running.n - 1)?.id ?? retry.asked };
    }
    if (running) return { ok: false, reason: "job-running", job: running.id };
    if (row.hadFirstJob !== 1) return { ok: false, reason: "no-data" };
    const made = newest.n + 1;
    if (retry.every) reprocess(tx, uses, { definition, key: key ?? null });
    else repeat(tx, uses, definition);
    retries.set(retry, made);
    return { ok: true, made, newest: newest.id };
  });
}

/** A job in which nothing has changed: all that it runs is what the ones before it left undone. */
function repeat(tx: Tx, uses: Needs, definition: Definition): void {
  uses.ledger.pipeline.setNewVersion();
  insertJob(tx, uses, { ...pipelineEvent(uses.ledger, definition), fill: ALL_COLLECTED });
}

/** The update goes on with it (work/saga/update.ts), and makes the job. */
function reprocess(
  _: Tx,
  { ledger, peers }: Needs,
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
