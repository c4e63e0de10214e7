/*
 * Leases. Runners ask with a long poll and get datums of the oldest unfinished job first. A lease has an id and an end. The
 * id in the WHERE clause is the fence: a runner that comes back late changes no rows.
 *
 * A datum is tried three times, or `datumTries` times. If it fails after that, so does its job, and there is no commit. What
 * succeeded keeps its result, and the next job tries again only what failed. With `onDatumFailure: "skip"` a job goes on
 * without its bad datums (work/finish/advance.ts).
 */

import { PATH_FAULT_TEXT, pathFault } from "../../../protocol/paths.ts";
import { LEASE_MS, type LeasedDatum, type Outcome } from "../../../protocol/runner.ts";
import { type PipelineSpec, skipsBadDatums } from "../../../protocol/spec.ts";
import type { Refused } from "../../branch/contract/answers.ts";
import { datumPaths } from "../../core/datums.ts";
import { isAble, workerCount } from "../../core/parallelism.ts";
import { within } from "../../objects/engine.ts";
import type { Tx } from "../../objects/transaction.ts";
import { WaitTime } from "../../objects/waiters.ts";
import { type AttemptRow, type Fault, type HeldAttempt, leaseOf } from "../attempts/attempt-store.ts";
import type { TaskRow } from "../attempts/task-store.ts";
import type { PipelineContext } from "../context.ts";
import type { InputCommit, LeaseCall, LeaseCalls, Leased, Renewal, RenewedLeases } from "../contract.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Definition } from "../lifecycle/definition.ts";
import { endEarly } from "../work/jobs.ts";
import {
  failJobOf,
  hasTasks,
  keepTime,
  sweep,
  type TaskRequest,
  takeTasks,
  tellSuspects,
} from "../work/leases.ts";
import type { PipelineFacet } from "./facet.ts";

/** What runners call. */
export const leases: PipelineFacet<LeaseCalls> = {
  take: leaseDatums,

  async vacate({ ledger }, { worker, visit }) {
    if (ledger.exists) ledger.transaction(() => ledger.slots.vacate(worker, visit));
  },

  async renew(reach, renewal) {
    const { ledger } = reach;
    if (!ledger.exists) return { lost: [...renewal.leases] };
    return ledger.transaction((tx) => renewLeases(tx, reach, renewal));
  },

  async finish(reach, { outcomes }) {
    const { ledger, memory } = reach;
    if (!ledger.active()) return { lost: outcomes.map(({ lease }) => lease) };
    const lost: string[] = [];
    for (const some of together(outcomes)) {
      ledger.transaction((tx) => {
        const calls = new Set<number>();
        const record = () => {
          for (const each of some)
            if (!recordOutcome(tx, reach, { outcome: each, calls })) lost.push(each.lease);
        };
        ledger.jobs.countTogether(() => ledger.results.recordTogether(record));
        ledger.attempts.settle(calls);
      });
    }
    memory.queued.wakeOne();
    return { lost };
  },

  async output({ ledger }) {
    return (ledger.exists ? ledger.pipeline.definition()?.output : undefined) ?? null;
  },
};

/**
 * Keeps leases; returns those that are lost, all of them while the pipeline does not run, and what the others read. A worker that leaves frees
 * its slot in whatever state the pipeline is: when it starts again, another worker would wait for a slot of nobody.
 */
function renewLeases(
  tx: Tx,
  context: PipelineContext,
  { worker, leases, leaving, trouble }: Renewal,
): RenewedLeases {
  const { ledger, peers } = context;
  const now = peers.now();
  const until = now + LEASE_MS;
  if (leaving) ledger.slots.release(worker);
  const definition = ledger.active();
  if (!definition) return { lost: [...leases] };
  keepTime(tx, context, now);
  if (!leaving) ledger.slots.renew(worker, { now, until });
  if (trouble !== undefined) ledger.slots.setTrouble(worker, trouble || null);
  const lost: string[] = [];
  const kept = new Set<number>();
  for (const lease of leases) {
    const job = ledger.attempts.renew(lease, { now, until }) ?? ledger.tasks.renew(lease, { now, until });
    if (job === undefined) lost.push(lease);
    else kept.add(job);
  }
  if (kept.size === 0) return { lost };
  const jobs = [...kept].flatMap((n) => ledger.jobs.get(n) ?? []);
  const read = jobs.map((job) => ({ job: job.id, inputs: inputCommits(definition, job) }));
  return { lost, kept: { output: definition.output, jobs: read } };
}

function inputCommits({ inputs }: Definition, { positions }: JobRow): InputCommit[] {
  return inputs.flatMap(({ repo, branch, source, from }) => {
    const commit = positions[source]?.commit;
    return commit ? [{ repo, branch, commit, from }] : [];
  });
}

/** Jobs that have ended but whose attempts are not all called off, at most, that a lease call passes over. */
const MAX_PASSED_OVER = 1000;

