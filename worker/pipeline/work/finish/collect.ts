import type { JobWork } from "../../context.ts";
import { justAfter, type Mover } from "../../inputs/datum-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { EndingStep, WalkPlace } from "../../output/draft-store.ts";
import { endStep } from "../guards.ts";

/** Datums and paths looked at in one transaction: some 20 ms of work. */
const SLICE = 500;
/** Datums read at a time. */
const PAGE = 100;

type Walk = { readonly step: "died" | "born" } & WalkPlace;

/** Where the walks over what a job changes begin. */
export function walkFrom(step: Walk["step"], committed: number): Walk {
  return { step, job: committed + 1, mark: "", path: "" };
}

/**
 * One slice of writing down what the job's commit changes of what was committed. Only datums that died or were born
 * since the last commit are looked at, deaths first: if a new datum of the same key writes what an old one wrote, it
 * is the new one's. Returns a datum whose result was dropped since it was counted as done.
 */
export function collectChanges(oldest: JobWork, from: Walk): { id: string; key: string } | undefined {
  return endStep(oldest, () => {
    const collector = new Collector(oldest);
    let at: EndingStep = collector.walk(from);
    if (at.step === "born") at = collector.walk(at);
    oldest.ledger.ending.set(oldest.job.n, at);
    return collector.lacking;
  });
}

class Collector {
  lacking: { id: string; key: string } | undefined;
  readonly #committed: number;
  readonly #failed: number;
  readonly #ledger: Ledger;
  readonly #n: number;
  #left = SLICE;

  constructor({ ledger, job }: JobWork) {
    this.#ledger = ledger;
    this.#n = job.n;
    this.#failed = job.failed;
    this.#committed = ledger.pipeline.existing.committed;
  }

  /** Goes on until the slice is used up or this walk is done; returns where to go on. */
  walk(from: Walk): EndingStep {
    const { step } = from;
    let place: WalkPlace = from;
    for (let page = this.#page(step, place); page.length > 0; page = this.#page(step, place)) {
      for (const datum of page) {
        place = { job: datum.job, mark: datum.mark, path: pathOf(datum, place) };
        if (this.#left <= 0 || this.lacking) return { step, ...place };
        const rest = step === "died" ? this.#died(datum, place) : this.#born(datum, place);
        if (rest !== null) return { step, ...place, path: rest };
        place = { job: datum.job, mark: justAfter(datum.mark), path: "" };
      }
      if (page.length < PAGE) break;
    }
    return step === "died" ? walkFrom("born", this.#committed) : { step: "plan" };
  }

  #page(step: Walk["step"], place: WalkPlace): Mover[] {
    const span = { from: this.#committed, to: this.#n };
    return this.#ledger.datums[step](span, { place, limit: PAGE });
  }

  /** Returns the path to go on from; null: it is done. */
  #died(datum: Mover, place: WalkPlace): string | null {
    const { published, changed } = this.#ledger;
    if (this.#stays(datum)) return this.#pass();
    const { key } = datum;
    const paths = published.ofKey(key, { from: place.path, limit: this.#left });
    for (const path of paths) changed.drop({ path, key });
    return this.#after(paths);
  }

  #born(datum: Mover, place: WalkPlace): string | null {
    const { results, changed } = this.#ledger;
    const { id, key, salt } = datum;
    // A later job may have its result by now. In this one it failed, and contributes nothing.
    if (this.#hasFailed(id)) return this.#pass();
    if (!results.has(id)) {
      this.lacking = { id, key };
      return place.path;
    }
    if (this.#stays(datum)) return this.#pass();
    const outputs = results.outputs({ id, salt }, { from: place.path, limit: this.#left });
    for (const output of outputs) changed.set({ ...output, id, key, salt });
    return this.#after(outputs.map(({ path }) => path));
  }

  /** It died and came back since, and has not run again: what it wrote is in the output. */
  #stays({ id, salt }: Mover): boolean {
    const { datums, results } = this.#ledger;
    if (this.#hasFailed(id)) return false;
    if (datums.saltAt(id, this.#committed) !== salt || datums.saltAt(id, this.#n) !== salt) return false;
    return (results.origin({ id, salt })?.job ?? this.#n) <= this.#committed;
  }

  /** Looked up only if the job lets bad datums be. */
  #hasFailed(id: string): boolean {
    return this.#failed > 0 && this.#ledger.attempts.hasFailed(this.#n, id);
  }

  #pass(): null {
    this.#left--;
    return null;
  }

  #after(paths: readonly string[]): string | null {
    const isFull = paths.length === this.#left;
    this.#left -= paths.length + 1;
    const last = paths.at(-1);
    return isFull && last !== undefined ? justAfter(last) : null;
  }
}

/** Where to go on with a datum: only the first one of a slice may be half done. */
function pathOf({ job, mark }: Mover, place: WalkPlace): string {
  return place.job === job && place.mark === mark ? place.path : "";
}
