import { WATCH_MS } from "../../objects/loop.ts";
import { OutboxStore } from "../../objects/outbox.ts";
import type { Subscriber } from "../contract/pipelines.ts";
import { BranchStore } from "../store.ts";

/**
 * Whom a branch tells. `catalogue`: that it is there, and its tags; `settings` and `erased`: the catalogue, too, but apart: a branch
 * whose creation it was told is there, whatever becomes of its settings. `pipeline`, by its uid: that there is news for it;
 * `owner`, by its uid: the pipeline whose output this is, that fewer commits are kept. `parent`, by the fork's uid: what the fork
 * needs no more.
 */
export type BranchReceiver = "catalogue" | "settings" | "erased" | "pipeline" | "owner" | "parent";

/** What happened, and when. */
interface News {
  /** Of the newest commit, creation, deletion or change of settings. */
  readonly event: string;
  readonly now: number;
}

/** What others are still to hear, written in the transaction of what it is about. */
export class Outbox extends OutboxStore<BranchReceiver> {
  /** The catalogue is to hear how the branch stands. Whoever waits for that tells it; the loop does if that can't be. */
  tellCatalogue({ event, now }: News): void {
    this.mark("catalogue", { event, due: now + WATCH_MS });
  }

  /** The catalogue is to hear what the branch is set to. As of the branch. */
  tellSettings({ event, now }: News): void {
    this.mark("settings", { event, due: now + WATCH_MS });
  }

  /** Whether a creation, by the uid of the generation, is the newest that the catalogue is still to be told. */
  creationWaits(uid: string): boolean {
    return this.find("catalogue")?.event === uid;
  }

  /** Pipelines are to hear that there is news. */
  ring(pipelines: readonly Subscriber[], { event, now }: News): void {
    for (const { uid } of pipelines) this.mark("pipeline", { uid, event, due: now });
  }
}

/** Of a subscriber: it needs all since this position; null: it never told, and needs everything. */
export interface LowWaterMark {
  readonly gen: number | null;
  readonly seq: number | null;
}

/** Pipelines that want to be woken. Kept in memory, since each commit asks. */
export class SubscriberStore extends BranchStore {
  #all: readonly Subscriber[] | undefined;

  all(): readonly Subscriber[] {
    this.#all ??= this.sql.all<Subscriber>`SELECT uid, pipeline FROM subscribers ORDER BY uid`;
    return this.#all;
  }

  add({ uid, pipeline }: Subscriber): void {
    this.sql.run`
      INSERT INTO subscribers (uid, pipeline) VALUES (${uid}, ${pipeline})
      ON CONFLICT DO UPDATE SET pipeline = excluded.pipeline`;
    this.forget();
  }

  has(uid: string): boolean {
    return this.sql.has`SELECT 1 FROM subscribers WHERE uid = ${uid}`;
  }

  /** What each needs of the history, and the job that it needs it for. */
  marks(): (LowWaterMark & Pick<Subscriber, "pipeline"> & { readonly job: string | null })[] {
    return this.sql.all`SELECT pipeline, gen, seq, job FROM subscribers`;
  }

  /** It needs all since this position, and never less again: a call that comes late takes nothing back. */
  setMark(uid: string, { gen, seq, job }: { gen: number; seq: number; job: string | null }): void {
    this.sql.run`
      UPDATE subscribers SET gen = ${gen}, seq = ${seq}, job = ${job}
      WHERE uid = ${uid} AND (gen IS NULL OR (gen, seq) <= (${gen}, ${seq}))`;
    this.#neededLess();
  }

  remove(uid: string): void {
    this.sql.run`DELETE FROM subscribers WHERE uid = ${uid}`;
    this.#neededLess();
    this.forget();
  }

  /** What waited for a subscriber may go on: the history, and a fork that was deleted. */
  #neededLess(): void {
    this.wake("history GC");
    this.wake("forks");
  }

  /** What is in memory may not be what is written. */
  forget(): void {
    this.#all = undefined;
  }
}
