import type { LeasedDatum } from "../../protocol/runner.ts";
import type { Leases } from "./leases.ts";
import type { Reporter } from "./reporter.ts";
import { boundedReason } from "./verdict.ts";

export interface AwaitingDeps {
  readonly leases: Leases;
  readonly reporter: Pick<Reporter, "add" | "flush">;
  readonly kill: AbortSignal;
}

/** Leased datums that can't begin yet. Each is let go of once, in one of these ways, or lost. */
export class AwaitingDatums {
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
