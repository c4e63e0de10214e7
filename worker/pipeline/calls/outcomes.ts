import { PATH_FAULT_TEXT, pathFault } from "../../../protocol/paths.ts";
import type { Outcome } from "../../../protocol/runner.ts";
import { type PipelineSpec, skipsBadDatums } from "../../../protocol/spec.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { AttemptRow, Fault, HeldAttempt } from "../attempts/attempt-store.ts";
import type { TaskRow } from "../attempts/task-store.ts";
import type { PipelineContext } from "../context.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { endEarly } from "../work/jobs/end.ts";
import { sweep } from "../work/leases/expiry.ts";
import { failJobOf } from "../work/leases/tasks.ts";

type DatumSuccess = Extract<Outcome, { state: "success" }>;
/** A fault, and whether it is the datum's own. */
type JudgedFault = Fault & { readonly own: boolean };
type Success = Exclude<Outcome, { state: "returned" | "failed" }>;

/**
 * Records what became of one lease, of a datum or of a task; returns false if it is lost. The lease is the fence: a
 * worker that was given up and comes back late changes no row, whatever it thinks it finished.
 */
export function recordOutcome(tx: Tx, context: PipelineContext, outcome: Outcome): boolean {
  const { ledger, peers } = context;
  const now = peers.now();
  sweep(tx, context, now);
  const attempt = ledger.attempts.held(outcome.lease);
  if (attempt) {
    recordDatum(tx, context, { attempt, outcome, now });
    return true;
  }
  const task = ledger.tasks.held(outcome.lease);
  if (task) recordTask(tx, context, { task, outcome });
  return task !== undefined;
}

function recordDatum(
  tx: Tx,
  context: PipelineContext,
  { attempt, outcome, now }: { attempt: HeldAttempt; outcome: Outcome; now: number },
): void {
  const { ledger } = context;
  switch (outcome.state) {
    case "success": {
      const fault = outputFault(outcome);
      if (fault) fail({ ...fault, own: true });
      else succeed(outcome);
      return;
    }
    case "failed":
      if (outcome.endsJob) failForAll(outcome);
      else fail({ ...outcome, own: outcome.blame === "datum" });
      return;
    case "merged":
    case "pushed": {
      const reason = `its worker reported '${outcome.state}' for a datum`;
      fail({ exitCode: null, reason, log: "", own: false });
      return;
    }
    case "returned":
      // The worker keeps its slot: it may only have been given more than it gets to. One that ends says so (renew).
      ledger.attempts.requeue(attempt);
  }

  function succeed({ exitCode, millis, outputs, upload, ran }: DatumSuccess): void {
    const { id, job, revision: version, node } = attempt;
    const code = ledger.codes.numberOf({ version, node, ...ran });
    ledger.results.record({ id, job, exitCode, millis, upload: upload ?? null, outputs, code, now });
    ledger.attempts.succeed(attempt, { exitCode, now });
  }

  function fail({ exitCode, reason, log, own }: JudgedFault): void {
    const spec = ledger.pipeline.active()?.spec;
    const tries = attempt.tries + 1;
    const troubles = attempt.troubles + (own ? 0 : 1);
    const verdict = verdictOf({ tries, troubles }, spec);
    if (verdict !== "again") {
      const bad = verdict === "bad";
      ledger.attempts.fail({ ...attempt, tries, troubles }, { exitCode, reason, log, now, bad });
      return;
    }
    ledger.attempts.note(attempt, { exitCode, reason, log });
    ledger.attempts.requeue({ ...attempt, tries, troubles });
  }

  /** No other datum of the job could run either, nor could this one: it is not tried again before the next job. */
  function failForAll({ exitCode, reason, log }: Fault): void {
    const failed = { ...attempt, tries: attempt.tries + 1 };
    ledger.attempts.fail(failed, { exitCode, reason, log, now, bad: false });
    const job = ledger.jobs.get(attempt.job);
    if (job) endEarly(tx, context, { job, state: "failure", reason });
  }
}

function recordTask(
  tx: Tx,
  context: PipelineContext,
  { task, outcome }: { task: TaskRow; outcome: Outcome },
): void {
  const { ledger } = context;
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
      failJobOf(tx, context, { task, why });
    }
  }
}

/**
 * What so many failed tries make of a datum. If jobs may succeed without it, its own faults and the troubles of nodes are
 * counted apart, each up to datumTries: a datum is not given up for what was not its fault, and gets all of its tries.
 */
function verdictOf(
  { tries, troubles }: Pick<AttemptRow, "tries" | "troubles">,
  spec: PipelineSpec | undefined,
): "again" | "failed" | "bad" {
  const most = spec?.datumTries ?? tries;
  const own = tries - troubles;
  if (own >= most) return "bad";
  const counted = spec && skipsBadDatums(spec) ? troubles : tries;
  return counted >= most ? "failed" : "again";
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
  { tasks }: Ledger,
  { task, outcome }: { task: TaskRow; outcome: Success },
): string | undefined {
  const expected = task.kind === "merge" ? "merged" : "pushed";
  if (outcome.state !== expected) return `its worker reported '${outcome.state}' instead of '${expected}'`;
  if (outcome.state !== "merged") return undefined;
  const bytes = tasks.parts(task.id).reduce((sum, { size }) => sum + size, 0);
  const { size } = outcome.content;
  return size === bytes ? undefined : `the merged content has ${size} bytes, its parts have ${bytes}`;
}
