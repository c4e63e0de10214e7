import { MAX_EGRESS_ENTRIES, MAX_MERGE_PARTS, type Task } from "../../../protocol/runner.ts";
import type { PipelineContext } from "../context.ts";
import type { Definition } from "../definition.ts";
import { cutShort, tellOfCut } from "../jobs/end.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { TaskRow } from "./task-store.ts";

/** Parts of merges that one lease call hands out, but for the last merge. */
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

/** The job can't end well without the task. What was pushed stays so, and what was not is the next job's to push. */
export function failJob(parts: PipelineContext, { task, why }: { task: TaskRow; why: string }): void {
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
