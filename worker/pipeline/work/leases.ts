import { PATH_FAULT_TEXT, pathFault } from "../../../protocol/paths.ts";
import type { LeasedDatum, Outcome, Task } from "../../../protocol/runner.ts";
import { LEASE_MS } from "../../../protocol/runner.ts";
import { datumPaths } from "../../core/datums.ts";
import type { PipelineContext } from "../context.ts";
import type { Renewal } from "../contract.ts";
import type { Definition } from "../definition.ts";
import { cutShort, tellOfCut } from "../jobs/end.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { AttemptRow, Fault } from "./attempt-store.ts";
import { MAX_LOSSES, SWEEP } from "./lease-limits.ts";
import { settleTask, sweepTasks, takeTasks } from "./tasks.ts";

/** Jobs that were cut short and are being cleared up, at most, that a lease call passes over. */
const MAX_REAPING = 1000;

export interface LeaseRequest {
  readonly node: string;
  readonly worker: string;
  readonly max: number;
  /** How many workers the pipeline has now. */
  readonly allowed: number;
  /** The call, where it says which it is. */
  readonly visit: string | null;
}

/**
 * What a worker gets now: nothing without a slot, and tasks before datums. Where less is queued than all workers
 * together could take, each takes its share, so that a short queue does not end up with one of them.
 */
export function take(
  parts: PipelineContext,
  { definition, request }: { definition: Definition; request: LeaseRequest },
): { slot: boolean; datums: LeasedDatum[]; tasks: Task[] } {
  const { ledger, peers } = parts;
  const { worker, node, max, allowed, visit } = request;
  const now = peers.now();
  const until = now + LEASE_MS;
  const slot = ledger.slots.take({ worker, node, allowed, visit, now, until });
  if (!slot) return { slot, datums: [], tasks: [] };
  sweep(parts, now);
  const tasks = takeTasks(parts, { definition, request: { worker, max, allowed, until } });
  const datums = tasks.length > 0 ? [] : takeDatums(parts, { definition, request, until });
  if (tasks.length + datums.length > 0) {
    ledger.timers.arm("leases", until);
    // It tries again: should it still be unable to, it says so.
    ledger.slots.setTrouble(worker, null);
  }
  return { slot, datums, tasks };
}

function takeDatums(
  { ledger, peers }: PipelineContext,
  { definition, request, until }: { definition: Definition; request: LeaseRequest; until: number },
): LeasedDatum[] {
  const { worker, node, max, allowed } = request;
  const ended = ledger.jobs.reaping(MAX_REAPING);
  const share = Math.ceil(ledger.attempts.queued(allowed * max) / allowed);
  const jobs = new Map<number, JobRow>();
  return ledger.attempts.next(Math.min(share, max), ended).map((attempt) => {
    const lease = peers.id();
    ledger.attempts.run(attempt, { lease, worker, node, until });
    const job = jobs.get(attempt.job) ?? ledger.jobs.get(attempt.job);
    if (!job) throw new Error(`an attempt of job ${attempt.job}, which is not there`);
    jobs.set(attempt.job, job);
    return { lease, job: job.id, datum: attempt.id, inputs: inputsOf(ledger, { definition, attempt, job }) };
  });
}

/** What a datum reads, as it was at its job: a later commit does not change it. */
function inputsOf(
  ledger: Ledger,
  { definition, attempt, job }: { definition: Definition; attempt: AttemptRow; job: JobRow },
): LeasedDatum["inputs"] {
  const paths = datumPaths(attempt.key);
  return definition.inputs.map(({ name, repo, branch, source, lazy, from }, input) => {
    const path = paths[input] ?? "";
    const element = ledger.elements.at({ input, path, job: job.n });
    const commit = job.positions[source]?.commit;
    if (!element || !commit)
      throw new Error(`datum ${attempt.id} of job ${job.id} lacks its input '${name}'`);
    const content = element.kind === "file" ? { digest: element.digest, size: element.size } : null;
    return { name, repo, branch, commit, path, kind: element.kind, content, lazy, from };
  });
}

/** When the next lease runs out. */
export function nextExpiry({ attempts, tasks }: Ledger): number | undefined {
  const due = [attempts.nextExpiry(), tasks.nextExpiry()].filter((at) => at !== undefined);
  return due.length > 0 ? Math.min(...due) : undefined;
}

/** Puts datums and tasks whose lease ran out back into the queue. True where there were any. */
export function sweep(parts: PipelineContext, now: number): boolean {
  const { ledger, wakes } = parts;
  const sweptTasks = sweepTasks(parts, now);
  const expired = ledger.attempts.expired(now, SWEEP);
  for (const attempt of expired) {
    const lost = attempt.lost + 1;
    if (lost < MAX_LOSSES) ledger.attempts.requeue({ ...attempt, lost });
    else {
      const reason = `its worker was lost ${lost} times while it ran`;
      ledger.attempts.fail({ ...attempt, lost }, { exitCode: null, reason, log: "", now });
    }
  }
  if (expired.length === 0 && !sweptTasks) return false;
  wakes.queued();
  wakes.front();
  return true;
}

/** Keeps leases; answers those that are lost. A worker that leaves keeps its slot no longer. */
export function renew(parts: PipelineContext, { worker, leases, leaving, trouble }: Renewal): string[] {
  const { ledger, peers } = parts;
  const now = peers.now();
  const until = now + LEASE_MS;
  sweep(parts, now);
  if (leaving) ledger.slots.release(worker);
  else ledger.slots.renew(worker, { now, until });
  if (trouble !== undefined) ledger.slots.setTrouble(worker, trouble || null);
  return leases.filter((lease) => !ledger.attempts.renew(lease, until) && !ledger.tasks.renew(lease, until));
}

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
