import { PATH_FAULT_TEXT, pathFault } from "../../../protocol/paths.ts";
import type { Outcome } from "../../../protocol/runner.ts";
import type { PipelineContext } from "../context.ts";
import { cutShort, tellOfCut } from "../jobs/end.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { AttemptRow, Fault } from "./attempt-store.ts";
import { sweep } from "./expiry.ts";
import type { TaskRow } from "./task-store.ts";
import { failJob } from "./tasks.ts";

/**
 * Records what became of one lease; false where it is lost. The lease is the fence: a worker that was given up and
 * comes back late changes no row, whatever it thinks it finished.
 */
export function settle(parts: PipelineContext, outcome: Outcome): boolean {
  const { ledger, peers } = parts;
  const now = peers.now();
  sweep(parts, now);
  if (settleTask(parts, outcome)) return true;
  const attempt = ledger.attempts.held(outcome.lease);
  if (!attempt) return false;
  switch (outcome.state) {
    case "success": {
      const fault = outputFault(outcome);
      if (fault) return failed(ledger, { attempt, fault, now });
      const { exitCode, millis, outputs } = outcome;
      const { id, job } = attempt;
      ledger.results.record({ id, job, exitCode, millis, upload: outcome.upload ?? null, outputs, now });
      ledger.attempts.succeed(attempt, { exitCode, now });
      return true;
    }
    case "failed":
      if (outcome.endsJob) return failedForAll(parts, { attempt, fault: outcome, now });
      return failed(ledger, { attempt, fault: outcome, now });
    case "merged":
    case "pushed": {
      const reason = `its worker reported '${outcome.state}' for a datum`;
      return failed(ledger, { attempt, fault: { exitCode: null, reason, log: "" }, now });
    }
    case "returned":
      // The worker keeps its slot: it may only have been given more than it gets to. One that ends says so (renew).
      ledger.attempts.requeue(attempt);
      return true;
  }
}

function failed(
  ledger: Ledger,
  { attempt, fault, now }: { attempt: AttemptRow; fault: Fault; now: number },
): true {
  const tries = attempt.tries + 1;
  const { exitCode, reason, log } = fault;
  if (tries >= (ledger.active()?.spec.datumTries ?? tries)) {
    ledger.attempts.fail({ ...attempt, tries }, { exitCode, reason, log, now });
    return true;
  }
  ledger.attempts.note(attempt, { exitCode, reason, log });
  ledger.attempts.requeue({ ...attempt, tries });
  return true;
}

/** No other datum of the job could run either, nor could this one: it is not tried again before the next job. */
function failedForAll(
  parts: PipelineContext,
  { attempt, fault, now }: { attempt: AttemptRow; fault: Fault; now: number },
): true {
  const { ledger } = parts;
  const { exitCode, reason, log } = fault;
  ledger.attempts.fail({ ...attempt, tries: attempt.tries + 1 }, { exitCode, reason, log, now });
  const job = ledger.jobs.get(attempt.job);
  if (job && cutShort(parts, { job, state: "failure", reason })) tellOfCut(parts, job.id);
  return true;
}

/** An output that the tree can't hold would fail the whole commit: it fails its datum instead. */
function outputFault({ outputs, exitCode }: Extract<Outcome, { state: "success" }>): Fault | undefined {
  for (const { path, size } of outputs) {
    const fault = pathFault(path) ?? (path.endsWith("/") && size > 0 ? "directory-with-bytes" : undefined);
    if (fault) return { exitCode, reason: `bad output path '${path}': ${PATH_FAULT_TEXT[fault]}`, log: "" };
  }
  return undefined;
}

/** Records what became of a task; undefined where the lease is none of a task, or is lost. To be called in a transaction. */
function settleTask(parts: PipelineContext, outcome: Outcome): true | undefined {
  const { ledger } = parts;
  const task = ledger.tasks.held(outcome.lease);
  if (!task) return undefined;
  if (outcome.state === "returned") ledger.tasks.requeue(task);
  else if (outcome.state === "failed")
    failedTask(parts, { task, why: outcome.reason, isFinal: outcome.endsJob });
  else {
    const why = taskFault(ledger, { task, outcome });
    if (why !== undefined) failedTask(parts, { task, why });
    else done(ledger, { task, outcome });
  }
  return true;
}

type Success = Exclude<Outcome, { state: "returned" | "failed" }>;

/** Why what is called a success is none. */
function taskFault(
  ledger: Ledger,
  { task, outcome }: { task: TaskRow; outcome: Success },
): string | undefined {
  const expected = task.kind === "merge" ? "merged" : "pushed";
  if (outcome.state !== expected) return `its worker reported '${outcome.state}' instead of '${expected}'`;
  if (outcome.state !== "merged") return undefined;
  const bytes = ledger.tasks.parts(task.id).reduce((sum, { size }) => sum + size, 0);
  const { size } = outcome.content;
  return size === bytes ? undefined : `the merged content has ${size} bytes, its parts have ${bytes}`;
}

function done(ledger: Ledger, { task, outcome }: { task: TaskRow; outcome: Success }): void {
  const { id, job } = task;
  if (outcome.state === "merged") {
    ledger.merges.record({ id, job, ...outcome.content, upload: outcome.upload ?? null });
  } else ledger.egress.pushed(id);
  ledger.tasks.remove(id);
}

function failedTask(
  parts: PipelineContext,
  { task, why, isFinal }: { task: TaskRow; why: string; isFinal?: true | undefined },
): void {
  const { ledger } = parts;
  const tries = task.tries + 1;
  ledger.tasks.note(task.id, why);
  ledger.tasks.requeue({ ...task, tries });
  if (isFinal || tries >= (ledger.active()?.spec.datumTries ?? tries)) failJob(parts, { task, why });
}
