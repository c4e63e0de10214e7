import { LEASE_MS, MAX_EGRESS_ENTRIES, MAX_MERGE_PARTS, type Task } from "../../../protocol/runner.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { TaskRow } from "../attempts/task-store.ts";
import type { Memory, PipelineContext } from "../context.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Definition } from "../lifecycle/definition.ts";
import { endEarly } from "./jobs.ts";

/** How often the worker of a datum or task may vanish in one job before that is taken to be the reason. */
const MAX_LOSSES = 10;
/** Expired leases swept in one transaction. */
const SWEEP = 500;

/**
 * Sees whether the clock was set. If it was set back, a lease lasts as long from now on as any lease: else that of a dead worker
 * would last by so much longer. If it jumped ahead, leases that seem to have run out last for that time, too: they could not be
 * renewed, and nobody was silent for so long, since the alarm would have come before. An instance that comes up knows of no
 * earlier time: it only sees to it that no lease lasts too long.
 */
export function keepTime(_: Tx, { ledger, memory }: PipelineContext, now: number): void {
  const { heardAt } = memory;
  memory.heardAt = now;
  if (heardAt !== undefined && now >= heardAt && now - heardAt < 2 * LEASE_MS) return;
  const until = now + LEASE_MS;
  const isAhead = heardAt !== undefined && now > heardAt;
  ledger.attempts.setExpiry(until, { isAhead });
  ledger.tasks.setExpiry(until, { isAhead });
  ledger.slots.setExpiry(until, { isAhead });
}

/** Puts datums and tasks whose lease ran out back into the queue. Returns whether there were any. */
export function sweep(tx: Tx, context: PipelineContext, now: number): boolean {
  const { ledger, memory } = context;
  keepTime(tx, context, now);
  const sweptTasks = sweepTasks(tx, context, now);
  const expired = ledger.attempts.expired(now, SWEEP);
  for (const attempt of expired) {
    suspect(memory, attempt.node);
    const lost = attempt.lost + 1;
    if (lost < MAX_LOSSES) ledger.attempts.requeue({ ...attempt, lost });
    else {
      const reason = lossText(lost);
      ledger.attempts.fail({ ...attempt, lost }, { exitCode: null, reason, log: "", now, bad: false });
    }
  }
  ledger.attempts.settleDue(now);
  if (expired.length === 0 && !sweptTasks) return false;
  memory.queued.wakeOne();
  return true;
}

function sweepTasks(tx: Tx, context: PipelineContext, now: number): boolean {
  const { tasks } = context.ledger;
  const expired = tasks.expired(now, SWEEP);
  for (const task of expired) {
    suspect(context.memory, task.node);
    const lost = task.lost + 1;
    tasks.requeue({ ...task, lost });
    if (lost >= MAX_LOSSES) failJobOf(tx, context, { task, why: lossText(lost) });
  }
  return expired.length > 0;
}

function suspect({ suspects }: Memory, node: string | null): void {
  if (node !== null) suspects.add(node);
}

/**
 * Tells the fleet which nodes let leases run out, of those that were swept. Otherwise a node that lost its power keeps its share of the workers
 * until its socket is seen to be silent, and what it ran waits for so long.
 */
export async function tellSuspects({ memory, peers }: PipelineContext): Promise<void> {
  const nodes = [...memory.suspects];
  memory.suspects.clear();
  if (nodes.length > 0) await peers.fleet.suspect(nodes);
}

function lossText(lost: number): string {
  return `its worker was lost ${lost} times while it ran`;
}

/** Parts of merges that one lease call hands out, but for the last merge. */
const PARTS_PER_CALL = 4 * MAX_MERGE_PARTS;
/** At most so many workers share what is pending. */
const MAX_SHARES = 16;

export interface TaskRequest {
  readonly definition: Definition;
  readonly node: string;
  readonly worker: string;
  readonly max: number;
  /** How many workers the pipeline has now. */
  readonly allowed: number;
  readonly until: number;
}

/** The tasks of the oldest job that a worker with a slot gets now: merges, or one slice of the egress. */
export function takeTasks(tx: Tx, context: PipelineContext, request: TaskRequest): Task[] {
  const { ledger, peers } = context;
  const { definition, max, allowed, node, worker, until } = request;
  const oldest = ledger.jobs.oldest();
  if (!oldest) return [];
  const share = Math.ceil(ledger.tasks.queued(oldest.n, allowed * max) / allowed);
  let rows = ledger.tasks.next(oldest.n, Math.min(share, max));
  if (rows.length === 0) rows = newEgress(tx, context, { definition, oldest, allowed });
  const taken: Task[] = [];
  let size = 0;
  for (const row of rows) {
    const lease = peers.id(definition.uid);
    const task = taskOf(ledger, { row, definition, lease, job: oldest.id });
    if (!task) continue;
    ledger.tasks.run(row.id, { lease, node, worker, until });
    taken.push(task);
    size += task.kind === "merge" ? task.parts.length : MAX_MERGE_PARTS;
    if (size >= PARTS_PER_CALL) break;
  }
  return taken;
}

/** Whether a worker with a slot would get a task now. */
export function hasTasks(ledger: Ledger, { definition }: Pick<TaskRequest, "definition">): boolean {
  const oldest = ledger.jobs.oldest();
  if (!oldest) return false;
  if (ledger.tasks.queued(oldest.n, 1) > 0) return true;
  return goesOut(ledger, { definition, oldest }) && ledger.egress.free(1) > 0;
}

function goesOut(
  { egress }: Ledger,
  { definition, oldest }: { definition: Definition; oldest: JobRow },
): boolean {
  return oldest.state === "egressing" && definition.spec.egress !== undefined && !egress.hasMoved;
}

/** A task for a slice of what is pending, if anything is that no task has. */
function newEgress(
  _: Tx,
  { ledger, peers }: PipelineContext,
  { definition, oldest, allowed }: { definition: Definition; oldest: JobRow; allowed: number },
): TaskRow[] {
  if (!goesOut(ledger, { definition, oldest })) return [];
  const shares = Math.min(allowed, MAX_SHARES);
  const entries = Math.ceil(ledger.egress.free(shares * MAX_EGRESS_ENTRIES) / shares);
  if (entries === 0) return [];
  const row = ledger.tasks.addEgress({ id: peers.id(), job: oldest.n });
  ledger.egress.assign(row.id, entries);
  return [row];
}

/** Undefined if there is nothing to be done. */
function taskOf(
  { tasks, egress: pending }: Ledger,
  { row, definition, lease, job }: { row: TaskRow; definition: Definition; lease: string; job: string },
): Task | undefined {
  if (row.kind === "merge") return { kind: "merge", lease, job, parts: tasks.parts(row.id) };
  const { egress } = definition.spec;
  const entries = pending.ofTask(row.id);
  return egress && entries.length > 0 ? { kind: "egress", lease, job, egress, entries } : undefined;
}

/** Fails the job that can't end well without the task. What egress has sent stays, the rest is the next job's to send. */
export function failJobOf(
  tx: Tx,
  context: PipelineContext,
  { task, why }: { task: TaskRow; why: string },
): void {
  const { jobs, pipeline } = context.ledger;
  const job = jobs.get(task.job);
  if (!job) return;
  const what =
    task.kind === "egress"
      ? `egress to ${pipeline.definition()?.spec.egress?.URL}`
      : `merging what several datums wrote to '${task.path}'`;
  endEarly(tx, context, { job, state: "failure", reason: `${what} failed: ${why}` });
}
