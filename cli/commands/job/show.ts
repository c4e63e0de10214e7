import type { Job } from "../../../protocol/pipelines.ts";
import { ERRORS_BRANCH } from "../../../protocol/spec.ts";
import { printLine, showTime } from "../../output/output.ts";

/** A job's counts in words. */
export function showDatums({ datums }: Job): string {
  const { total, processed, skipped, failed } = datums;
  return `${processed} processed, ${skipped} skipped, ${failed} failed of ${total}`;
}

/** Prints a job for people. */
export function printJob(job: Job): void {
  printLine(`id        ${job.id}`);
  printLine(`pipeline  ${job.pipeline}`);
  printLine(`state     ${job.state}${job.reason === null ? "" : ` (${job.reason})`}`);
  printLine(`datums    ${showDatums(job)}`);
  for (const { name, repo, branch, commit } of job.inputs) {
    printLine(`input     ${name}: s3://${branch}.${repo} at ${commit ?? "nothing yet"}`);
  }
  printLine(`output    ${job.outputCommit ?? "-"}`);
  if (job.errorsCommit !== undefined) {
    printLine(`errors    s3://${ERRORS_BRANCH}.${job.pipeline} at ${job.errorsCommit}`);
  }
  printLine(`created   ${showTime(job.createdAt)}`);
  printLine(`started   ${showTime(job.startedAt)}`);
  printLine(`finished  ${showTime(job.finishedAt)}`);
}