/** A caller that can't be asked for so long counts as gone: others wait for what it was woken for. */
const PRESENT_WITHIN_MS = 1_000;

/** One lease call: returns at once if a datum or task is queued, else when one is, or empty when the time is up. */
async function leaseDatums(
  context: PipelineContext,
  request: LeaseCall,
): Promise<Leased | Refused<"no-such-pipeline">> {
  const { ledger, peers, memory } = context;
  const { node, worker, max, waitMs, peek, visit = null } = request;
  const time = new WaitTime(waitMs, peers.now);
  const nodes = await peers.nodes();
  const caller = nodes.find(({ name }) => name === node);
  let isWoken = false;
  try {
    for (let waited = false; ; waited = true) {
      // What is leased to a caller that has gone waits for the end of the lease.
      if (waited && !(await within(PRESENT_WITHIN_MS, isPresent(request)))) return idle(ledger);
      const definition = ledger.active();
      if (!definition) return idle(ledger);
      const { transform, parallelism_spec: parallelism } = definition.spec;
      // Whatever it asks for, a node gets no command that demands a container if it runs none, or if it is not known what it runs.
      const able = caller ? isAble(caller, transform.container) : transform.container !== "required";
      if (!able) return idle(ledger);
      const allowed = workerCount({ parallelism, container: transform.container }, nodes);
      const taken = ledger.transaction((tx) =>
        take(tx, context, { definition, node, worker, max, peek, allowed, visit, now: peers.now() }),
      );
      // This call may be the first to see that leases of another node ran out. It does not wait until the fleet has heard that.
      void tellSuspects(context);
      const { leftMs } = time;
      const found = taken.queued || taken.datums.length + taken.tasks.length > 0;
      if (!taken.slot || found || leftMs <= 0) return { ok: true, ...termsOf(definition), ...taken };
      isWoken = await memory.queued.wait(leftMs);
    }
  } finally {
    // There may be more than it took; or it took nothing, as it has gone, may run nothing or failed.
    if (isWoken) memory.queued.wakeOne();
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

type Terms = Pick<Leased, "transform" | "output" | "limited" | "datumTimeout">;

function termsOf({ spec, output, limited }: Definition): Terms {
  const { transform, datumTimeout } = spec;
  return { transform, output, limited, ...(datumTimeout !== undefined && { datumTimeout }) };
}

interface Request extends Omit<TaskRequest, "until"> {
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
  keepTime(tx, context, now);
  const slot = ledger.slots.take({ worker, node, allowed, visit, now, until });
  if (!slot) return { slot, datums: [], tasks: [] };
  sweep(tx, context, now);
  if (peek)
    return { slot, datums: [], tasks: [], queued: hasTasks(ledger, { definition }) || hasDatum(ledger) };
  const tasks = takeTasks(tx, context, { definition, node, worker, max, allowed, until });
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
  const leased = ledger.attempts
    .next(Math.min(share, max), ended)
    .map((attempt) => ({ ...attempt, lease: leaseOf(peers.id(definition.uid), attempt) }));
  ledger.attempts.run(leased, { worker, node, until });
  return leased.map(({ lease, ...attempt }) => {
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

type DatumSuccess = Extract<Outcome, { state: "success" }>;
/** A fault, and whether it is the datum's own. */
type JudgedFault = Fault & { readonly own: boolean };
type Success = Exclude<Outcome, { state: "returned" | "failed" }>;

/** Outputs of outcomes that are recorded in one transaction: some 10 ms of work. The last outcome may have more. */
const OUTPUTS_TOGETHER = 200;

/** Outcomes, put together as they are recorded: in their order, in one transaction if they are small. */
function together(outcomes: readonly Outcome[]): Outcome[][] {
  const groups: Outcome[][] = [];
  let room = 0;
  for (const outcome of outcomes) {
    if (room <= 0) {
      groups.push([]);
      room = OUTPUTS_TOGETHER;
    }
    groups.at(-1)?.push(outcome);
    room -= outcome.state === "success" ? outcome.outputs.length : 0;
  }
  return groups;
}

/**
 * Records what became of one lease, of a datum or of a task; returns false if it is lost. The lease is the fence: a
 * worker that was given up and comes back late changes no row, whatever it thinks it finished. `calls`: gets the lease call.
 */
function recordOutcome(
  tx: Tx,
  context: PipelineContext,
  { outcome, calls }: { outcome: Outcome; calls: Set<number> },
): boolean {
  const { ledger, peers } = context;
  const now = peers.now();
  keepTime(tx, context, now);
  const attempt = ledger.attempts.held(outcome.lease, now);
  if (attempt) {
    calls.add(attempt.call);
    recordDatum(tx, context, { attempt, outcome, now });
    return true;
  }
  const task = ledger.tasks.held(outcome.lease, now);
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
