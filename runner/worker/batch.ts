import { join } from "node:path";
import { type Lease, type LeasedDatum, MAX_BATCH, type Outcome } from "../../protocol/runner.ts";
import { NodeTrouble } from "../executors/executor.ts";
import { messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";
import { removeTree } from "../pfs/remove.ts";
import { concludeDatum, type DatumDeps, type DatumWork, runDatum, type Staged, stageDatum } from "./datum.ts";
import type { Leases } from "./leases.ts";
import type { Reporter } from "./reporter.ts";

export interface BatchDeps extends DatumDeps {
  readonly leases: Leases;
  readonly reporter: Reporter;
  /** Of the worker: what ended commands left is collected and reported while the next ones run. */
  readonly settling: Settling;
  readonly log: Log;
  readonly pipeline: string;
  /** The worker's folder. */
  readonly dir: string;
}

export interface Signals {
  /** Begin nothing new. */
  readonly drain: AbortSignal;
  /** Stop what runs, too. Comes with `drain`. */
  readonly kill: AbortSignal;
}

interface Task {
  readonly work: DatumWork;
  /** Settles when the inputs are laid out, or can't be. */
  staged: Promise<Staged> | undefined;
}

// Ended commands whose outputs are being collected, at most: bounds disk and memory where that is the slower part.
const SETTLING_AT_ONCE = 2;

/**
 * Runs the datums of one lease call, one at a time: the next one's inputs are laid out while the present one runs.
 * When one takes long, those that have not begun are given back, so that no datum waits behind it while another
 * worker is idle. Returns when the last command has ended; its outputs may still be on their way. Where commands
 * can't be run here it gives back all that have not ended, and answers why.
 */
export async function runBatch(
  deps: BatchDeps,
  lease: Lease,
  signals: Signals,
): Promise<NodeTrouble | undefined> {
  const batch = new Batch(deps, { lease, signals });
  const giveBack = () => batch.giveBack();
  signals.drain.addEventListener("abort", giveBack, { once: true });
  try {
    return await batch.run();
  } finally {
    signals.drain.removeEventListener("abort", giveBack);
    void deps.settling.idle().then(() => deps.reporter.flush());
  }
}

class Batch {
  readonly #deps: BatchDeps;
  readonly #signals: Signals;
  /** Those that have not begun; the first may be staged. */
  #queue: Task[];
  #trouble: NodeTrouble | undefined;

  constructor(deps: BatchDeps, { lease, signals }: { lease: Lease; signals: Signals }) {
    this.#deps = deps;
    this.#signals = signals;
    this.#queue = lease.datums.map((datum) => this.#task(lease, datum));
  }

  async run(): Promise<NodeTrouble | undefined> {
    if (this.#signals.drain.aborted) this.giveBack();
    this.#stageFirst();
    for (let task = this.#queue[0]; task; task = this.#queue[0]) {
      const timer = setTimeout(() => this.#giveBackAllBut(task), LONG_BATCH_MS);
      await this.#perform(task);
      clearTimeout(timer);
    }
    return this.#trouble;
  }

  /** Returns every datum whose command has not been started. */
  giveBack(): void {
    this.#giveBackAllBut(undefined);
  }

  #giveBackAllBut(kept: Task | undefined): void {
    const given = this.#queue.filter((task) => task !== kept);
    this.#queue = this.#queue.filter((task) => task === kept);
    this.#giveBackThese(given);
  }

  #giveBackThese(given: readonly Task[]): void {
    for (const task of given) {
      this.#giveBackOne(task);
      this.#deps.settling.add(this.#discard(task));
    }
    if (given.length > 0) void this.#deps.reporter.flush();
  }

  /** After a kill the worker gives back all that it holds, in one short call. */
  #giveBackOne({ work }: Task): void {
    if (this.#signals.kill.aborted) return;
    const { leases, reporter } = this.#deps;
    const { lease } = work.datum;
    if (leases.stop(lease, "yielded")) reporter.add({ lease, state: "returned" });
    else reporter.logs.drop([lease]);
  }

  async #perform(task: Task): Promise<void> {
    const staged = await task.staged;
    // It may have been given back meanwhile; what was given back is no longer ours to touch.
    if (this.#queue[0] !== task) return;
    this.#queue.shift();
    this.#stageFirst();
    if (!staged?.ok || task.work.signal.aborted) return this.#settle(task, async () => failureOf(staged));
    const ran = await runDatum(this.#deps, task.work, staged.lazy).catch(troubleOf);
    if (ran instanceof NodeTrouble) return this.#stopFor(ran, task);
    await this.#settle(task, () => concludeDatum(this.#deps, task.work, ran));
  }

  #stopFor(trouble: NodeTrouble, task: Task): void {
    this.#trouble = trouble;
    const given = [task, ...this.#queue];
    this.#queue = [];
    this.#giveBackThese(given);
  }

  async #settle(task: Task, conclude: () => Promise<Outcome | undefined>): Promise<void> {
    await this.#deps.settling.room(SETTLING_AT_ONCE);
    this.#deps.settling.add(this.#report(task, conclude));
  }

  /** Nothing is reported of work that was stopped: its lease is lost, or is returned by who stopped it. */
  async #report(task: Task, conclude: () => Promise<Outcome | undefined>): Promise<void> {
    const { signal } = task.work;
    const outcome = signal.aborted ? undefined : await conclude();
    if (outcome && !signal.aborted) this.#deps.reporter.add(outcome);
    else this.#deps.reporter.logs.drop([task.work.datum.lease]);
    await this.#discard(task);
  }

  async #discard({ work, staged }: Task): Promise<void> {
    await staged;
    await removeTree(work.pfs).catch((error: unknown) => {
      this.#deps.log.warn(
        { folder: work.pfs, reason: messageOf(error) },
        "a datum's folder could not be removed",
      );
    });
  }

  #stageFirst(): void {
    const [first] = this.#queue;
    if (first) first.staged ??= stageDatum(this.#deps, first.work);
  }

  #task({ transform, datumTimeout, output }: Lease, datum: LeasedDatum): Task {
    const { leases, pipeline, dir, reporter } = this.#deps;
    const signal = AbortSignal.any([this.#signals.kill, leases.hold(datum.lease)]);
    const pfs = join(dir, `datum-${nextFolder()}`);
    const onOutput = reporter.logs.outputOf(datum.lease);
    const work = { pipeline, datum, transform, datumTimeout, output, pfs, onOutput, signal };
    return { work, staged: undefined };
  }
}

function failureOf(staged: Staged | undefined): Outcome | undefined {
  return staged?.ok === false ? staged.failure : undefined;
}

function troubleOf(error: unknown): NodeTrouble {
  if (error instanceof NodeTrouble) return error;
  throw error;
}

let folders = 0;

function nextFolder(): number {
  folders += 1;
  return folders;
}

/** A batch that takes longer than this is too long: others could have had its datums meanwhile. */
export const LONG_BATCH_MS = 1000;
const SHORT_BATCH_MS = 500;

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

/** Work that goes on beside the main line, of which there may only be so much. */
export class Settling {
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
