/*
 * Bad datums, if the specification lets jobs succeed without them (`onDatumFailure: "skip"`), and the branch `errors` of
 * the pipeline's repo, which has a file for each. In brackets: what a step writes down. They are steps of a job's end
 * (advance.ts), and a pipeline that never had a bad datum takes none of them.
 *
 *  a. cured [error_changes, datums]: which datums are bad no more. One that is still there and has a result by now is
 *     born in this job for the output (DatumStore.replace): the walk over births would pass it over, since the last
 *     commit had the datum, but nothing of it. Its file goes, as does that of one that is there no more.
 *  b. noted [error_changes]: which datums are bad now and have no file, or one that tells of another failure. One that
 *     failed in the same way again keeps its file, so that a branch in which nothing is new gets no commit.
 *  c. errors-stage, errors-commit [jobs.errorsCommit]: once the job is marked, the branch commits; many files go there in
 *     pages before. It is claimed and fenced like the output branch, and knows the commit by the job's id, too.
 *  d. errors-record [bad_datums]: what the branch has now, which is what a and b of the next job start from.
 *
 * Who wins:
 *  - The output branch refuses its commit after c: the job fails, and the errors branch tells what was bad in it all the
 *    same. The next job compares with that, and c of it makes it right.
 *  - The mark is taken back after c, since a content of the output is gone (commit.ts): the job's commit in the errors branch
 *    is made and can't be made again. A datum that turns out to be bad only now is recorded without a file (fileHash null),
 *    and b of the next job makes that up.
 *  - A crash between c and the output commit: c is recorded, or asked for again and answered with the same commit; then the
 *    end goes on with the output.
 */

import { createHash } from "node:crypto";
import { INLINE_LIMIT_BYTES } from "../../../../protocol/content.ts";
import { bucketName } from "../../../../protocol/names.ts";
import type { Content } from "../../../blobs/content.ts";
import type { Operation } from "../../../branch/contract/files.ts";
import { datumPaths } from "../../../core/datums.ts";
import type { FailedAttempt, ShownAttempt } from "../../attempts/attempt-store.ts";
import type { JobWork } from "../../context.ts";
import type { JobRow } from "../../jobs/job-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { errorsOf } from "../../lifecycle/definition.ts";
import type { EndingStep, ErrorChange } from "../../output/draft-store.ts";
import { refusalWords } from "../../output/reasons.ts";
import { endStep } from "../guards.ts";
import { failOldest } from "../jobs.ts";
import { walkFrom } from "./collect.ts";
import type { JobCommit } from "./commit.ts";

/** Datums looked at, or recorded, in one transaction. */
const SLICE = 500;
/** Files sent in one call, with their bytes: 2 MiB at most. */
const PAGE = 500;
/** The file is cut to what a branch keeps in its own rows. */
const MAX_FILE_BYTES = INLINE_LIMIT_BYTES;
const MAX_REASON_BYTES = 1024;

/** Where the file of a datum is, whatever job it fails in. */
function errorPath(datum: string): string {
  return `errors/${datum}.json`;
}

/** What the end of a job begins with: the datums that were bad, if there were any or are some now. */
export function firstStep({ bad, pipeline }: Ledger, { failed }: Pick<JobRow, "failed">): EndingStep {
  if (failed > 0 || bad.any()) return { step: "cured", after: "" };
  return walkFrom("died", pipeline.existing.committed);
}

/** One slice of step a. */
export function noteCured(oldest: JobWork, from: string): void {
  const { bad, errorChanges, attempts, datums, ending } = oldest.ledger;
  const { n } = oldest.job;
  endStep(oldest, () => {
    const page = bad.page({ after: from, limit: SLICE });
    for (const { id, key } of page) {
      if (attempts.hasFailed(n, id)) continue;
      if (datums.aliveAt(id, n)) datums.replace(key, n);
      errorChanges.set({ id, key, gone: true });
    }
    const last = page.length === SLICE ? page.at(-1) : undefined;
    ending.set(n, last ? { step: "cured", after: last.id } : { step: "noted", after: null });
  });
}

/** One slice of step b. */
export function noteBad(oldest: JobWork, from: string | null): void {
  const { bad, errorChanges, attempts, ending, pipeline } = oldest.ledger;
  const { n } = oldest.job;
  endStep(oldest, () => {
    const page = attempts.failed(n, { after: from, limit: SLICE });
    for (const attempt of page) {
      const { id, key } = attempt;
      if (bad.get(id)?.fileHash !== wayOf(attempt, oldest)) errorChanges.set({ id, key, gone: false });
    }
    const last = page.length === SLICE ? page.at(-1) : undefined;
    const next = walkFrom("died", pipeline.existing.committed);
    ending.set(n, last ? { step: "noted", after: last.key } : next);
  });
}

/** The step after the mark: the errors branch, if a job changes anything there, comes before the output. */
export function stepAfterMark(
  ledger: Ledger,
  { job, output }: { job: Pick<JobRow, "errorsCommit">; output: EndingStep },
): EndingStep {
  const changes = ledger.errorChanges.count(PAGE + 1);
  if (changes === 0) return output;
  if (job.errorsCommit !== null) return { step: "errors-record", hasFiles: false };
  return changes > PAGE ? { step: "errors-stage", after: "" } : { step: "errors-commit", staged: false };
}

