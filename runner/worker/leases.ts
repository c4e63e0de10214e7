import { setMaxListeners } from "node:events";
import { LEASE_MS, type Lease, MAX_BATCH } from "../../protocol/runner.ts";
import { type Gateway, Grant } from "../gateway/gateway.ts";
import { about, jitteredBackoff, pause, retrying } from "../gateway/retry.ts";
import { boundedReason, messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";

/** How a worker is told to end. */
export interface Signals {
  /** Begin nothing new. */
  readonly drain: AbortSignal;
  /** Stop what runs, too. Comes with `drain`. */
  readonly kill: AbortSignal;
}

/** Why a datum's work was stopped before its end. */
export type StopReason = "lost" | "yielded";

/** The leases that a worker holds, each with the signal that stops its work and with its grant. */
export class Leases {
  readonly #held = new Map<string, AbortController>();
  readonly #grants = new Map<string, Grant>();
  /** Called if a grant is good no more: its lease should be renewed at once. */
  onStaleGrant: () => void = () => {};

  get ids(): string[] {
    return [...this.#held.keys()];
  }

  /** Takes over the grants of what was leased. */
  granted({ tasks, datums, grants = {} }: Pick<Lease, "tasks" | "datums" | "grants">): void {
    for (const { lease, job } of [...tasks, ...datums]) {
      const onStale = () => this.onStaleGrant();
      this.#grants.set(lease, new Grant({ job, text: grants[job], onStale }));
    }
  }

  /** Takes over fresh grants, by job. */
  renewed(grants: Readonly<Record<string, string>>): void {
    for (const grant of this.#grants.values()) {
      const text = grants[grant.job];
      if (text !== undefined) grant.renew(text);
    }
  }

  /** The grant of a lease, to be kept with its work: what others wait for may go on after the lease is let go. */
  grantOf(lease: string): Grant | undefined {
    return this.#grants.get(lease);
  }

  hold(lease: string): AbortSignal {
    const controller = new AbortController();
    setMaxListeners(0, controller.signal);
    this.#held.set(lease, controller);
    return controller.signal;
  }

  /** Stops the work of a lease and lets go of it. False if the lease was not held any more. */
  stop(lease: string, reason: StopReason): boolean {
    const controller = this.#held.get(lease);
    controller?.abort(reason);
    this.#grants.delete(lease);
    return this.#held.delete(lease);
  }

  /** Lets go of a lease whose outcome has been recorded. */
  release(lease: string): void {
    this.#grants.delete(lease);
    this.#held.delete(lease);
  }
}

export interface RenewerDeps {
  readonly gateway: Pick<Gateway, "renew">;
  readonly leases: Leases;
  readonly log: Log;
  readonly pipeline: string;
  readonly worker: string;
}

const RENEW_MS = LEASE_MS / 3;

/**
 * Renews a worker's leases, and stops the work of those that are lost. The work goes on while the gateway does not
 * answer: only the gateway says whether a lease is lost, and it accepts nothing under a lost one. A renewal also says
 * why the worker can't work, if it can't.
 */
export class Renewer {
  readonly #deps: RenewerDeps;
  #condition: string | null | undefined;
  /** How many things go on for which the worker needs its slot, though it holds no lease and asks for none. */
  #busy = 0;
  #hurry = new AbortController();

  constructor(deps: RenewerDeps) {
    this.#deps = deps;
    deps.leases.onStaleGrant = () => this.#hurry.abort();
  }

  /** Renews until `stop`. */
  async run(stop: AbortSignal): Promise<void> {
    const backoff = jitteredBackoff({ minMs: 1000, maxMs: 4000 });
    let waitMs = about(RENEW_MS);
    while (!stop.aborted) {
      await pause(waitMs, AbortSignal.any([stop, this.#hurry.signal]));
      if (this.#hurry.signal.aborted) this.#hurry = new AbortController();
      const renewed = await this.#renewAll(stop);
      if (renewed) backoff.reset();
      waitMs = renewed ? about(RENEW_MS) : backoff.next();
    }
  }

  /**
   * Says why the worker can't run commands; null: it can again. Says so at once, even if it was said before, because
   * leasing a datum takes it back; and with every renewal for as long as it is so.
   */
  say(condition: string | null): void {
    if (condition === null && !this.#condition) return;
    this.#condition = condition === null ? null : boundedReason(condition);
    this.#hurry.abort();
  }

  /** Asks until the gateway says whether a lease is held, and renews it. If it is lost, its work stops and this throws. */
  async confirm(lease: string, signal: AbortSignal): Promise<void> {
    await retrying(() => this.#renew([lease], signal), { signal });
    signal.throwIfAborted();
  }

  /** Renews at once: the gateway may know already that the leases are lost, and their work is to be stopped. */
  hurry(): void {
    this.#hurry.abort();
  }

  /** Keeps the worker's slot while something goes on. */
  async keepingSlot<T>(work: () => Promise<T>): Promise<T> {
    this.#busy += 1;
    try {
      return await work();
    } finally {
      this.#busy -= 1;
    }
  }

  async #renewAll(stop: AbortSignal): Promise<boolean> {
    const { leases, log, pipeline } = this.#deps;
    const held = leases.ids;
    const alone = this.#condition !== undefined || this.#busy > 0;
    const calls = Math.max(Math.ceil(held.length / MAX_BATCH), alone ? 1 : 0);
    try {
      for (let call = 0; call < calls && !stop.aborted; call += 1) {
        await this.#renew(held.slice(call * MAX_BATCH, (call + 1) * MAX_BATCH), stop);
      }
      return true;
    } catch (error) {
      if (!stop.aborted)
        log.warn({ reason: messageOf(error) }, `leases of ${pipeline} could not be renewed, trying again`);
      return false;
    }
  }

  async #renew(held: string[], stop: AbortSignal): Promise<void> {
    const { gateway, leases, log, pipeline, worker } = this.#deps;
    const condition = this.#condition;
    const said = condition !== undefined && { trouble: condition };
    const { lost, grants } = await gateway.renew({ pipeline, worker, leases: held, ...said }, stop);
    if (grants) leases.renewed(grants);
    // That the condition is over is said until it is heard.
    if (condition === null && this.#condition === null) this.#condition = undefined;
    for (const lease of lost) {
      if (leases.stop(lease, "lost"))
        log.warn({ lease }, `a lease of ${pipeline} was lost: its work is stopped`);
    }
  }
}
