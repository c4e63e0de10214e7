import { setMaxListeners } from "node:events";

/** Why a datum's work was stopped before its end. */
export type StopReason = "lost" | "yielded";

/** The leases that a worker holds, each with the signal that stops its work. */
export class Leases {
  readonly #held = new Map<string, AbortController>();

  get ids(): string[] {
    return [...this.#held.keys()];
  }

  hold(lease: string): AbortSignal {
    const controller = new AbortController();
    setMaxListeners(0, controller.signal);
    this.#held.set(lease, controller);
    return controller.signal;
  }

  /** Stops the work of a lease that is still held, and lets go of it. True where it was held. */
  stop(lease: string, reason: StopReason): boolean {
    const controller = this.#held.get(lease);
    controller?.abort(reason);
    return this.#held.delete(lease);
  }

  /** Lets go of a lease whose outcome has been recorded. */
  release(lease: string): void {
    this.#held.delete(lease);
  }
}
