import { GatewayError } from "../../protocol/requests.ts";
import { type Lease, MAX_BATCH, type Outcome } from "../../protocol/runner.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { retrying } from "../gateway/retry.ts";
import { failedOutcome, messageOf } from "../lib/fault.ts";
import { LogShipper, type LogShipperDeps } from "../logs/shipper.ts";
import type { Leases } from "./leases.ts";

/** `kill` gives up what is not reported yet, too. */
export interface ReporterDeps extends LogShipperDeps {
  readonly gateway: Pick<Gateway, "finish" | "logs">;
  readonly leases: Leases;
}

/** How long a result may wait for others to travel with it. */
const HOLD_MS = 500;
/** About so many characters of outcomes go in one call: keeps a message far below what the gateway's parts can pass on. */
const MAX_WEIGHT = 4 * 1024 * 1024;

/**
 * Brings outcomes to the gateway, in batches, for as long as it takes: a result is only dropped if the gateway says that
 * it is not wanted. What the commands printed goes before their outcomes.
 */
export class Reporter {
  readonly logs: LogShipper;
  readonly #deps: ReporterDeps;
  #waiting: Outcome[] = [];
  #weight = 0;
  #unanswered = 0;
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> = Promise.resolve();

  constructor(deps: ReporterDeps) {
    this.#deps = deps;
    this.logs = new LogShipper(deps);
  }

  /** Outcomes that the gateway has not answered to. */
  get unanswered(): number {
    return this.#unanswered;
  }

  add(outcome: Outcome): void {
    this.#unanswered += 1;
    this.#waiting.push(outcome);
    this.#weight += weightOf(outcome);
    this.#timer ??= setTimeout(() => this.flush(), HOLD_MS);
    if (this.#waiting.length === MAX_BATCH || this.#weight >= MAX_WEIGHT) this.flush();
  }

  /** Returns held work that has not begun. After a kill it stays held: the worker gives back all in one short call. */
  yieldAll(held: readonly string[]): void {
    const { leases, kill } = this.#deps;
    if (kill.aborted || held.length === 0) return;
    for (const lease of held) {
      if (leases.stop(lease, "yielded")) this.add({ lease, state: "returned" });
      else this.logs.drop([lease]);
    }
    void this.flush();
  }

  /** Returns what was leased and is not held yet. */
  giveBack({ tasks, datums }: Pick<Lease, "tasks" | "datums">): void {
    for (const { lease } of [...tasks, ...datums]) this.add({ lease, state: "returned" });
    void this.flush();
  }

  /** Sends what waits, after what is being sent. Resolves when all of it has been taken or refused. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const outcomes = this.#waiting;
    this.#waiting = [];
    this.#weight = 0;
    if (outcomes.length > 0) this.#sending = this.#sending.then(() => this.#send(outcomes));
    return this.#sending;
  }

  /** Never fails. */
  async #send(outcomes: readonly Outcome[]): Promise<void> {
    await this.#deliver(outcomes);
    // After a kill they were not reported: they stay held, so that the worker gives them back.
    if (this.#deps.kill.aborted) return;
    this.logs.recorded(outcomes.map(({ lease }) => lease));
    for (const { lease } of outcomes) this.#deps.leases.release(lease);
    this.#unanswered -= outcomes.length;
  }

  async #deliver(outcomes: readonly Outcome[]): Promise<void> {
    const { gateway, log, pipeline, worker, kill } = this.#deps;
    const work = async () => {
      // Again before each try: after an outage the gateway is back for logs, too.
      await this.logs.flush(outcomes.map(({ lease }) => lease));
      return gateway.finish({ pipeline, worker, outcomes: [...outcomes] }, kill);
    };
    const onRetry = (error: unknown) =>
      log.warn({ reason: messageOf(error) }, `reporting results of ${pipeline} failed, trying again`);
    try {
      const { lost } = await retrying(work, { signal: kill, onRetry });
      for (const lease of lost)
        log.warn({ lease }, `a result of ${pipeline} was not recorded: its lease was lost`);
    } catch (error) {
      if (kill.aborted) return;
      if (isBadOutcome(error)) return this.#sendApart(outcomes, error);
      log.error({ reason: messageOf(error) }, `the gateway refused results of ${pipeline}`);
    }
  }

  /** Sends outcomes one by one, after a refusal of all. A bad one becomes the failure of its datum or task: it must not take the others with it, nor run again and again unseen. */
  async #sendApart(outcomes: readonly Outcome[], error: GatewayError): Promise<void> {
    const [first, ...others] = outcomes;
    if (first && others.length === 0) {
      if (first.state !== "returned" && first.state !== "failed")
        return this.#deliver([refused(first, error)]);
      const { pipeline, log } = this.#deps;
      return log.error({ reason: error.message }, `the gateway refused a result of ${pipeline}`);
    }
    for (const outcome of outcomes) await this.#deliver([outcome]);
  }
}

function isBadOutcome(error: unknown): error is GatewayError {
  return error instanceof GatewayError && [400, 409, 413, 422].includes(error.status);
}

type Done = Extract<Outcome, { state: "success" | "merged" | "pushed" }>;

function refused({ lease, state, millis }: Done, error: GatewayError): Outcome {
  const whose = state === "success" ? "the datum's result" : "the task's result";
  return failedOutcome(lease, { reason: `the gateway refused ${whose}: ${error.message}`, millis });
}

function weightOf(outcome: Outcome): number {
  if (outcome.state === "returned" || outcome.state === "pushed") return 0;
  if (outcome.state === "failed") return outcome.log.length;
  if (outcome.state === "merged") return outcome.bytes?.length ?? 0;
  return outcome.outputs.reduce((sum, { path, bytes = "" }) => sum + path.length + bytes.length + 128, 0);
}
