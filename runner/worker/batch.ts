import { join } from "node:path";
import { type Lease, type LeasedDatum, MAX_BATCH, type Outcome } from "../../protocol/runner.ts";
import { NodeCondition, type Sandbox } from "../executors/executor.ts";
import { retrying } from "../gateway/retry.ts";
import { listening } from "../lib/concurrency.ts";
import { lackOf, messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";
import { removeTree } from "../pfs/remove.ts";
import type { DatumRunner, DatumWork, Staged } from "./datum.ts";
import type { Leases, Signals } from "./leases.ts";
import type { Reporter } from "./reporter.ts";

export interface BatchDeps {
  readonly datums: DatumRunner;
  readonly sandbox: Sandbox;
  readonly leases: Leases;
  readonly reporter: Reporter;
  /** Collects and reports what ended commands left, while the next ones run. Outlives the batch. */
  readonly background: BackgroundWork;
  readonly log: Log;
  readonly pipeline: string;
  /** The worker's folder. */
  readonly dir: string;
}

export interface BatchOptions {
  readonly lease: Lease;
  readonly signals: Signals;
}

interface Queued {
  readonly work: DatumWork;
  /** Resolves when the inputs are laid out, or can't be. */
  staged: Promise<Staged> | undefined;
}

/** A batch that takes longer than this is too long: others could have had its datums meanwhile. */
export const LONG_BATCH_MS = 1000;
const SHORT_BATCH_MS = 500;
// Ended commands whose outputs are being collected, at most: bounds disk and memory if that is the slower part.
const CONCLUDED_AT_ONCE = 2;

/**
 * Runs the datums of one lease call, one at a time: the next one's inputs are laid out while the present one runs.
 * If one takes long, those that have not begun are given back, so that no datum waits behind it while another worker
 * is idle. Returns when the last command has ended; its outputs may still be on their way. If commands can't be run
 * here, it gives back all that have not ended, and returns why.
 */
export async function runBatch(
  deps: BatchDeps,
  { lease, signals }: BatchOptions,
): Promise<NodeCondition | undefined> {
  const batch = new Batch(deps, { lease, signals });
  const draining = { signal: signals.drain, onAbort: () => batch.giveBack() };
  return await listening(draining, () => batch.run()).finally(
    () => void deps.background.idle().then(() => deps.reporter.flush()),
  );
}

class Batch {
  readonly #deps: BatchDeps;
  readonly #kill: AbortSignal;
  /** Datums that have not begun; the first may be staged. */
  #queue: Queued[];
  #condition: NodeCondition | undefined;

  constructor(deps: BatchDeps, { lease, signals }: BatchOptions) {
    this.#deps = deps;
    this.#kill = signals.kill;
    this.#queue = lease.datums.map((datum) => this.#queued(lease, datum));
  }

  async run(): Promise<NodeCondition | undefined> {
    this.#stageFirst();
    for (let first = this.#queue[0]; first; first = this.#queue[0]) {
      const timer = setTimeout(() => this.#giveBackAllBut(first), LONG_BATCH_MS);
      await this.#perform(first);
      clearTimeout(timer);
    }
    return this.#condition;
  }

  /** Returns every datum whose command has not been started. */
  giveBack(): void {
    this.#giveBackAllBut(undefined);
  }

  #giveBackAllBut(kept: Queued | undefined): void {
    const given = this.#queue.filter((queued) => queued !== kept);
    this.#queue = this.#queue.filter((queued) => queued === kept);
    this.#giveBackThese(given);
  }

  #giveBackThese(given: readonly Queued[]): void {
    this.#deps.reporter.yieldAll(given.map(({ work }) => work.datum.lease));
    for (const queued of given) this.#deps.background.add(this.#discard(queued));
  }

  async #perform(queued: Queued): Promise<void> {
    const { datums, sandbox } = this.#deps;
    const staged = await queued.staged;
    // What was given back meanwhile is no longer ours to touch.
    if (this.#queue[0] !== queued) return;
    this.#queue.shift();
    this.#stageFirst();
    const { work } = queued;
    const failure = staged?.ok === false ? staged.failure : undefined;
    if (failure instanceof NodeCondition) return this.#stopFor(failure, queued);
    if (!staged?.ok || work.signal.aborted) return this.#conclude(queued, async () => failure);
    const ran = await datums.run(work, { sandbox, lazy: staged.lazy }).catch(conditionOf);
    if (ran instanceof NodeCondition) return this.#stopFor(ran, queued);
    await this.#conclude(queued, () => datums.conclude(work, ran));
  }

  #stopFor(condition: NodeCondition, queued: Queued): void {
    this.#condition = condition;
    const given = [queued, ...this.#queue];
    this.#queue = [];
    this.#giveBackThese(given);
  }

  async #conclude(queued: Queued, outcome: () => Promise<Outcome | undefined>): Promise<void> {
    await this.#deps.background.room(CONCLUDED_AT_ONCE);
    this.#deps.background.add(this.#report(queued, outcome));
  }

  /** Reports nothing of work that was stopped: its lease is lost, or the one who stopped it returns it. */
  async #report(queued: Queued, conclude: () => Promise<Outcome | undefined>): Promise<void> {
    const { signal } = queued.work;
    const outcome = signal.aborted ? undefined : await conclude();
    if (outcome && !signal.aborted) this.#add(queued, outcome);
    else this.#deps.reporter.logs.drop([queued.work.datum.lease]);
    await this.#discard(queued);
  }

  /** A failed try is told in the log, too: a later one that succeeds leaves no other trace of why. */
  #add({ work }: Queued, outcome: Outcome): void {
    const { reporter, log } = this.#deps;
    if (outcome.state === "failed") {
      const { pipeline } = this.#deps;
      const { job, datum } = work.datum;
      log.info({ job, datum, reason: outcome.reason }, `a datum of ${pipeline} failed`);
    }
    reporter.add(outcome);
  }

  async #discard({ work, staged }: Queued): Promise<void> {
    await staged;
    // Without it what the datum took of the disk would stay as long as the worker does.
    const classify = (error: unknown) => (lackOf(error) === "handles" ? "transient" : "final");
    await retrying(() => removeTree(work.pfs), { signal: this.#kill, classify }).catch((error: unknown) => {
      const { log, pipeline } = this.#deps;
      const { job, datum } = work.datum;
      const what = { job, datum, folder: work.pfs, reason: messageOf(error) };
      log.warn(what, `the folder of a datum of ${pipeline} could not be removed`);
    });
  }

  #stageFirst(): void {
    const [first] = this.#queue;
    if (first) first.staged ??= this.#deps.datums.stage(first.work);
  }

  #queued({ transform, limited, datumTimeout, output }: Lease, datum: LeasedDatum): Queued {
    const { leases, dir, reporter } = this.#deps;
    const signal = AbortSignal.any([this.#kill, leases.hold(datum.lease)]);
    const pfs = join(dir, `datum-${++folders}`);
    const onOutput = reporter.logs.outputOf(datum.lease);
    const grant = leases.grantOf(datum.lease);
    const work = { datum, transform, limited, datumTimeout, output, pfs, onOutput, grant, signal };
    return { work, staged: undefined };
  }
}

function conditionOf(error: unknown): NodeCondition {
  if (error instanceof NodeCondition) return error;
  throw error;
}

/** Numbers the folders of datums. */
let folders = 0;

export interface BatchDone {
  /** How many datums were asked for. */
  readonly asked: number;
  /** How many came. */
  readonly leased: number;
  readonly millis: number;
}

/** How many datums to ask for next: twice as many while a full batch is short, half as many after a long one. */
export function nextBatchSize({ asked, leased, millis }: BatchDone): number {
  if (millis > LONG_BATCH_MS) return Math.max(1, Math.floor(asked / 2));
  if (millis < SHORT_BATCH_MS && leased === asked) return Math.min(MAX_BATCH, asked * 2);
  return asked;
}

/** Work that goes on while the next commands run, of which there may only be so much. */
export class BackgroundWork {
  readonly #running = new Set<Promise<void>>();

  /** `work` must not fail. */
  add(work: Promise<void>): void {
    const running = work.finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Waits until fewer than `limit` are running. */
  async room(limit: number): Promise<void> {
    while (this.#running.size >= limit) await Promise.race(this.#running);
  }

  /** Waits until what runs now has ended. */
  async idle(): Promise<void> {
    await Promise.all(this.#running);
  }
}
