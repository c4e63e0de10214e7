import { mkdir } from "node:fs/promises";
import { type Lease, MAX_BATCH, type Task } from "../../protocol/runner.ts";
import type { Cache } from "../cache/cache.ts";
import type { Executor } from "../executors/executor.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { jitteredBackoff, pause } from "../gateway/retry.ts";
import { withGrace } from "../lib/concurrency.ts";
import { messageOf } from "../lib/fault.ts";
import type { ParentLog } from "../lib/log.ts";
import type { PipeStock } from "../pfs/lazy/pipe-stock.ts";
import { removeTree } from "../pfs/remove.ts";
import type { Secrets } from "../secrets/open.ts";
import type { TaskWork } from "../tasks/merge.ts";
import { performTask, type TaskDeps } from "../tasks/perform-task.ts";
import { type Ask, Asking, type Work } from "./asking.ts";
import { BackgroundWork, nextBatchSize } from "./batch.ts";
import { DatumRunner } from "./datum.ts";
import type { IdlePipelines } from "./idle-pipelines.ts";
import { Leases, Renewer, type Signals } from "./leases.ts";
import { Reporter } from "./reporter.ts";
import { runLease } from "./run-lease.ts";
import type { RunPermits } from "./run-permits.ts";
import { type Activity, Sandboxes, termsOf } from "./sandboxes.ts";

/** What all workers of a node share. */
export interface WorkerDeps {
  readonly gateway: Gateway;
  readonly cache: Cache;
  readonly executor: Executor;
  readonly secrets: Secrets;
  /** What egress may do, and the id of the key for the gateway, which is never used for it. */
  readonly egress: Pick<TaskDeps, "terms" | "gatewayKey">;
  /** The named pipes of lazy inputs. */
  readonly pipes: PipeStock;
  /** How many commands run here at once, and whose turn it is. */
  readonly permits: RunPermits;
  /** Which pipelines have nothing to do. */
  readonly idle: IdlePipelines;
  readonly log: ParentLog;
  readonly node: string;
}

export interface WorkerOptions {
  readonly pipeline: string;
  /** This worker's name, used by no other worker, ever. */
  readonly worker: string;
  /** A folder of its own, not there yet. */
  readonly dir: string;
  /** Kept up to date here, for others to look at. */
  readonly activity: Activity;
  /** Take nothing new; stop what runs, too: see Signals. */
  readonly drain: AbortSignal;
  readonly kill: AbortSignal;
}

/**
 * A worker: holds one of a pipeline's slots and runs leased work until `drain`, one batch after another. It renews its
 * leases all the while, and when it ends it gives back what it still holds, then its slot.
 */
export async function runWorker(
  { gateway, cache, executor, secrets, egress, pipes, permits, idle, node, ...deps }: WorkerDeps,
  { pipeline, worker, dir, activity, drain, kill }: WorkerOptions,
): Promise<void> {
  await mkdir(dir, { recursive: true });
  const log = deps.log.child({ pipeline, worker });
  const signals = { drain, kill };
  const leases = new Leases();
  const reporter = new Reporter({ gateway, leases, log, pipeline, worker, kill });
  const renewer = new Renewer({ gateway, leases, log, pipeline, worker });
  const sandboxes = new Sandboxes({ executor, secrets, renewer, log, pipeline, dir, activity });
  const learn = (lease: Lease) => sandboxes.learn(termsOf(lease));
  const calls = new WorkerCalls({ gateway, log, node, pipeline, worker, learn });
  const datums = new DatumRunner({ gateway, cache, pipes, secrets, pipeline, executor });
  const background = new BackgroundWork();

  const batch = { datums, leases, reporter, background, log, pipeline, dir, sandboxes };
  const confirmLease: TaskDeps["confirmLease"] = (lease, signal) => renewer.confirm(lease, signal);
  const work = async ({ lease, permit }: Work) => {
    leases.granted(lease);
    const { limited } = lease;
    const own = { secrets: secrets.for({ pipeline, limited }), limited };
    const perform = (task: TaskWork<Task>) =>
      performTask({ gateway, env: process.env, ...egress, confirmLease, ...own }, task);
    await runLease({ ...batch, perform, givenBack: () => permit.release() }, { lease, signals });
  };
  const asking = new Asking({
    ...{ permits, pipeline },
    lease: (ask, told) => calls.lease(ask, told),
    giveBack: (lease) => reporter.giveBack(lease),
    keepingSlot: (wait) => renewer.keepingSlot(wait),
  });
  const leavePermits = permits.enter();
  const stop = new AbortController();
  const renewing = renewer.run(stop.signal);
  // If it is the pipeline that was stopped, nobody wants what still runs: else it would keep the slot until it ends.
  const hurry = (): void => renewer.hurry();
  drain.addEventListener("abort", hurry, { once: true });
  try {
    await runLoop({ asking, work, idle, pipeline, sandboxes, reporter }, signals);
  } finally {
    idle.passOn(pipeline);
    leavePermits();
    await background.idle();
    await reporter.flush();
    if (kill.aborted) await calls.giveBack(leases);
    drain.removeEventListener("abort", hurry);
    stop.abort();
    await renewing;
    await calls.leave();
    await sandboxes.close();
    await removeTree(dir);
  }
}

