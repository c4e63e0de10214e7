import type { Lease } from "../../protocol/runner.ts";
import type { Signals } from "./leases.ts";
import type { Place, Places } from "./run-permits.ts";

/**
 * How a worker comes to its work. It is to have a place of its node before it is leased anything, and it is not to sit on
 * a place while nothing is queued: another pipeline's datum may need it.
 *
 * - If the node has a place for each of its workers, a worker has one whenever it needs it: it waits at the gateway, and
 *   takes the place that is there for it when something comes. This costs one call.
 * - Otherwise it first looks, without a place: the gateway says when something is queued, and leases nothing. Then it waits
 *   for its place, and asks with the place in hand, without waiting. So nobody waits for anything while he holds a place
 *   but for the answer to one call. After work it asks again without a look.
 *
 * A call that began when there were places enough may end when there are not. Then what was leased may find no place: it
 * is given back at once.
 */
export interface AskingDeps {
  readonly places: Places;
  readonly pipeline: string;
  /** Asks the gateway; undefined: it could not be asked. */
  readonly lease: (ask: Ask, signals: Signals) => Promise<Lease | undefined>;
  /** Returns what was leased, unharmed. */
  readonly giveBack: (lease: Lease) => void;
  /** Keeps the worker's slot while it waits for its place. */
  readonly keepingSlot: <T>(work: () => Promise<T>) => Promise<T>;
}

/** A lease call: for how much, and whether it waits. */
export interface Ask {
  readonly max: number;
  readonly wait?: "none" | "look";
}

/** What was leased, and the place to run it. */
export interface Work {
  readonly lease: Lease;
  readonly place: Place;
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
    const { suffice } = this.#deps.places;
    const work = suffice ? await this.#waitAndTake(max, signals) : await this.#lookAndTake(max, signals);
    this.#hopeful = work !== undefined;
    return work;
  }

  async #waitAndTake(max: number, signals: Signals): Promise<Work | undefined> {
    const { places, pipeline, lease: ask, giveBack } = this.#deps;
    const lease = await ask({ max }, signals);
    if (!lease || isEmpty(lease)) return undefined;
    const place = places.tryTake(pipeline);
    if (place) return { lease, place };
    giveBack(lease);
    return undefined;
  }

  async #lookAndTake(max: number, signals: Signals): Promise<Work | undefined> {
    const { places, pipeline, lease: ask, keepingSlot } = this.#deps;
    const misses = places.misses(pipeline);
    if (!this.#hopeful) {
      const looked = await ask({ max, wait: "look" }, signals);
      if (!looked?.queued) return undefined;
    }
    const place = await keepingSlot(() => places.take(pipeline, signals.drain));
    if (!place) return undefined;
    // Of many workers that saw the same datum, those that come too late need not ask.
    const isTaken = !this.#hopeful && places.misses(pipeline) !== misses;
    const lease = isTaken ? undefined : await ask({ max, wait: "none" }, signals);
    if (lease && !isEmpty(lease)) return { lease, place };
    if (lease) places.missed(pipeline);
    place.release();
    return undefined;
  }
}

function isEmpty({ slot, datums, tasks }: Lease): boolean {
  return !slot || datums.length + tasks.length === 0;
}
