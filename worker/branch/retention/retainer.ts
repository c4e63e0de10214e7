import type { Tx } from "../../objects/transaction.ts";
import type { BranchContext } from "../context.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { tidySoon } from "../lifecycle/tidy.ts";
import { floorNow } from "./floor.ts";
import { freeAliveSlice, freeLineages, freeSlice, purgeRest } from "./free.ts";
import { markSlice, unholdSlice } from "./mark.ts";

/** How long after one round the next one may begin, so that many commits are one round; milliseconds. */
const BETWEEN_MS = 5000;
/** How long after it was begun, or could not go on, the alarm looks after it; milliseconds. */
const WATCH_MS = 10_000;
/** So many times as long as a slice took, others and all, it then rests; milliseconds at most. */
const REST_FACTOR = 3;
const LONGEST_REST_MS = 200;

/** How long an alarm waits for the end of a round; milliseconds. */
const IDLE_MS = 1000;

type RetainerOptions = Pick<BranchContext, "ledger" | "now" | "wake" | "later" | "turn" | "pause">;

/**
 * Gives back what no kept commit has (free.ts tells how), in rounds: the floors rise as far as they may, and then rows go in
 * slices until none is left. Between two slices it rests for a multiple of what the slice took, so that a branch at work
 * keeps most of its time. What a crash cuts off the alarm goes on with, from what is written down.
 */
export class Retainer {
  readonly #options: RetainerOptions;
  /** Set while a round goes on. */
  #run: Promise<void> | undefined;
  #lastEnd = Number.NEGATIVE_INFINITY;
  /** Whether a held commit may be named no more. Nobody knows what an earlier instance was about to look at. */
  #namesChanged = true;

  constructor(options: RetainerOptions) {
    this.#options = options;
  }

