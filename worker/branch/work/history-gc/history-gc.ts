import type { NamedLoop } from "../../../objects/loop.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { BranchContext } from "../../context.ts";
import { BETWEEN_PASSES_MS, type Ledger } from "../../ledger/ledger.ts";
import { horizonNow } from "../../retention/horizon.ts";
import { markSlice, unholdSlice } from "../../retention/mark.ts";
import type { BranchLoop } from "../../store.ts";
import { freeAliveSlice, freeLineages, freeSlice, purgeRest } from "./free.ts";

/** So many times as long as a slice took, others and all, it then rests; milliseconds at most. */
const REST_FACTOR = 3;
const LONGEST_REST_MS = 200;

type HistoryGcOptions = Pick<BranchContext, "ledger" | "now" | "pause">;

/**
 * Gives back what no kept commit has (free.ts tells how), in passes: the horizons rise as far as they may, and then rows go in
 * slices until none is left. Between two slices it rests for a multiple of what the slice took, so that a branch at work
 * keeps most of its time. What a crash cuts off begins again, from what is written down.
 */
export class HistoryGc implements NamedLoop {
  readonly name = "history GC" satisfies BranchLoop;
  readonly checksDue = true;
  readonly #options: HistoryGcOptions;
  /** What is left of the pass that goes on. */
  #pass: Generator<void> | undefined;
  /** When its last slice began. */
  #sliceAt = 0;
  #lastEnd = Number.NEGATIVE_INFINITY;
  /** Whether a held commit may be named no more. Nobody knows what an earlier instance was about to look at. */
  #namesChanged = true;

  constructor(options: HistoryGcOptions) {
    this.#options = options;
  }

  /** Something names a commit no more, or a subscriber needs less. What a commit replaced has a time instead. */
  heard(): void {
    this.#namesChanged = true;
  }

  /** A pass may follow soon after another one. */
  rang(): void {
    this.#lastEnd = Number.NEGATIVE_INFINITY;
  }

