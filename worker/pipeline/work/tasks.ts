import { MAX_EGRESS_ENTRIES, MAX_MERGE_PARTS, type Outcome, type Task } from "../../../protocol/runner.ts";
import type { PipelineContext } from "../context.ts";
import type { Definition } from "../definition.ts";
import { cutShort, tellOfCut } from "../jobs/end.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { MAX_LOSSES, SWEEP } from "./lease-limits.ts";
import type { TaskRow } from "./task-store.ts";

/** PipelineContext of merges that one lease call hands out, but for the last merge. */
const PARTS_PER_CALL = 4 * MAX_MERGE_PARTS;
/** So many workers at most are thought of when what is pending is shared out. */
const MAX_SHARES = 16;

interface TaskRequest {
  readonly worker: string;
  readonly max: number;
  /** How many workers the pipeline has now. */
  readonly allowed: number;
  readonly until: number;
}

/** The tasks of the front that a worker with a slot gets now: merges, or one slice of what is to be pushed. */
export function takeTasks(
  parts: PipelineContext,
  { definition, request }: { definition: Definition; request: TaskRequest },
): Task[] {
  const { ledger, peers } = parts;
  const { max, allowed, worker, until } = request;
  const front = ledger.jobs.front();
  if (!front) return [];
  const share = Math.ceil(ledger.tasks.queued(front.n, allowed * max) / allowed);
  let rows = ledger.tasks.next(front.n, Math.min(share, max));
  if (rows.length === 0) rows = newPush(parts, { definition, front, allowed });
  const taken: Task[] = [];
  let size = 0;
  for (const row of rows) {
    const lease = peers.id();
    const task = taskOf(ledger, { row, definition, lease, job: front.id });
    if (!task) continue;
    ledger.tasks.run(row.id, { lease, worker, until });
    taken.push(task);
    size += task.kind === "merge" ? task.parts.length : MAX_MERGE_PARTS;
    if (size >= PARTS_PER_CALL) break;
  }
  return taken;
}

/** Where something is to be pushed that nobody pushes, a task for a slice of it. */
function newPush(
  { ledger, peers }: PipelineContext,
  { definition, front, allowed }: { definition: Definition; front: JobRow; allowed: number },
): TaskRow[] {
  const pushes = front.state === "egressing" && definition.spec.egress && !ledger.egress.hasMoved;
  if (!pushes) return [];
  const shares = Math.min(allowed, MAX_SHARES);
  const entries = Math.ceil(ledger.egress.free(shares * MAX_EGRESS_ENTRIES) / shares);
  if (entries === 0) return [];
  const row = ledger.tasks.addEgress({ id: peers.id(), job: front.n });
  ledger.egress.assign(row.id, entries);
  return [row];
}

/** Undefined where there is nothing to be done. */
function taskOf(
  ledger: Ledger,
  { row, definition, lease, job }: { row: TaskRow; definition: Definition; lease: string; job: string },
): Task | undefined {
  if (row.kind === "merge") return { kind: "merge", lease, job, parts: ledger.tasks.parts(row.id) };
  const { egress } = definition.spec;
  const entries = ledger.egress.ofTask(row.id);
  return egress && entries.length > 0 ? { kind: "egress", lease, job, egress, entries } : undefined;
}

/** Puts tasks whose lease ran out back into the queue. True where there were any. To be called in a transaction. */
export function sweepTasks(parts: PipelineContext, now: number): boolean {
  const { ledger } = parts;
  const expired = ledger.tasks.expired(now, SWEEP);
  for (const task of expired) {
    const lost = task.lost + 1;
    ledger.tasks.requeue({ ...task, lost });
    if (lost >= MAX_LOSSES) failJob(parts, { task, why: `its worker was lost ${lost} times while it ran` });
  }
  return expired.length > 0;
}

/** Records what became of a task; undefined where the lease is none of a task, or is lost. To be called in a transaction. */
export function settleTask(parts: PipelineContext, outcome: Outcome): true | undefined {
  const { ledger } = parts;
  const task = ledger.tasks.held(outcome.lease);
  if (!task) return undefined;
  if (outcome.state === "returned") ledger.tasks.requeue(task);
  else if (outcome.state === "failed") failed(parts, { task, why: outcome.reason, isFinal: outcome.endsJob });
  else {
    const why = fault(ledger, { task, outcome });
    if (why !== undefined) failed(parts, { task, why });
    else done(ledger, { task, outcome });
  }
  return true;
}

type Success = Exclude<Outcome, { state: "returned" | "failed" }>;

/** Why what is called a success is none. */
function fault(ledger: Ledger, { task, outcome }: { task: TaskRow; outcome: Success }): string | undefined {
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

function failed(
  parts: PipelineContext,
  { task, why, isFinal }: { task: TaskRow; why: string; isFinal?: true | undefined },
): void {
  const { ledger } = parts;
  const tries = task.tries + 1;
  ledger.tasks.note(task.id, why);
  ledger.tasks.requeue({ ...task, tries });
  if (isFinal || tries >= (ledger.active()?.spec.datumTries ?? tries)) failJob(parts, { task, why });
}

/** The job can't end well without the task. What was pushed stays so, and what was not is the next job's to push. */
function failJob(parts: PipelineContext, { task, why }: { task: TaskRow; why: string }): void {
  const { ledger } = parts;
  const job = ledger.jobs.get(task.job);
  if (!job) return;
  const what =
    task.kind === "egress"
      ? `egress to ${ledger.pipeline.definition()?.spec.egress?.URL}`
      : `merging what several datums wrote to '${task.path}'`;
  const reason = `${what} failed: ${why}`;
  if (cutShort(parts, { job, state: "failure", reason })) tellOfCut(parts, job.id);
}