  /**
   * Begins a round if one is due, else sees to it that the alarm does. `early`: a round may follow soon after another one.
   * There must be tables.
   */
  goOn({ early = false }: { readonly early?: boolean } = {}): void {
    const { now, later, wake } = this.#options;
    if (this.#run) return;
    const due = early ? this.#dueAt(now()) : this.nextDue();
    if (due === undefined) return;
    if (due > now()) {
      wake(due);
      return;
    }
    wake(now() + WATCH_MS);
    this.#run = this.#round();
    later(this.#run);
  }

  /** Resolves when no round goes on, or after a while. */
  async idle(): Promise<void> {
    if (this.#run) await Promise.race([this.#run, this.#options.pause(IDLE_MS)]);
  }

  /** A write is done: what a commit replaced may go soon, and what an open commit held. Mostly costs no query. */
  committed(): void {
    const { ledger, now, wake } = this.#options;
    const hasEnded = this.#lookAtEnds();
    const live = ledger.generations.live();
    if (!live) return;
    const isDue =
      ledger.settings.of(live.gen).keep !== null || (hasEnded && ledger.horizons.hasHeld(live.gen));
    if (isDue) wake(now() + BETWEEN_MS);
  }

  /** Something names a commit no more, or a subscriber needs less. */
  released(): void {
    const { ledger, wake } = this.#options;
    this.#namesChanged = true;
    const due = ledger.exists ? this.nextDue() : undefined;
    if (due !== undefined) wake(due);
  }

  /** When a round is to begin, or the alarm to look after one; undefined if nothing is to be given back. There must be tables. */
  nextDue(): number | undefined {
    const now = this.#options.now();
    if (this.#run) return now + WATCH_MS;
    const due = this.#dueAt(now);
    return due === undefined ? undefined : Math.max(due, this.#lastEnd + BETWEEN_MS);
  }

  /**
   * An open commit that ended, whether it was finished or ran out, names the commit no more that it began with; and of a tag
   * that went, the time may be over that its commit was still kept.
   */
  #lookAtEnds(): boolean {
    const { openCommits, untagged } = this.#options.ledger;
    const hasEnded = [openCommits.takeEnded(), untagged.takeForgotten()].includes(true);
    this.#namesChanged ||= hasEnded;
    return hasEnded;
  }

  #dueAt(now: number): number | undefined {
    const { ledger } = this.#options;
    this.#lookAtEnds();
    let earliest: number | undefined;
    for (const gen of ledger.horizons.unpurged()) {
      // What an export reads stays until it ends, or its reader is gone.
      if (ledger.exports.reads(gen, now)) continue;
      const due = dueOf(ledger, { gen, now, namesChanged: this.#namesChanged });
      if (due !== undefined) earliest = Math.min(due, earliest ?? due);
    }
    return earliest;
  }

  async #round(): Promise<void> {
    const { ledger, now, turn, pause, wake } = this.#options;
    this.#namesChanged = false;
    try {
      // Not in the turn of the call that began it.
      await turn();
      let startedAt = now();
      for (const _ of slices(ledger, now)) {
        tidySoon(this.#options);
        const news = ledger.outbox.nextDue();
        if (news !== undefined) wake(news);
        await turn();
        const tookMs = now() - startedAt;
        if (tookMs > 0) await pause(Math.min(REST_FACTOR * tookMs, LONGEST_REST_MS));
        startedAt = now();
      }
    } catch (error) {
      console.warn(`what is kept no more could not be given back, and is tried again: ${error}`);
      this.#namesChanged = true;
      wake(now() + WATCH_MS);
    } finally {
      this.#run = undefined;
      this.#lastEnd = now();
    }
    // What came meanwhile is for another round.
    const due = this.nextDue();
    if (due !== undefined) wake(due);
  }
}

/** All of a round, one transaction after the other. */
function* slices(ledger: Ledger, now: () => number): Generator<void> {
  ledger.transaction(() => ledger.starts.forgetOthers());
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
    if (raiseFloor(ledger, { gen, now: now() })) tellHolder(tx, ledger, { gen, now: now() });
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

type HorizonStores = Pick<Ledger, "generations" | "commits" | "settings" | "subscribers" | "horizons">;

/** The pipeline that holds the branch is to hear of it: what only those commits needed of it may go (pipeline/jobs/kept.ts). */
function tellHolder(
  _: Tx,
  { generations, claim, outbox }: Pick<Ledger, "generations" | "claim" | "outbox">,
  { gen, now }: { gen: number; now: number },
): void {
  const holder = generations.live()?.gen === gen ? claim.get() : null;
  if (holder) outbox.tellHolder(holder.uid, { event: crypto.randomUUID(), now });
}

/** Returns whether it rose. */
function raiseFloor(ledger: HorizonStores, { gen, now }: { gen: number; now: number }): boolean {
  const { horizons } = ledger;
  const generation = ledger.generations.get(gen);
  if (!generation) return false;
  const { floor } = floorNow(ledger, { generation, now });
  const horizon = horizons.get(gen);
  if (floor <= horizon.floor) return false;
  horizons.save({ ...horizon, floor });
  return true;
}

/** When there is something to give back of a generation; undefined if there is nothing, as far as is known. */
function dueOf(
  ledger: HorizonStores,
  { gen, now, namesChanged }: { gen: number; now: number; namesChanged: boolean },
): number | undefined {
  const generation = ledger.generations.get(gen);
  if (!generation) return undefined;
  const { floor, marked, diedFrom, alivePath } = ledger.horizons.get(gen);
  const next = floorNow(ledger, { generation, now });
  const isBehind = next.floor > floor || marked < floor || (marked > 0 && diedFrom <= marked);
  const isToEnd = isEnded(ledger, gen) && (alivePath !== null || isRid(ledger, gen));
  if (isBehind || isToEnd || (namesChanged && ledger.horizons.hasHeld(gen))) return now;
  return next.risesAt ?? undefined;
}

/** Whether a generation was deleted, and nobody needs any of it as it was before its end. */
function isEnded({ commits, horizons }: Pick<Ledger, "commits" | "horizons">, gen: number): boolean {
  const last = commits.newest(gen);
  return last?.kind === "deletion" && horizons.floorOf(gen) >= last.seq;
}

/** Whether an ended generation has no row of files left, and nothing that holds one. */
function isRid({ horizons }: Pick<Ledger, "horizons">, gen: number): boolean {
  const { floor, marked, diedFrom, alivePath, purged } = horizons.get(gen);
  return (
    purged === 0 && marked === floor && diedFrom > marked && alivePath === null && !horizons.hasHeld(gen)
  );
}
