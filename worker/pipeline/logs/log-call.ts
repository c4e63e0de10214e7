import type { Refused } from "../../branch/contract.ts";
import type { PipelineContext } from "../context.ts";
import type { LogPage, LogsCall } from "../contract.ts";
import { readLogs } from "./job-logs.ts";

/** A page of what a job printed; where it is followed and there is nothing, it is waited for, or for the end of the job. */
export async function answerLogs(
  { ledger, peers }: PipelineContext,
  { request, jobLogged }: { request: LogsCall; jobLogged: (waitMs: number) => Promise<void> },
): Promise<
  | ({ ok: true } & LogPage)
  | Refused<"no-such-job" | "no-such-datum" | "no-such-place">
  | Refused<"several-datums">
> {
  const { job: id, datum, after, waitMs } = request;
  const deadline = peers.now() + (waitMs ?? 0);
  for (;;) {
    const job = ledger.exists ? ledger.jobs.byId(id) : undefined;
    if (!job) return { ok: false, reason: "no-such-job" };
    const page = readLogs(ledger, { job, datum, after, follows: waitMs !== null });
    if (typeof page === "string") return { ok: false, reason: page };
    const leftMs = deadline - peers.now();
    if (page.rest !== "later" || page.chunks.length > 0 || leftMs <= 0) return { ok: true, ...page };
    await jobLogged(leftMs);
  }
}
