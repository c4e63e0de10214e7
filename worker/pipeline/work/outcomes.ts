import { PATH_FAULT_TEXT, pathFault } from "../../../protocol/paths.ts";
import type { Outcome } from "../../../protocol/runner.ts";
import type { Tx } from "../../sqlite/transaction.ts";
import type { Uses } from "../context.ts";
import { endEarly } from "../jobs/end.ts";
import type { Fault, HeldAttempt } from "./attempt-store.ts";
import { type Sweeps, sweep } from "./expiry.ts";
import type { TaskRow } from "./task-store.ts";
import { failJobOf } from "./tasks.ts";

/** What recording an outcome touches. */
type Records = Sweeps & Uses<"results" | "codes" | "merges" | "egress">;

type DatumSuccess = Extract<Outcome, { state: "success" }>;
type Success = Exclude<Outcome, { state: "returned" | "failed" }>;

/**
 * Records what became of one lease, of a datum or of a task; returns false if it is lost. The lease is the fence: a
 * worker that was given up and comes back late changes no row, whatever it thinks it finished.
 */
export function recordOutcome(tx: Tx, uses: Records, outcome: Outcome): boolean {
  const { ledger, peers } = uses;
  const now = peers.now();
  sweep(tx, uses, now);
  const attempt = ledger.attempts.held(outcome.lease);
  if (attempt) {
    recordDatum(tx, uses, { attempt, outcome, now });
    return true;
  }
  const task = ledger.tasks.held(outcome.lease);
  if (task) recordTask(tx, uses, { task, outcome });
  return task !== undefined;
}

function recordDatum(
  tx: Tx,
  uses: Records,
  { attempt, outcome, now }: { attempt: HeldAttempt; outcome: Outcome; now: number },
): void {
  const { ledger } = uses;
  switch (outcome.state) {
    case "success": {
      const fault = outputFault(outcome);
      if (fault) fail(fault);
      else succeed(outcome);
      return;
    }
    case "failed":
      if (outcome.endsJob) failForAll(outcome);
      else fail(outcome);
      return;
    case "merged":
    case "pushed":
      fail({ exitCode: null, reason: `its worker reported '${outcome.state}' for a datum`, log: "" });
      return;
    case "returned":
      // The worker keeps its slot: it may only have been given more than it gets to. One that ends says so (renew).
      ledger.attempts.requeue(attempt);
  }

  function succeed({ exitCode, millis, outputs, upload, ran }: DatumSuccess): void {
    const { id, job, revision: version, node } = attempt;
    const what = ran ?? { executor: null, image: null };
    const code = ledger.codes.numberOf({ version, node, ...what });
    ledger.results.record({ id, job, exitCode, millis, upload: upload ?? null, outputs, code, now });
    ledger.attempts.succeed(attempt, { exitCode, now });
  }

  function fail({ exitCode, reason, log }: Fault): void {
    const tries = attempt.tries + 1;
    if (tries >= (ledger.pipeline.active()?.spec.datumTries ?? tries)) {
      ledger.attempts.fail({ ...attempt, tries }, { exitCode, reason, log, now });
      return;
    }
    ledger.attempts.note(attempt, { exitCode, reason, log });
    ledger.attempts.requeue({ ...attempt, tries });
  }

  /** No other datum of the job could run either, nor could this one: it is not tried again before the next job. */
  function failForAll({ exitCode, reason, log }: Fault): void {
    ledger.attempts.fail({ ...attempt, tries: attempt.tries + 1 }, { exitCode, reason, log, now });
    const job = ledger.jobs.get(attempt.job);
    if (job) endEarly(tx, uses, { job, state: "failure", reason });
  }
}

function recordTask(tx: Tx, uses: Records, { task, outcome }: { task: TaskRow; outcome: Outcome }): void {
  const { ledger } = uses;
  switch (outcome.state) {
    case "returned":
      ledger.tasks.requeue(task);
      return;
    case "failed":
      fail(outcome.reason, outcome.endsJob);
      return;
    default: {
      const fault = taskFault(ledger, { task, outcome });
      if (fault === undefined) succeed(outcome);
      else fail(fault);
    }
  }

  function succeed(success: Success): void {
    const { id, job } = task;
    if (success.state === "merged") {
      ledger.merges.record({ id, job, ...success.content, upload: success.upload ?? null });
    } else {
      ledger.egress.pushed(id);
      if (success.state === "pushed" && success.remark !== undefined) ledger.jobs.remark(job, success.remark);
    }
    ledger.tasks.remove(id);
  }

  function fail(why: string, isFinal?: true): void {
    const tries = task.tries + 1;
    ledger.tasks.note(task.id, why);
    ledger.tasks.requeue({ ...task, tries });
    if (isFinal || tries >= (ledger.pipeline.active()?.spec.datumTries ?? tries)) {
      failJobOf(tx, uses, { task, why });
    }
  }
}

/** An output that the tree can't hold would fail the whole commit: it fails its datum instead. */
function outputFault({ outputs, exitCode }: DatumSuccess): Fault | undefined {
  for (const { path, size } of outputs) {
    const fault = pathFault(path) ?? (path.endsWith("/") && size > 0 ? "directory-with-bytes" : undefined);
    if (fault) return { exitCode, reason: `bad output path '${path}': ${PATH_FAULT_TEXT[fault]}`, log: "" };
  }
  return undefined;
}

/** Why an outcome that a runner reported as success does not count as one. */
function taskFault(
  { tasks }: Records["ledger"],
  { task, outcome }: { task: TaskRow; outcome: Success },
): string | undefined {
  const expected = task.kind === "merge" ? "merged" : "pushed";
  if (outcome.state !== expected) return `its worker reported '${outcome.state}' instead of '${expected}'`;
  if (outcome.state !== "merged") return undefined;
  const bytes = tasks.parts(task.id).reduce((sum, { size }) => sum + size, 0);
  const { size } = outcome.content;
  return size === bytes ? undefined : `the merged content has ${size} bytes, its parts have ${bytes}`;
}
