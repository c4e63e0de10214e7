import type { CreationRefused } from "../work/saga/create.ts";

/** More than calls wait for at a time: a call reads why its creation was refused in the turn in which that is known. */
const MAX_KEPT = 100;

/**
 * Why creations were refused, by the uid of what was to be the pipeline: for the calls that wait for them. Only the last
 * ones are kept, as nobody reads those of calls that have gone.
 */
export class Refusals {
  readonly #byUid = new Map<string, CreationRefused>();

  add(uid: string, refusal: CreationRefused): void {
    this.#byUid.set(uid, refusal);
    const [oldest] = this.#byUid.keys();
    if (this.#byUid.size > MAX_KEPT && oldest !== undefined) this.#byUid.delete(oldest);
  }

  of(uid: string): CreationRefused | undefined {
    return this.#byUid.get(uid);
  }
}
