import { join } from "node:path";
import type { BranchAddress } from "../../protocol/names.ts";
import type { Lease, LeasedDatum, Outcome, Task } from "../../protocol/runner.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { Grant } from "../gateway/grant.ts";
import { forEachLimited } from "../lib/concurrency.ts";
import { boundedReason, messageOf } from "../lib/fault.ts";
import { SecretMissing, type SecretSource } from "../secrets/source.ts";
import { type BatchOptions, LONG_BATCH_MS } from "../worker/batch.ts";
import type { Leases } from "../worker/leases.ts";
import type { Reporter } from "../worker/reporter.ts";
import type { EgressTerms } from "./egress-terms.ts";
import { mergeParts } from "./merge.ts";
import { egressEntries } from "./push-entries.ts";

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
  readonly #kill: AbortSignal;
  /** Leases of what has not begun, each with what stops it. */
  readonly #waiting: Map<string, AbortSignal>;

  constructor(deps: RunTasksDeps, { lease, signals }: BatchOptions) {
    this.#deps = deps;
    this.#lease = lease;
    this.#kill = signals.kill;
    const ids = [...lease.tasks, ...lease.datums].map((leased) => leased.lease);
    this.#waiting = new Map(ids.map((id) => [id, AbortSignal.any([signals.kill, deps.leases.hold(id)])]));
  }

  async run(): Promise<LeasedDatum[]> {
    const { tasks, datums } = this.#lease;
    await forEachLimited(tasks, { limit: TASKS_AT_ONCE, work: (task) => this.#perform(task) });
    return datums.filter(({ lease }) => this.#waiting.get(lease)?.aborted === false);
  }

  /** After a kill the worker gives back all that it holds, in one short call. */
  giveBack(): void {
    const given = [...this.#waiting.keys()];
    this.#waiting.clear();
    if (this.#kill.aborted || given.length === 0) return;
    const { leases, reporter } = this.#deps;
    for (const lease of given) {
      if (leases.stop(lease, "yielded")) reporter.add({ lease, state: "returned" });
    }
    void reporter.flush();
  }

  /** Reports nothing of work that was stopped: its lease is lost, or the one who stopped it returns it. */
  async #perform(task: Task): Promise<void> {
    const signal = this.#waiting.get(task.lease);
    this.#waiting.delete(task.lease);
    if (!signal || signal.aborted) return;
    const { perform, reporter, leases, dir } = this.#deps;
    const file = join(dir, `task-${nextFile()}`);
    const grant = leases.grantOf(task.lease);
    const outcome = await perform({ task, output: this.#lease.output, file, grant, signal });
    if (!signal.aborted) reporter.add(outcome);
  }
}

let files = 0;

function nextFile(): number {
  files += 1;
  return files;
}

export interface TaskDeps {
  readonly gateway: Pick<
    Gateway,
    "content" | "openUpload" | "reserve" | "addInline" | "addContent" | "compose"
  >;
  readonly secrets: SecretSource;
  /** Holds the credentials of an egress, unless it names a secret. */
  readonly env: NodeJS.ProcessEnv;
  /** Whether the pipeline belongs to a limited key, as the lease says. */
  readonly limited?: boolean | undefined;
  /** What egress may do. */
  readonly terms: EgressTerms;
  /** Id of the key that the runner has for its gateway. */
  readonly gatewayKey: string;
  /** Resolves once the gateway has said that a lease is still held. Throws if it is lost. */
  readonly confirmLease: (lease: string, signal: AbortSignal) => Promise<void>;
  /** How long the store of an egress may take no byte and give no answer. */
  readonly stallMs?: number;
}

export interface TaskWork {
  readonly task: Task;
  /** The pipeline's output branch. */
  readonly output: BranchAddress;
  /** A file that may be made for it. */
  readonly file: string;
  /** With it contents are read and sent. */
  readonly grant?: Grant | undefined;
  /** Stops the work; its outcome is then of no interest. */
  readonly signal: AbortSignal;
}

/** Does what a job needs beside its command. Never throws: a failure is an outcome. */
export async function performTask(deps: TaskDeps, work: TaskWork): Promise<Outcome> {
  const { lease } = work.task;
  const began = performance.now();
  const millis = () => Math.round(performance.now() - began);
  try {
    return { lease, ...(await done(deps, work)), millis: millis() };
  } catch (error) {
    // The job names the task, so the reason need not.
    const reason = boundedReason(messageOf(error));
    const hopeless = error instanceof SecretMissing && { endsJob: true as const };
    return { lease, state: "failed", exitCode: null, reason, log: "", millis: millis(), ...hopeless };
  }
}

async function done(deps: TaskDeps, work: TaskWork) {
  const { task, output, file, grant, signal } = work;
  if (task.kind === "merge") {
    return {
      state: "merged",
      ...(await mergeParts(deps.gateway, { task, output, file, grant, signal })),
    } as const;
  }
  const confirmLease = () => deps.confirmLease(task.lease, signal);
  const remark = await egressEntries({ ...deps, confirmLease }, { task, output, grant, signal });
  return { state: "pushed", ...(remark !== null && task.takesRemark && { remark }) } as const;
}
