import { bucketName } from "../../../protocol/names.ts";
import { type Job, listedState } from "../../../protocol/pipelines.ts";
import { ERRORS_BRANCH } from "../../../protocol/spec.ts";
import { count, printLine, showTime } from "../../output/output.ts";

/** A job's counts in words. */
export function showDatums({ datums }: Job): string {
  const { total, processed, skipped, failed } = datums;
  return `${processed} processed, ${skipped} skipped, ${failed} failed of ${total}`;
}

/** How many datums have a result, for a table: "95 of 100, 5 failed". */
export function goodDatums({ datums }: Pick<Job, "datums">): string {
  const { total, processed, skipped, failed } = datums;
  const beside = [
    ...(skipped > 0 ? [`${skipped} skipped`] : []),
    ...(failed > 0 ? [`${failed} failed`] : []),
  ];
  return [`${processed + skipped} of ${total}`, ...beside].join(", ");
}

/** A commit that was read or made, and that its files are gone if that is so. */
export function showRead({ commit, kept }: Pick<Job["inputs"][number], "commit" | "kept">): string {
  return `${commit ?? "nothing yet"}${kept === false ? " (kept no more)" : ""}`;
}

function showMade({ output, outputCommit }: Job): string {
  if (outputCommit === null) return "-";
  if (!output) return outputCommit;
  return `s3://${bucketName(output)} at ${showRead({ commit: outputCommit, kept: output.kept })}`;
}

/** The version of the specification that a job was made for, for a table. */
export function showVersion({ version }: Job): string {
  return version === undefined ? "-" : String(version);
}

/** How far a job is, on one line: "46 of 200, 2 failed". */
export function progressText(job: Job): string {
  const { reason, datums } = job;
  const { total, processed, skipped, failed } = datums;
  const done = `${processed + skipped + failed} of ${total}`;
  return `${listedState(job)}: ${done}${failed > 0 ? `, ${failed} failed` : ""}${reason === null ? "" : ` (${reason})`}`;
}

/** What of a job is left, on one line: "running, 154 of 200 datums left, 2 failed". */
export function leftText(job: Job): string {
  const { reason, datums } = job;
  const { total, processed, skipped, failed } = datums;
  const left = total - processed - skipped - failed;
  const parts = [
    listedState(job),
    ...(total > 0 ? [`${left} of ${count(total, "datum")} left`] : []),
    ...(failed > 0 ? [`${failed} failed`] : []),
  ];
  return `${parts.join(", ")}${reason === null ? "" : ` (${reason})`}`;
}

/** Prints a job for people. */
export function printJob(job: Job): void {
  printLine(`id        ${job.id}`);
  printLine(`pipeline  ${job.pipeline}`);
  printLine(`version   ${showVersion(job)}`);
  printLine(`state     ${listedState(job)}${job.reason === null ? "" : ` (${job.reason})`}`);
  printLine(`datums    ${showDatums(job)}`);
  for (const { name, repo, branch, ...read } of job.inputs) {
    printLine(`input     ${name}: s3://${branch}.${repo} at ${showRead(read)}`);
  }
  printLine(`output    ${showMade(job)}`);
  if (job.errorsCommit !== undefined) {
    printLine(`errors    s3://${ERRORS_BRANCH}.${job.pipeline} at ${job.errorsCommit}`);
  }
  printLine(`created   ${showTime(job.createdAt)}`);
  printLine(`started   ${showTime(job.startedAt)}`);
  printLine(`finished  ${showTime(job.finishedAt)}`);
}
