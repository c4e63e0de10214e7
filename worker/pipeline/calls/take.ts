/*
 * Leases. Runners ask with a long poll and get datums of the oldest unfinished job first. A lease has an id and an end. The
 * id in the WHERE clause is the fence: a runner that comes back late changes no rows.
 *
 * A datum is tried three times, or `datumTries` times. If it fails after that, so does its job, and there is no commit. What
 * succeeded keeps its result, and the next job tries again only what failed. With `onDatumFailure: "skip"` a job goes on
 * without its bad datums (work/finish/advance.ts).
 */

import { LEASE_MS, type LeasedDatum } from "../../../protocol/runner.ts";
import type { Refused } from "../../branch/contract/answers.ts";
import { datumPaths } from "../../core/datums.ts";
import { isAble, workerCount } from "../../core/parallelism.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { AttemptRow } from "../attempts/attempt-store.ts";
import type { PipelineContext } from "../context.ts";
import type { LeaseCall, Leased } from "../contract.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Definition } from "../lifecycle/definition.ts";
import { sweep } from "../work/leases/expiry.ts";
import { hasTasks, type TaskRequest, takeTasks } from "../work/leases/tasks.ts";

/** Jobs that have ended but whose attempts are not all called off, at most, that a lease call passes over. */
const MAX_PASSED_OVER = 1000;

/** One lease call: returns at once if a datum or task is queued, else when one is, or empty when the time is up. */
export async function leaseDatums(
  context: PipelineContext,
  { request, datumQueued }: { request: LeaseCall; datumQueued: (waitMs: number) => Promise<void> },
): Promise<Leased | Refused<"no-such-pipeline">> {
  const { ledger, peers } = context;
  const { node, worker, max, waitMs, peek, visit = null } = request;
  const deadline = peers.now() + waitMs;
  const nodes = await peers.nodes();
  const caller = nodes.find(({ name }) => name === node);
  for (let waited = false; ; waited = true) {
    // What is leased to a caller that has gone waits for the end of the lease.
    if (waited && !(await isPresent(request))) return idle(ledger);
    const definition = ledger.active();
    if (!definition) return idle(ledger);
    const { transform, parallelism_spec: parallelism } = definition.spec;
    // Whatever it asks for, a node that runs no containers gets no command that demands one.
    if (caller && !isAble(caller, transform.container)) return idle(ledger);
    const allowed = workerCount({ parallelism, container: transform.container }, nodes);
    const taken = ledger.transaction((tx) =>
      take(tx, context, { definition, node, worker, max, peek, allowed, visit, now: peers.now() }),
    );
    const leftMs = deadline - peers.now();
    const found = taken.queued || taken.datums.length + taken.tasks.length > 0;
    if (!taken.slot || found || leftMs <= 0) return { ok: true, ...termsOf(definition), ...taken };
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
function idle(ledger: Ledger): Leased | Refused<"no-such-pipeline"> {
  const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
  const state = ledger.exists ? ledger.pipeline.row()?.state : undefined;
  const gone = state === undefined || state === "deleting" || state === "purging" || state === "deleted";
  if (!definition || gone) return { ok: false, reason: "no-such-pipeline" };
  return { ok: true, slot: false, ...termsOf(definition), datums: [], tasks: [] };
}

function termsOf({
  spec,
  output,
  limited,
}: Definition): Pick<Leased, "transform" | "output" | "limited" | "datumTimeout"> {
  const { transform, datumTimeout } = spec;
  return { transform, output, limited, ...(datumTimeout !== undefined && { datumTimeout }) };
}

interface Request extends Omit<TaskRequest, "until"> {
  readonly node: string;
  /** Tells this call from the worker's others; null: it does not say. */
  readonly visit: string | null;
  readonly peek?: true | undefined;
  readonly now: number;
}

type Taken = Pick<Leased, "slot" | "datums" | "tasks" | "queued">;

/**
 * What a worker gets now: nothing without a slot, and tasks before datums. If less is queued than all workers
 * together could take, each takes its share, so that a short queue does not end up with one of them.
 */
function take(
  tx: Tx,
  context: PipelineContext,
  { definition, node, worker, max, allowed, visit, peek, now }: Request,
): Taken {
  const { ledger } = context;
  const until = now + LEASE_MS;
  const slot = ledger.slots.take({ worker, node, allowed, visit, now, until });
  if (!slot) return { slot, datums: [], tasks: [] };
  sweep(tx, context, now);
  if (peek)
    return { slot, datums: [], tasks: [], queued: hasTasks(ledger, { definition }) || hasDatum(ledger) };
  const tasks = takeTasks(tx, context, { definition, worker, max, allowed, until });
  const datums =
    tasks.length > 0 ? [] : takeDatums(tx, context, { definition, node, worker, max, allowed, until });
  if (tasks.length + datums.length > 0) {
    // It tries again: should it still be unable to, it says so.
    ledger.slots.setTrouble(worker, null);
  }
  return { slot, datums, tasks };
}

function hasDatum({ attempts, jobs }: Ledger): boolean {
  return attempts.next(1, jobs.toCallOff(MAX_PASSED_OVER)).length > 0;
}

function takeDatums(
  _: Tx,
  { ledger, peers }: PipelineContext,
  request: Omit<Request, "visit" | "peek" | "now"> & { readonly until: number },
): LeasedDatum[] {
  const { definition, worker, node, max, allowed, until } = request;
  const ended = ledger.jobs.toCallOff(MAX_PASSED_OVER);
  const share = Math.ceil(ledger.attempts.queued(allowed * max) / allowed);
  const jobs = new Map<number, JobRow>();
  return ledger.attempts.next(Math.min(share, max), ended).map((attempt) => {
    const lease = peers.id(definition.uid);
    ledger.attempts.run(attempt, { lease, worker, node, until });
    const job = jobs.get(attempt.job) ?? ledger.jobs.get(attempt.job);
    if (!job) throw new Error(`an attempt of job ${attempt.job}, which is not there`);
    jobs.set(attempt.job, job);
    return { lease, job: job.id, datum: attempt.id, inputs: inputsOf(ledger, { definition, attempt, job }) };
  });
}

/** What a datum reads, as it was at its job: a later commit does not change it. */
function inputsOf(
  { elements }: Ledger,
  { definition, attempt, job }: { definition: Definition; attempt: AttemptRow; job: JobRow },
): LeasedDatum["inputs"] {
  const paths = datumPaths(attempt.key);
  return definition.inputs.map(({ name, repo, branch, source, lazy, from }, input) => {
    const path = paths[input] ?? "";
    const element = elements.at({ input, path, job: job.n });
    const commit = job.positions[source]?.commit;
    if (!element || !commit)
      throw new Error(`datum ${attempt.id} of job ${job.id} lacks its input '${name}'`);
    const content = element.kind === "file" ? { digest: element.digest, size: element.size } : null;
    return { name, repo, branch, commit, path, kind: element.kind, content, lazy, from };
  });
}