  due(): number | undefined {
    if (this.#pass) return 0;
    const due = this.#dueAt(this.#options.now());
    return due === undefined ? undefined : Math.max(due, this.#lastEnd + BETWEEN_PASSES_MS);
  }

  /** One slice of a pass. */
  async step(): Promise<boolean> {
    const { ledger, now, pause } = this.#options;
    if (!this.#pass) {
      const due = this.due();
      if (due === undefined || due > now()) return false;
      this.#namesChanged = false;
      this.#pass = slices(ledger, now);
    } else {
      // What others took in between counts, too.
      const tookMs = now() - this.#sliceAt;
      if (tookMs > 0) await pause(Math.min(REST_FACTOR * tookMs, LONGEST_REST_MS));
    }
    this.#sliceAt = now();
    try {
      if (this.#pass.next().done) this.#end();
    } catch (error) {
      this.#end();
      this.#namesChanged = true;
      throw error;
    }
    return true;
  }

  #end(): void {
    this.#pass = undefined;
    this.#lastEnd = this.#options.now();
  }

  #dueAt(now: number): number | undefined {
    const { ledger } = this.#options;
    let earliest: number | undefined;
    for (const gen of ledger.horizons.unpurged()) {
      // What an export reads stays until it ends, or its reader is gone.
      if (ledger.exports.reads(gen, now)) continue;
      const due = dueOf(ledger, { gen, now, namesChanged: this.#namesChanged });
      if (due !== undefined) earliest = Math.min(due, earliest ?? due);
    }
    return earliest;
  }
}

/** All of a pass, one transaction after the other. */
function* slices(ledger: Ledger, now: () => number): Generator<void> {
  for (const gen of ledger.horizons.unpurged()) {
    for (const _ of slicesOf(ledger, { gen, now })) {
      yield;
      // It may have begun in between.
      if (ledger.exports.reads(gen, now())) break;
    }
  }
}

function* slicesOf(ledger: Ledger, { gen, now }: { gen: number; now: () => number }): Generator<void> {
  if (ledger.exports.reads(gen, now())) return;
  ledger.transaction((tx) => {
    if (raiseHorizon(ledger, { gen, now: now() })) tellHolder(tx, ledger, { gen, now: now() });
  });
  for (let after: number | undefined = 0; after !== undefined && ledger.horizons.hasHeld(gen); ) {
    const from: number = after;
    after = ledger.transaction((tx) => {
      const { last, released } = unholdSlice(tx, ledger, { gen, after: from });
      if (released) tellHolder(tx, ledger, { gen, now: now() });
      return last;
    });
    yield;
  }
  while (ledger.transaction((tx) => markSlice(tx, ledger, gen))) yield;
  while (ledger.transaction((tx) => freeSlice(tx, ledger, { gen, now: now() }))) yield* removals(ledger, now);
  while (ledger.transaction((tx) => freeLineages(tx, ledger, gen))) yield;
  if (!isEnded(ledger, gen)) return;
  while (ledger.transaction((tx) => freeAliveSlice(tx, ledger, { gen, now: now() }))) {
    yield* removals(ledger, now);
  }
  if (!isRid(ledger, gen)) return;
  while (ledger.transaction((tx) => purgeRest(tx, ledger, gen))) yield;
}

/** Removes what a slice left dead, as one transaction removes no more than it should. */
function* removals(ledger: Ledger, now: () => number): Generator<void> {
  yield;
  while (ledger.contents.mayHaveDead) {
    ledger.transaction(() => ledger.contents.removeDead(now()));
    yield;
  }
}

/** The pipeline that holds the branch is to hear of it: what only those commits needed of it may go (pipeline/work/trim/trim.ts). */
function tellHolder(
  _: Tx,
  { generations, claim, outbox }: Ledger,
  { gen, now }: { gen: number; now: number },
): void {
  const holder = generations.live()?.gen === gen ? claim.get() : null;
  if (holder) outbox.mark("owner", { uid: holder.uid, event: crypto.randomUUID(), due: now });
}

/** Returns whether it rose. */
function raiseHorizon(ledger: Ledger, { gen, now }: { gen: number; now: number }): boolean {
  const { horizons } = ledger;
  const generation = ledger.generations.get(gen);
  if (!generation) return false;
  const { horizon } = horizonNow(ledger, { generation, now });
  const progress = horizons.get(gen);
  if (horizon <= progress.horizon) return false;
  horizons.save({ ...progress, horizon });
  return true;
}

/** When there is something to give back of a generation; undefined if there is nothing, as far as is known. */
function dueOf(
  ledger: Ledger,
  { gen, now, namesChanged }: { gen: number; now: number; namesChanged: boolean },
): number | undefined {
  const generation = ledger.generations.get(gen);
  if (!generation) return undefined;
  const { horizon, marked, diedFrom, alivePath } = ledger.horizons.get(gen);
  const next = horizonNow(ledger, { generation, now });
  const isBehind = next.horizon > horizon || marked < horizon || (marked > 0 && diedFrom <= marked);
  const isToEnd = isEnded(ledger, gen) && (alivePath !== null || isRid(ledger, gen));
  if (isBehind || isToEnd || (namesChanged && ledger.horizons.hasHeld(gen))) return now;
  return next.risesAt ?? undefined;
}

/** Whether a generation was deleted, and nobody needs any of it as it was before its end. */
function isEnded({ commits, horizons }: Ledger, gen: number): boolean {
  const last = commits.newest(gen);
  return last?.kind === "deletion" && horizons.horizonOf(gen) >= last.seq;
}

/** Whether an ended generation has no row of files left, and nothing that holds one. */
function isRid({ horizons }: Ledger, gen: number): boolean {
  const { horizon, marked, diedFrom, alivePath, purged } = horizons.get(gen);
  return (
    purged === 0 && marked === horizon && diedFrom > marked && alivePath === null && !horizons.hasHeld(gen)
  );
}
