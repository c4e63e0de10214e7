import { join } from "node:path";
import type { Lease, LeasedDatum, Outcome, Task } from "../../protocol/runner.ts";
import { forEachLimited } from "../lib/concurrency.ts";
import type { TaskWork } from "../tasks/perform-task.ts";
import { type BatchOptions, LONG_BATCH_MS } from "./batch.ts";
import type { Leases } from "./leases.ts";
import type { Reporter } from "./reporter.ts";

export interface RunTasksDeps {
  /** Does one task. Never throws. */
  readonly perform: (work: TaskWork) => Promise<Outcome>;
  readonly leases: Leases;
  readonly reporter: Reporter;
  /** The worker's folder. */
  readonly dir: string;
}

// Tasks wait for others most of the time, and each bounds what it has on its way itself.
const TASKS_AT_ONCE = 2;

/**
 * Does the tasks of one lease call, which come before its datums, and returns the datums that are still this
 * worker's. If the tasks take long, whatever has not begun is given back, so that nothing waits here while another
 * worker is idle; and all of it if this worker is to end. Outcomes may still be on their way afterwards.
 */
export async function runTasks(deps: RunTasksDeps, { lease, signals }: BatchOptions): Promise<LeasedDatum[]> {
  if (lease.tasks.length === 0) return lease.datums;
  const round = new Round(deps, { lease, signals });
  const giveBack = () => round.giveBack();
  const timer = setTimeout(giveBack, LONG_BATCH_MS);
  signals.drain.addEventListener("abort", giveBack, { once: true });
  if (signals.drain.aborted) giveBack();
  try {
    return await round.run();
  } finally {
    clearTimeout(timer);
    signals.drain.removeEventListener("abort", giveBack);
    void deps.reporter.flush();
  }
}

class Round {
  readonly #deps: RunTasksDeps;
  readonly #lease: Lease;
  /** Leases of what has not begun, each with what stops it. */
  readonly #waiting: Map<string, AbortSignal>;

  constructor(deps: RunTasksDeps, { lease, signals }: BatchOptions) {
    this.#deps = deps;
    this.#lease = lease;
    const ids = [...lease.tasks, ...lease.datums].map((leased) => leased.lease);
    this.#waiting = new Map(ids.map((id) => [id, AbortSignal.any([signals.kill, deps.leases.hold(id)])]));
  }

  async run(): Promise<LeasedDatum[]> {
    const { tasks, datums } = this.#lease;
    await forEachLimited(tasks, { limit: TASKS_AT_ONCE, work: (task) => this.#perform(task) });
    return datums.filter(({ lease }) => this.#waiting.get(lease)?.aborted === false);
  }

  giveBack(): void {
    const given = [...this.#waiting.keys()];
    this.#waiting.clear();
    this.#deps.reporter.yieldAll(given);
  }

  /** Reports nothing of work that was stopped: its lease is lost, or the one who stopped it returns it. */
  async #perform(task: Task): Promise<void> {
    const signal = this.#waiting.get(task.lease);
    this.#waiting.delete(task.lease);
    if (!signal || signal.aborted) return;
    const { perform, reporter, leases, dir } = this.#deps;
    const file = join(dir, `task-${++files}`);
    const grant = leases.grantOf(task.lease);
    const outcome = await perform({ task, output: this.#lease.output, file, grant, signal });
    if (!signal.aborted) reporter.add(outcome);
  }
}

/** Numbers the files of tasks. */
let files = 0;
