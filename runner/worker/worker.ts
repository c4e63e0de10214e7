import { mkdir } from "node:fs/promises";
import { type Lease, MAX_BATCH } from "../../protocol/runner.ts";
import type { Cache } from "../cache/cache.ts";
import type { Executor } from "../executors/executor.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { jitteredBackoff, pause } from "../gateway/retry.ts";
import { withGrace } from "../lib/concurrency.ts";
import { messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";
import type { PipeStore } from "../pfs/lazy/pipe-store.ts";
import { removeTree } from "../pfs/remove.ts";
import type { SecretSource } from "../secrets/source.ts";
import { runTasks } from "../tasks/run-tasks.ts";
import { nextBatchSize, Settling, type Signals } from "./batch.ts";
import { Leases, Renewer } from "./leases.ts";
import { Reporter } from "./reporter.ts";
import { runDatums } from "./run-datums.ts";
import { type Activity, Sandboxes } from "./sandboxes.ts";

export interface WorkerDeps {
  readonly gateway: Gateway;
  readonly cache: Cache;
  readonly executor: Executor;
  readonly secrets: SecretSource;
  /** Of this node: the named pipes of lazy inputs. */
  readonly pipes: PipeStore;
  readonly log: Log;
  readonly node: string;
  readonly pipeline: string;
  /** This worker's name, used by no other worker, ever. */
  readonly worker: string;
  /** Kept up to date here, for others to look at. */
  readonly activity: Activity;
  /** A folder of its own, not there yet. */
  readonly dir: string;
}

/** `drain`: take nothing new and finish this one. `kill`: stop this one too. */
export async function runWorker(deps: WorkerDeps, signals: Signals): Promise<void> {
  await mkdir(deps.dir, { recursive: true });
  const leases = new Leases();
  const reporter = new Reporter({ ...deps, leases, kill: signals.kill });
  const settling = new Settling();
  const stop = new AbortController();
  const renewer = new Renewer({ ...deps, leases });
  const renewing = renewer.run(stop.signal);
  const sandboxes = new Sandboxes({ ...deps, renewer });
  try {
    await runLoop({ ...deps, leases, reporter, settling, sandboxes }, signals);
  } finally {
    await settling.idle();
    await reporter.flush();
    if (signals.kill.aborted) await returnHeld(deps, leases);
    stop.abort();
    await renewing;
    await leave(deps);
    await sandboxes.close();
    await removeTree(deps.dir);
  }
}

interface LoopDeps extends WorkerDeps {
  readonly leases: Leases;
  readonly reporter: Reporter;
  readonly settling: Settling;
  readonly sandboxes: Sandboxes;
}

async function runLoop(deps: LoopDeps, signals: Signals): Promise<void> {
  const backoff = jitteredBackoff({ minMs: 250, maxMs: 4000 });
  let asked = 1;
  while (!signals.drain.aborted) {
    if (!(await deps.sandboxes.recovered(signals.drain))) continue;
    const lease = await leaseDatums(deps, { max: asked, signals });
    if (lease) deps.sandboxes.learn(lease.transform);
    if (!lease?.slot || lease.tasks.length + lease.datums.length === 0) {
      await pause(backoff.next(), signals.drain);
      continue;
    }
    backoff.reset();
    const began = performance.now();
    const datums = await runTasks({ ...deps, env: process.env }, { lease, signals });
    // Tasks need no image: it is not fetched for them.
    if (datums.length > 0) await runDatums(deps, { ...lease, datums: [...datums] }, signals);
    const leased = lease.tasks.length + lease.datums.length;
    asked = nextBatchSize({ asked, leased, millis: performance.now() - began });
    // Where results can't be delivered, no more of them are made.
    if (deps.reporter.unsettled >= MAX_BATCH) await deps.reporter.flush();
  }
}

// When the worker is to end, an answer may be on its way: its datums are given back, instead of being nobody's until
// their leases end.
const LAST_ANSWER_MS = 500;

/** What the gateway gives, or undefined where it can't be asked. */
async function leaseDatums(
  { gateway, log, node, pipeline, worker }: LoopDeps,
  { max, signals: { drain, kill } }: { max: number; signals: Signals },
): Promise<Lease | undefined> {
  const call = (late: AbortSignal) =>
    gateway.lease({ pipeline, node, worker, max }, AbortSignal.any([late, kill]));
  try {
    return await withGrace({ signal: drain, graceMs: LAST_ANSWER_MS }, call);
  } catch (error) {
    if (!drain.aborted) log.warn({ pipeline, worker, reason: messageOf(error) }, "no datums could be leased");
    return undefined;
  }
}

const RETURN_WITHIN_MS = 2000;

/** After a kill: others may have at once what was stopped here. If it can't be said, they get it when the leases end. */
async function returnHeld({ gateway, log, pipeline, worker }: WorkerDeps, leases: Leases): Promise<void> {
  const outcomes = leases.ids.map((lease) => ({ lease, state: "returned" as const })).slice(0, MAX_BATCH);
  if (outcomes.length === 0) return;
  try {
    await gateway.finish({ pipeline, worker, outcomes }, AbortSignal.timeout(RETURN_WITHIN_MS));
  } catch (error) {
    log.warn({ pipeline, worker, reason: messageOf(error) }, "datums could not be given back");
  }
}

/** Its slot is free for another worker at once, which else would wait for the end of this one's time. */
async function leave({ gateway, log, pipeline, worker }: WorkerDeps): Promise<void> {
  try {
    const signal = AbortSignal.timeout(RETURN_WITHIN_MS);
    await gateway.renew({ pipeline, worker, leases: [], leaving: true }, signal);
  } catch (error) {
    log.info({ pipeline, worker, reason: messageOf(error) }, "the slot could not be given back");
  }
}
