import type { Job } from "../../../protocol/pipelines.ts";
import type { PipelineContext } from "../context.ts";
import type { JobRow } from "./job-store.ts";
import { viewJob } from "./view.ts";
import { waitingReason } from "./waiting-reason.ts";

/** Jobs for people, each with why it waits. */
export async function shownJobs({ ledger, peers }: PipelineContext, rows: readonly JobRow[]): Promise<Job[]> {
  const front = ledger.jobs.front();
  const jobs: Job[] = [];
  for (const row of rows) {
    const reason = await waitingReason(row, { ledger, front, peers });
    jobs.push({ ...viewJob(row, { ledger, front }), reason });
  }
  return jobs;
}

/** Why each of these jobs waits that has not ended, by id. */
export async function reasonsOf(
  parts: PipelineContext,
  ids: readonly string[],
): Promise<Record<string, string | null>> {
  const { ledger } = parts;
  const rows = ledger.exists ? ids.map((id) => ledger.jobs.byId(id)) : [];
  const waiting = rows.filter((row) => row !== undefined).filter(({ finishedAt }) => finishedAt === null);
  return Object.fromEntries((await shownJobs(parts, waiting)).map(({ id, reason }) => [id, reason]));
}
