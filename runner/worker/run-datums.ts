import type { Lease, LeasedDatum } from "../../protocol/runner.ts";
import type { Sandbox } from "../executors/executor.ts";
import { boundedReason, messageOf } from "../lib/fault.ts";
import { SecretMissing } from "../secrets/source.ts";
import { type BatchDeps, runBatch, type Signals } from "./batch.ts";
import type { Leases } from "./leases.ts";
import type { Reporter } from "./reporter.ts";
import type { Sandboxes } from "./sandboxes.ts";

export interface RunDatumsDeps extends Omit<BatchDeps, "sandbox"> {
  readonly sandboxes: Sandboxes;
}

/** A sandbox that takes longer than this (an image is pulled) is made ready without datums: others may have them meanwhile. */
const LONG_PREPARE_MS = 5000;

/**
 * Runs leased datums in the worker's sandbox, which is made ready before. Where commands can't be run here, they
 * are given back unharmed; where a pull secret is not there, they fail with their job.
 */
export async function runDatums(deps: RunDatumsDeps, lease: Lease, signals: Signals): Promise<void> {
  const { sandboxes } = deps;
  const there = sandboxes.at(lease.transform.image);
  const begun = there ? { sandbox: there, datums: lease.datums } : await prepared(deps, lease, signals);
  if (!begun) return;
  const { sandbox, datums } = begun;
  const trouble = await runBatch({ ...deps, sandbox }, { ...lease, datums }, signals);
  if (trouble) await sandboxes.broke(lease.transform, trouble);
  else sandboxes.worked();
}

async function prepared(
  deps: RunDatumsDeps,
  { transform, datums }: Lease,
  { drain, kill }: Signals,
): Promise<{ sandbox: Sandbox; datums: Lease["datums"] } | undefined> {
  const awaiting = new AwaitingDatums({ ...deps, kill }, datums);
  const giveBack = () => awaiting.giveBack();
  const timer = setTimeout(giveBack, LONG_PREPARE_MS);
  drain.addEventListener("abort", giveBack, { once: true });
  try {
    const sandbox = await deps.sandboxes.get(transform, drain);
    const rest = awaiting.begin();
    return rest.length > 0 ? { sandbox, datums: rest } : undefined;
  } catch (error) {
    if (error instanceof SecretMissing) awaiting.failJob(messageOf(error));
    else awaiting.giveBack();
    return undefined;
  } finally {
    clearTimeout(timer);
    drain.removeEventListener("abort", giveBack);
  }
}

interface AwaitingDeps {
  readonly leases: Leases;
  readonly reporter: Pick<Reporter, "add" | "flush">;
  readonly kill: AbortSignal;
}

/** Leased datums that can't begin yet. Each is let go of once, in one of these ways, or lost. */
class AwaitingDatums {
  readonly #deps: AwaitingDeps;
  readonly #waiting: { readonly datum: LeasedDatum; readonly stopped: AbortSignal }[];

  constructor(deps: AwaitingDeps, datums: readonly LeasedDatum[]) {
    this.#deps = deps;
    this.#waiting = datums.map((datum) => ({ datum, stopped: deps.leases.hold(datum.lease) }));
  }

  /** They may begin: those that are still ours. */
  begin(): LeasedDatum[] {
    return this.#take();
  }

  /** Others may have them. After a kill the worker gives back all that it holds, in one short call. */
  giveBack(): void {
    const { leases, reporter, kill } = this.#deps;
    if (kill.aborted) return;
    for (const { lease } of this.#take()) {
      leases.stop(lease, "yielded");
      reporter.add({ lease, state: "returned" });
    }
    void reporter.flush();
  }

  /** None of their job can ever run, for this reason. */
  failJob(reason: string): void {
    const { reporter } = this.#deps;
    const failure = { state: "failed", exitCode: null, reason: boundedReason(reason), log: "" } as const;
    for (const { lease } of this.#take()) reporter.add({ lease, ...failure, millis: 0, endsJob: true });
    void reporter.flush();
  }

  #take(): LeasedDatum[] {
    return this.#waiting.splice(0).flatMap(({ datum, stopped }) => (stopped.aborted ? [] : [datum]));
  }
}
