import { join } from "node:path";
import type { LeasedDatum, Outcome, Task } from "../../protocol/runner.ts";
import type { Sandbox } from "../executors/executor.ts";
import { forEachLimited, listening } from "../lib/concurrency.ts";
import { failedOutcome, messageOf } from "../lib/fault.ts";
import { SecretMissing } from "../secrets/source.ts";
import type { TaskWork } from "../tasks/merge.ts";
import { type BatchDeps, type BatchOptions, LONG_BATCH_MS, runBatch } from "./batch.ts";
import { type Sandboxes, termsOf } from "./sandboxes.ts";

export interface RunLeaseDeps extends Omit<BatchDeps, "sandbox"> {
  readonly sandboxes: Sandboxes;
  /** Does one task. Never throws. */
  readonly perform: (work: TaskWork<Task>) => Promise<Outcome>;
  /** All datums were given back before any of them could begin: the sandbox may take its time. */
  readonly givenBack: () => void;
}

/** If a sandbox takes longer than this to make (an image is pulled), its datums are given back: others may have them meanwhile. */
const LONG_PREPARE_MS = 5000;
// Tasks wait for others most of the time, and each bounds what it has on its way itself.
const TASKS_AT_ONCE = 2;

/**
 * Does what one call has leased: first its tasks, then its datums, in the worker's sandbox, which is made ready before.
 * Tasks need no image: it is not fetched for them. If commands can't be run here, the datums are given back unharmed; if
 * a pull secret is missing, they fail with their job. Outcomes may still be on their way afterwards.
 */
export async function runLease(deps: RunLeaseDeps, { lease, signals }: BatchOptions): Promise<void> {
  const { sandboxes } = deps;
  const datums = await runTasks(deps, { lease, signals });
  if (datums.length === 0) return;
  const there = sandboxes.at(termsOf(lease));
  const rest = { lease: { ...lease, datums }, signals };
  const ready = there ? { sandbox: there, datums } : await prepared(deps, rest);
  if (!ready) return;
  const batch = { lease: { ...lease, datums: ready.datums }, signals };
  const condition = await runBatch({ ...deps, sandbox: ready.sandbox }, batch);
  if (condition) await sandboxes.broke(termsOf(lease), condition);
  else sandboxes.worked();
}

/**
 * Does the tasks, and returns the datums that are still this worker's. If the tasks take long, whatever has not begun is
 * given back, so that nothing waits here while another worker is idle; and all of it if this worker is to end.
 */
async function runTasks(deps: RunLeaseDeps, { lease, signals }: BatchOptions): Promise<LeasedDatum[]> {
  const { tasks, datums, output } = lease;
  if (tasks.length === 0) return datums;
  const { perform, reporter, leases, dir } = deps;
  const waiting = new Waiting(deps, { leased: [...tasks, ...datums], signals });
  const giveBack = () => waiting.giveBack();
  const timer = setTimeout(giveBack, LONG_BATCH_MS);
  /** Reports nothing of work that was stopped: its lease is lost, or the one who stopped it returns it. */
  const work = async (task: Task) => {
    const signal = waiting.begin(task.lease);
    if (!signal) return;
    const file = join(dir, `task-${++files}`);
    const outcome = await perform({ task, output, file, grant: leases.grantOf(task.lease), signal });
    if (!signal.aborted) reporter.add(outcome);
  };
  const working = () => forEachLimited(tasks, { limit: TASKS_AT_ONCE, work });
  try {
    await listening({ signal: signals.drain, onAbort: giveBack }, working);
    return datums.filter(({ lease }) => waiting.begin(lease));
  } finally {
    clearTimeout(timer);
    void reporter.flush();
  }
}

/** Numbers the files of tasks. */
let files = 0;

/** The sandbox, and the datums that are still this worker's when it is ready; undefined if there are none. */
async function prepared(
  deps: RunLeaseDeps,
  { lease, signals }: BatchOptions,
): Promise<{ sandbox: Sandbox; datums: LeasedDatum[] } | undefined> {
  const { sandboxes, reporter, givenBack } = deps;
  const waiting = new Waiting(deps, { leased: lease.datums, signals });
  const giveBack = () => {
    waiting.giveBack();
    givenBack();
  };
  const take = () => lease.datums.filter((datum) => waiting.begin(datum.lease));
  const timer = setTimeout(giveBack, LONG_PREPARE_MS);
  try {
    const { drain } = signals;
    const making = () => sandboxes.get(termsOf(lease), drain);
    const sandbox = await listening({ signal: drain, onAbort: giveBack }, making);
    const datums = take();
    return datums.length > 0 ? { sandbox, datums } : undefined;
  } catch (error) {
    if (!(error instanceof SecretMissing)) {
      waiting.giveBack();
      return undefined;
    }
    // For this reason none of the job's datums can ever run.
    const failed = { reason: messageOf(error), endsJob: true as const };
    for (const datum of take()) reporter.add(failedOutcome(datum.lease, failed));
    void reporter.flush();
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

/** Leased work that has not begun. Each is let go of once: it begins or is given back, unless its lease was lost. */
class Waiting {
  readonly #reporter: RunLeaseDeps["reporter"];
  /** By lease: what stops it. */
  readonly #stops: Map<string, AbortSignal>;

  constructor(
    { leases, reporter }: Pick<RunLeaseDeps, "leases" | "reporter">,
    { leased, signals: { kill } }: Pick<BatchOptions, "signals"> & { leased: readonly { lease: string }[] },
  ) {
    this.#reporter = reporter;
    const stopOf = (lease: string) => AbortSignal.any([kill, leases.hold(lease)]);
    this.#stops = new Map(leased.map(({ lease }) => [lease, stopOf(lease)]));
  }

  /** Begins the work of a lease. Returns the signal that stops it; undefined if it is not ours any more. */
  begin(lease: string): AbortSignal | undefined {
    const stop = this.#stops.get(lease);
    this.#stops.delete(lease);
    return stop?.aborted ? undefined : stop;
  }

  /** Lets others have what has not begun. */
  giveBack(): void {
    const given = [...this.#stops.keys()];
    this.#stops.clear();
    this.#reporter.yieldAll(given);
  }
}