interface LoopDeps extends Pick<WorkerDeps, "idle">, Pick<WorkerOptions, "pipeline"> {
  readonly asking: Asking;
  readonly work: (work: Work) => Promise<void>;
  readonly sandboxes: Sandboxes;
  readonly reporter: Reporter;
}

async function runLoop(
  { asking, work, idle, pipeline, sandboxes, reporter }: LoopDeps,
  signals: Signals,
): Promise<void> {
  const { drain } = signals;
  const backoff = jitteredBackoff({ minMs: 250, maxMs: 4000 });
  let asked = 1;
  while (!drain.aborted) {
    if (!(await sandboxes.recovered(drain))) {
      idle.passOn(pipeline);
      continue;
    }
    const { wakeUps } = idle;
    const next = await asking.next(asked, signals);
    if (!next) {
      if (await idle.rest(pipeline, { wakeUps, signal: drain })) backoff.reset();
      else await pause(backoff.next(), drain);
      continue;
    }
    idle.found(pipeline);
    backoff.reset();
    const { tasks, datums } = next.lease;
    const began = performance.now();
    await work(next).finally(() => next.permit.release());
    asked = nextBatchSize({ asked, leased: tasks.length + datums.length, millis: performance.now() - began });
    // Makes no more results while the gateway takes none.
    if (reporter.unanswered >= MAX_BATCH) await reporter.flush();
  }
}

// An answer may be on its way when the worker is to end. Its datums are then given back: else they would be nobody's
// until their leases end.
const LAST_ANSWER_MS = 500;
const RETURN_WITHIN_MS = 2000;

type CallsDeps = Pick<WorkerDeps, "gateway" | "log" | "node"> &
  Pick<WorkerOptions, "pipeline" | "worker"> & {
    /** Hears of the pipeline's terms with each answer. */
    readonly learn: (lease: Lease) => void;
  };

/** The calls by which a worker gets work, and gives back what it has. A call that fails is logged. */
class WorkerCalls {
  readonly #deps: CallsDeps;

  constructor(deps: CallsDeps) {
    this.#deps = deps;
  }

  /** Leases at most `max` tasks and datums, or peeks. Returns undefined if the gateway can't be asked. */
  async lease(ask: Ask, { drain, kill }: Signals): Promise<Lease | undefined> {
    const { gateway, log, node, pipeline, worker } = this.#deps;
    const call = (late: AbortSignal) =>
      gateway.lease({ pipeline, node, worker, ...ask }, AbortSignal.any([late, kill]));
    try {
      const lease = await withGrace({ signal: drain, graceMs: LAST_ANSWER_MS }, call);
      this.#deps.learn(lease);
      return lease;
    } catch (error) {
      const reason = messageOf(error);
      if (!drain.aborted) log.warn({ reason }, `asking for datums of ${pipeline} failed, asking again`);
      return undefined;
    }
  }

  /** Returns what a kill stopped, so that others may have it at once. If that fails, they get it when the leases end. */
  async giveBack(leases: Leases): Promise<void> {
    const { gateway, log, pipeline, worker } = this.#deps;
    const outcomes = leases.ids.map((lease) => ({ lease, state: "returned" as const })).slice(0, MAX_BATCH);
    if (outcomes.length === 0) return;
    const signal = AbortSignal.timeout(RETURN_WITHIN_MS);
    await gateway
      .finish({ pipeline, worker, outcomes }, signal)
      .catch((error: unknown) =>
        log.warn(
          { reason: messageOf(error) },
          `datums of ${pipeline} could not be given back: others get them when their leases end`,
        ),
      );
  }

  /** Frees the slot for another worker at once. Else it would be this one's until its time is over. */
  async leave(): Promise<void> {
    const { gateway, log, pipeline, worker } = this.#deps;
    const signal = AbortSignal.timeout(RETURN_WITHIN_MS);
    const leaving = { pipeline, worker, leases: [], leaving: true as const };
    await gateway
      .renew(leaving, signal)
      .catch((error: unknown) =>
        log.info(
          { reason: messageOf(error) },
          `the slot of ${pipeline} could not be given back: it is free when its time is over`,
        ),
      );
  }
}
