import { WATCH_MS } from "../../objects/loop.ts";
import type { Subscriber } from "../contract/pipelines.ts";
import { BranchStore } from "../store.ts";

/**
 * The catalogue hears of the branch, of its settings and of erased contents apart: a branch whose creation it was told is
 * there, whatever becomes of its settings.
 */
type Topic = "catalogue" | "settings" | "erased" | "bell" | "kept" | "give-back";

/** News that a receiver is still to be told. */
export interface OutboxRow {
  readonly topic: Topic;
  /** The subscriber's, the holder's or the fork's; empty for the catalogue, whatever it is told. */
  readonly uid: string;
  /** Of the newest commit, creation, deletion or change of settings that it is about: tells it from a row written while it was delivered. */
  readonly event: string;
  readonly tries: number;
}

/** What happened, and when. */
interface News {
  readonly event: string;
  readonly now: number;
}

const FIRST_RETRY_MS = 1000;
const LONGEST_RETRY_MS = 5 * 60 * 1000;
/** With more tries the wait stays the longest one; a larger shift would overflow. */
const MOST_DOUBLINGS = 20;

/** News for the catalogue and for subscribers, written in the transaction of what it is about. One row a receiver, however much happened. */
export class Outbox extends BranchStore {
  /** The catalogue is to hear how the branch stands. Whoever waits for that tells it; the alarm does if that can't be. */
  tellCatalogue(news: News): void {
    this.#put({ topic: "catalogue", uid: "" }, news);
    this.wake("outbox", news.now + WATCH_MS);
  }

  /** The catalogue is to hear what the branch is set to. As of the branch. */
  tellSettings(news: News): void {
    this.#put({ topic: "settings", uid: "" }, news);
    this.wake("outbox", news.now + WATCH_MS);
  }

  /** The catalogue is to hear which contents were erased. */
  tellErased(news: News): void {
    this.#put({ topic: "erased", uid: "" }, news);
    this.wake("outbox");
  }

  /** Subscribers are to hear that there is news. */
  ring(subscribers: readonly Subscriber[], news: News): void {
    for (const { uid } of subscribers) this.#put({ topic: "bell", uid }, news);
    if (subscribers.length > 0) this.wake("outbox");
  }

  /** The pipeline that holds the branch is to hear that fewer commits are kept. */
  tellHolder(uid: string, news: News): void {
    this.#put({ topic: "kept", uid }, news);
    this.wake("outbox");
  }

  /** The parent of a fork is to hear what the fork needs no more (work/outbox/give-back.ts). */
  tellParent(fork: string, news: News): void {
    this.#put({ topic: "give-back", uid: fork }, news);
    this.wake("outbox");
  }

  find({ topic, uid }: Pick<OutboxRow, "topic" | "uid">): OutboxRow | undefined {
    return this.sql.first<OutboxRow>`
      SELECT topic, uid, event, tries FROM outbox WHERE topic = ${topic} AND uid = ${uid}`;
  }

  due(now: number, limit: number): OutboxRow[] {
    return this.sql.all<OutboxRow>`
      SELECT topic, uid, event, tries FROM outbox WHERE due <= ${now} ORDER BY due LIMIT ${limit}`;
  }

  /** When the next one is due; undefined if none waits. */
  nextDue(): number | undefined {
    return this.sql.first<{ due: number }>`SELECT due FROM outbox ORDER BY due LIMIT 1`?.due;
  }

  /** It was told. News since then keeps the row. */
  delivered({ topic, uid, event }: OutboxRow): void {
    this.sql.run`DELETE FROM outbox WHERE topic = ${topic} AND uid = ${uid} AND event = ${event}`;
  }

  /** It could not be told: again later, with growing pauses. */
  failed({ topic, uid, tries }: OutboxRow, now: number): void {
    const due = now + Math.min(FIRST_RETRY_MS * 2 ** Math.min(tries, MOST_DOUBLINGS), LONGEST_RETRY_MS);
    this.sql.run`
      UPDATE outbox SET tries = ${tries + 1}, due = ${due} WHERE topic = ${topic} AND uid = ${uid}`;
    // Not sooner for settings: of a creation the call that told them tells the rest, or whoever asks again.
    this.wake("outbox", topic === "settings" ? Math.max(due, now + WATCH_MS) : due);
  }

  drop({ topic, uid }: Pick<OutboxRow, "topic" | "uid">): void {
    this.sql.run`DELETE FROM outbox WHERE topic = ${topic} AND uid = ${uid}`;
  }

  #put({ topic, uid }: Pick<OutboxRow, "topic" | "uid">, { event, now }: News): void {
    // News are a reason to try again now a receiver that could not be reached, though at most once in FIRST_RETRY_MS:
    // `due` less the wait of so many tries is when it was tried last.
    this.sql.run`
      INSERT INTO outbox (topic, uid, event, tries, due) VALUES (${topic}, ${uid}, ${event}, 0, ${now})
      ON CONFLICT DO UPDATE SET event = excluded.event,
        due = min(due, max(excluded.due, iif(tries = 0, due, ${FIRST_RETRY_MS} + due -
          min(${FIRST_RETRY_MS} << min(tries - 1, ${MOST_DOUBLINGS}), ${LONGEST_RETRY_MS}))))`;
  }
}

/** What a subscriber needs: all since this position; null: it never told, and needs everything. */
export interface Need {
  readonly gen: number | null;
  readonly seq: number | null;
}

/** Pipelines that want their doorbell rung. Kept in memory, since each commit asks. */
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
  needs(): (Need & Pick<Subscriber, "pipeline"> & { readonly job: string | null })[] {
    return this.sql
      .all`SELECT pipeline, needs_gen AS gen, needs_seq AS seq, needs_job AS job FROM subscribers`;
  }

  /** It needs all since this position, and never less again: a call that comes late takes nothing back. */
  need(uid: string, { gen, seq, job }: { gen: number; seq: number; job: string | null }): void {
    this.sql.run`
      UPDATE subscribers SET needs_gen = ${gen}, needs_seq = ${seq}, needs_job = ${job}
      WHERE uid = ${uid} AND (needs_gen IS NULL OR (needs_gen, needs_seq) <= (${gen}, ${seq}))`;
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
