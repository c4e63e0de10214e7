import type { Lease } from "../../protocol/runner.ts";
import type { Signals } from "./leases.ts";
import type { RunPermit, RunPermits } from "./run-permits.ts";

/**
 * How a worker comes to its work. It is to have a permit of its node before it is leased anything, and it is not to sit on
 * a permit while nothing is queued: another pipeline's datum may need it.
 *
 * - If the node has a permit for each of its workers, a worker has one whenever it needs it: it waits at the gateway, and
 *   takes the permit that is there for it when something comes. This costs one call.
 * - Otherwise it first peeks, without a permit: the gateway says when something is queued, and leases nothing. Then it waits
 *   for its permit, and asks with the permit in hand, without waiting. So nobody waits for anything while he holds a permit
 *   but for the answer to one call. After work it asks again without a peek.
 *
 * A call that began when there were permits enough may end when there are not. Then what was leased may find no permit: it
 * is given back at once.
 */
export interface AskingDeps {
  readonly permits: RunPermits;
  readonly pipeline: string;
  /** Asks the gateway; undefined: it could not be asked. */
  readonly lease: (ask: Ask, signals: Signals) => Promise<Lease | undefined>;
  /** Returns what was leased, unharmed. */
  readonly giveBack: (lease: Lease) => void;
  /** Keeps the worker's slot while it waits for its permit. */
  readonly keepingSlot: <T>(work: () => Promise<T>) => Promise<T>;
}

/** A lease call: for how much, and whether it waits. */
export interface Ask {
  readonly max: number;
  /** `look` is the wire's word for a peek. */
  readonly wait?: "none" | "look";
}

/** What was leased, and the permit to run it. */
export interface Work {
  readonly lease: Lease;
  readonly permit: RunPermit;
}

/** The asking of one worker. */
export class Asking {
  readonly #deps: AskingDeps;
  /** The last answer brought work: more may be queued. */
  #hopeful = true;

  constructor(deps: AskingDeps) {
    this.#deps = deps;
  }

  /** Asks for up to `max` datums or tasks. Returns undefined if it came to nothing. */
  async next(max: number, signals: Signals): Promise<Work | undefined> {
    const { suffice } = this.#deps.permits;
    const work = suffice ? await this.#waitAndTake(max, signals) : await this.#peekAndTake(max, signals);
    this.#hopeful = work !== undefined;
    return work;
  }

  async #waitAndTake(max: number, signals: Signals): Promise<Work | undefined> {
    const { permits, pipeline, lease: ask, giveBack } = this.#deps;
    const lease = await ask({ max }, signals);
    if (!lease || isEmpty(lease)) return undefined;
    const permit = permits.tryTake(pipeline);
    if (permit) return { lease, permit };
    giveBack(lease);
    return undefined;
  }

  async #peekAndTake(max: number, signals: Signals): Promise<Work | undefined> {
    const { permits, pipeline, lease: ask, keepingSlot } = this.#deps;
    const misses = permits.misses(pipeline);
    if (!this.#hopeful) {
      const peeked = await ask({ max, wait: "look" }, signals);
      if (!peeked?.queued) return undefined;
    }
    const permit = await keepingSlot(() => permits.take(pipeline, signals.drain));
    if (!permit) return undefined;
    // Of many workers that saw the same datum, those that come too late need not ask.
    const isTaken = !this.#hopeful && permits.misses(pipeline) !== misses;
    const lease = isTaken ? undefined : await ask({ max, wait: "none" }, signals);
    if (lease && !isEmpty(lease)) return { lease, permit };
    if (lease) permits.missed(pipeline);
    permit.release();
    return undefined;
  }
}

function isEmpty({ slot, datums, tasks }: Lease): boolean {
  return !slot || datums.length + tasks.length === 0;
}
