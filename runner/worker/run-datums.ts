import type { Lease, LeasedDatum } from "../../protocol/runner.ts";
import type { NodeCondition, Sandbox } from "../executors/executor.ts";
import { failedOutcome, messageOf } from "../lib/fault.ts";
import { SecretMissing } from "../secrets/source.ts";
import type { BatchOptions } from "./batch.ts";
import type { Leases } from "./leases.ts";
import type { Reporter } from "./reporter.ts";
import { type Sandboxes, termsOf } from "./sandboxes.ts";

export interface RunDatumsDeps {
  readonly sandboxes: Sandboxes;
  readonly leases: Leases;
  readonly reporter: Reporter;
  /** Runs the datums of a lease in a sandbox. Returns why commands can't be run there, if they can't. */
  readonly batch: (sandbox: Sandbox, lease: Lease) => Promise<NodeCondition | undefined>;
  /** All of it was given back before any of it could begin: the sandbox may take its time. */
  readonly givenBack: () => void;
}

/** If a sandbox takes longer than this to make (an image is pulled), its datums are given back: others may have them meanwhile. */
const LONG_PREPARE_MS = 5000;

/**
 * Runs leased datums in the worker's sandbox, which is made ready before. If commands can't be run here, the datums
 * are given back unharmed; if a pull secret is missing, they fail with their job.
 */
export async function runDatums(
  { batch, ...deps }: RunDatumsDeps,
  { lease, signals }: BatchOptions,
): Promise<void> {
  const { sandboxes } = deps;
  const there = sandboxes.at(termsOf(lease));
  const ready = there ? { sandbox: there, datums: lease.datums } : await prepared(deps, { lease, signals });
  if (!ready) return;
  const condition = await batch(ready.sandbox, { ...lease, datums: ready.datums });
  if (condition) await sandboxes.broke(termsOf(lease), condition);
  else sandboxes.worked();
}

async function prepared(
  { sandboxes, leases, reporter, givenBack }: Omit<RunDatumsDeps, "batch">,
  { lease, signals: { drain } }: BatchOptions,
): Promise<{ sandbox: Sandbox; datums: LeasedDatum[] } | undefined> {
  const waiting = new WaitingDatums({ leases, reporter }, lease.datums);
  const giveBack = () => {
    waiting.giveBack();
    givenBack();
  };
  const timer = setTimeout(giveBack, LONG_PREPARE_MS);
  drain.addEventListener("abort", giveBack, { once: true });
  try {
    const sandbox = await sandboxes.get(termsOf(lease), drain);
    const rest = waiting.take();
    return rest.length > 0 ? { sandbox, datums: rest } : undefined;
  } catch (error) {
    if (error instanceof SecretMissing) waiting.failJob(messageOf(error));
    else waiting.giveBack();
    return undefined;
  } finally {
    clearTimeout(timer);
    drain.removeEventListener("abort", giveBack);
  }
}

type WaitingDeps = Pick<RunDatumsDeps, "leases" | "reporter">;

/** Leased datums that can't begin yet. Each is let go of once, in one of these ways, unless its lease was lost. */
class WaitingDatums {
  readonly #deps: WaitingDeps;
  readonly #waiting: { readonly datum: LeasedDatum; readonly stopped: AbortSignal }[];

  constructor(deps: WaitingDeps, datums: readonly LeasedDatum[]) {
    this.#deps = deps;
    this.#waiting = datums.map((datum) => ({ datum, stopped: deps.leases.hold(datum.lease) }));
  }

  /** Lets others have them. */
  giveBack(): void {
    this.#deps.reporter.yieldAll(this.take().map(({ lease }) => lease));
  }

  /** Fails their job: for this reason none of its datums can ever run. */
  failJob(reason: string): void {
    const { reporter } = this.#deps;
    for (const { lease } of this.take()) reporter.add(failedOutcome(lease, { reason, endsJob: true }));
    void reporter.flush();
  }

  /** Takes those that are still ours: they may begin. */
  take(): LeasedDatum[] {
    return this.#waiting.splice(0).flatMap(({ datum, stopped }) => (stopped.aborted ? [] : [datum]));
  }
}
