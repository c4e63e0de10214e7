import { LEASE_MS, type LeasedDatum, type Task } from "../../../protocol/runner.ts";
import type { Refused } from "../../branch/contract.ts";
import { datumPaths } from "../../core/datums.ts";
import { workerCount } from "../../core/parallelism.ts";
import type { PipelineContext } from "../context.ts";
import type { LeaseCall, Leased } from "../contract.ts";
import type { Definition } from "../definition.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { AttemptRow } from "./attempt-store.ts";
import { sweep } from "./expiry.ts";
import { takeTasks } from "./tasks.ts";

/** One lease call: at once where a datum or task is queued, else when one is, or empty when the time is up. */
export async function leaseDatums(
  parts: PipelineContext,
  { request, datumQueued }: { request: LeaseCall; datumQueued: (waitMs: number) => Promise<void> },
): Promise<Leased | Refused<"no-such-pipeline">> {
  const { ledger, peers } = parts;
  const { node, worker, max, waitMs, visit = null } = request;
  const deadline = peers.now() + waitMs;
  const { live } = await peers.fleet();
  for (let waited = false; ; waited = true) {
    // What is leased to a caller that has gone waits for the end of the lease.
    if (waited && !(await isPresent(request))) return idle(parts);
    const definition = ledger.active();
    if (!definition) return idle(parts);
    const allowed = workerCount(definition.spec.parallelism_spec, live);
    const taken = ledger.transaction(() =>
      take(parts, { definition, request: { node, worker, max, allowed, visit } }),
    );
    const leftMs = deadline - peers.now();
    if (!taken.slot || taken.datums.length + taken.tasks.length > 0 || leftMs <= 0)
      return { ok: true, ...termsOf(definition), ...taken };
    await datumQueued(leftMs);
  }
}

async function isPresent({ present }: LeaseCall): Promise<boolean> {
  try {
    await present?.();
    return true;
  } catch {
    return false;
  }
}

/** Nothing to do: there is no such pipeline, or it is one that does not run just now. */
function idle({ ledger }: PipelineContext): Leased | Refused<"no-such-pipeline"> {
  const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
  const state = ledger.exists ? ledger.pipeline.row()?.state : undefined;
  const gone = state === undefined || state === "deleting" || state === "purging" || state === "deleted";
  if (!definition || gone) return { ok: false, reason: "no-such-pipeline" };
  return { ok: true, slot: false, ...termsOf(definition), datums: [], tasks: [] };
}

function termsOf({ spec, output }: Definition): Omit<Leased, "ok" | "slot" | "datums" | "tasks"> {
  const { transform, datumTimeout } = spec;
  return { transform, output, ...(datumTimeout !== undefined && { datumTimeout }) };
}

/** Jobs that were cut short and are being cleared up, at most, that a lease call passes over. */
const MAX_REAPING = 1000;

interface LeaseRequest {
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
function take(
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