/** The commit of step c. */
export function errorsCommit(oldest: JobWork): JobCommit {
  const { ledger, definition, job } = oldest;
  return {
    to: "errors",
    steps: { stage: "errors-stage", commit: "errors-commit" },
    most: { staged: PAGE, committed: PAGE },
    page(after, limit) {
      const changes = ledger.errorChanges.page({ after, limit });
      return { ...filesOf(oldest, changes), last: changes.at(-1)?.id };
    },
    made(commit) {
      endStep(oldest, () => {
        ledger.jobs.setErrorsCommit(job.n, commit);
        ledger.ending.set(job.n, { step: "errors-record", hasFiles: true });
      });
    },
    failed(answer) {
      const bucket = bucketName(errorsOf(definition));
      const reason = `its failed datums can't be told in s3://${bucket}: ${refusalWords(answer)}`;
      failOldest(oldest, reason);
    },
  };
}

/** One slice of step d. `next`: what the end goes on with. */
export function recordErrors(
  oldest: JobWork,
  { hasFiles, next }: { hasFiles: boolean; next: () => EndingStep },
): void {
  const { bad, errorChanges, attempts, ending } = oldest.ledger;
  const { n } = oldest.job;
  endStep(oldest, () => {
    const changes = errorChanges.take(SLICE);
    for (const { id, key, gone } of changes) {
      const attempt = gone ? undefined : attempts.get(n, id);
      if (attempt) bad.set({ id, key, fileHash: hasFiles ? wayOf(attempt, oldest) : null });
      else bad.remove(id);
    }
    if (changes.length < SLICE) ending.set(n, next());
  });
}

interface Files {
  readonly operations: readonly Operation[];
  readonly contents: readonly Content[];
}

function filesOf(oldest: JobWork, changes: readonly ErrorChange[]): Files {
  const operations: Operation[] = [];
  const contents: Content[] = [];
  for (const { id, gone } of changes) {
    const attempt = gone ? undefined : oldest.ledger.attempts.get(oldest.job.n, id);
    const path = errorPath(id);
    if (!attempt) {
      operations.push({ delete: path });
      continue;
    }
    const bytes = fileOf(oldest, attempt);
    const digest = createHash("sha256").update(bytes).digest("hex");
    operations.push({ put: path, digest, size: bytes.length });
    contents.push({ digest, size: bytes.length, body: { kind: "inline", bytes } });
  }
  return { operations, contents };
}

/** What the branch tells of a bad datum. As far as it fits: of the log the end, of many long inputs the first ones. */
function fileOf(oldest: JobWork, attempt: ShownAttempt): Uint8Array {
  const { definition, job } = oldest;
  const { id, exitCode, reason, tries, node, finishedAt } = attempt;
  const inputs = inputsOf(oldest, attempt.key);
  const why = startThatFits(reason ?? "", MAX_REASON_BYTES);
  const log = linesOf(attempt.log);
  for (let leftOut = 0; ; leftOut++) {
    const shown = inputs.slice(0, inputs.length - leftOut);
    const fields = {
      ...{ datum: id, pipeline: definition.name, version: job.revision, job: job.id },
      inputs: shown,
      ...(leftOut > 0 && { inputsLeftOut: leftOut }),
      ...{ exitCode, reason: why, tries, node, failedAt: finishedAt },
    };
    const room = MAX_FILE_BYTES - encoded({ ...fields, log: [] }).length;
    if (room >= 0 || shown.length === 0) return encoded({ ...fields, log: lastThatFit(log, room) });
  }
}

function inputsOf({ ledger: { elements }, definition, job }: JobWork, key: string): readonly object[] {
  const paths = datumPaths(key);
  return definition.inputs.map(({ name, repo, branch, source }, input) => {
    const path = paths[input] ?? "";
    const { kind = "file", digest = null, size = null } = elements.at({ input, path, job: job.n }) ?? {};
    const commit = job.positions[source]?.commit ?? null;
    return { name, repo, branch, commit, path, kind, digest, size };
  });
}

function linesOf(log: string | null): string[] {
  return (log ?? "").split("\n").filter((line, index, all) => line !== "" || index < all.length - 1);
}

/** The last lines whose JSON takes no more than so many bytes; of a longer one its end. */
function lastThatFit(lines: readonly string[], room: number): string[] {
  const kept: string[] = [];
  let left = room;
  for (const line of lines.toReversed()) {
    const bytes = lineBytes(line);
    if (bytes > left) {
      const end = kept.length === 0 ? endThatFits(line, left) : "";
      if (end !== "") kept.push(end);
      break;
    }
    kept.push(line);
    left -= bytes;
  }
  return kept.reverse();
}

/** With its indentation, comma and newline. */
function lineBytes(line: string): number {
  return new TextEncoder().encode(JSON.stringify(line)).length + "    ,\n".length;
}

function endThatFits(line: string, room: number): string {
  let end = line.slice(-Math.max(0, room));
  while (end !== "" && lineBytes(end.toWellFormed()) > room) end = end.slice(Math.ceil(end.length / 8));
  return end.toWellFormed();
}

function startThatFits(text: string, room: number): string {
  let start = text.slice(0, room);
  while (lineBytes(start.toWellFormed()) > room) start = start.slice(0, Math.floor((start.length * 7) / 8));
  return start.toWellFormed();
}

/** JSON for people: a field a line. */
function encoded(value: object): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify(value, null, 2)}\n`);
}

/** What makes two failures of a datum the same: what was computed, how it ended and what it said. */
function wayOf(
  { exitCode, reason, log }: Pick<FailedAttempt, "exitCode" | "reason" | "log">,
  { definition }: JobWork,
): string {
  const way = JSON.stringify([definition.salt, exitCode, reason, log]);
  return createHash("sha256").update(new TextEncoder().encode(way)).digest("hex");
}
