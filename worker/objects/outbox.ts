import { tellFailure } from "./engine.ts";
import { FIRST_RETRY_MS, type LoopStanding, type NamedLoop, retryMs } from "./loop.ts";
import { Store } from "./store.ts";
import type { Changes, Tx } from "./transaction.ts";

/*
 * What an object is still to tell others. A row of `outbox` says that a receiver is to hear of something, and is written in the
 * transaction of what it is about; what exactly is to be told is in tables of the object's own. After the transaction the
 * dispatcher, a loop, has the receiver told, and then the row goes.
 *
 *  - A row is there once, however much happened. Marking it again while its receiver is being told leaves it there: the
 *    acknowledgement takes out the row of the event that it was read with, and no other.
 *  - A crash between the telling and the acknowledgement has the receiver told twice, which does no harm.
 *  - A receiver that can't be reached is tried again, later and later, and keeps no other one waiting. The row keeps how often
 *    that was in vain, and why the last time.
 */

export interface OutboxRow<Name extends string = string> {
  readonly receiver: Name;
  /** Which of several receivers of that name; empty if there is but one. */
  readonly uid: string;
  /** The newest that it is about: tells it from the row that was marked again while its receiver was told. */
  readonly event: string;
  /** How often in a row the receiver could not be told. */
  readonly tries: number;
}

interface Mark {
  readonly uid?: string;
  /** Has not been the event of this row before, unless the receiver itself finds out what is left (`Forget`). */
  readonly event: string;
  /** When it is told, unless a call does it before; milliseconds since 1970. */
  readonly due: number;
}

/** The rows. */
export class OutboxStore<Name extends string = string> extends Store<"outbox"> {
  /**
   * A receiver is to hear of something. That is a reason to try again one that could not be reached, though at most once in
   * FIRST_RETRY_MS. Writes nothing if nothing changes.
   */
  mark(receiver: Name, { uid = "", event, due }: Mark): void {
    this.sql.run`
      INSERT INTO outbox (receiver, uid, event, due) VALUES (${receiver}, ${uid}, ${event}, ${due})
      ON CONFLICT DO UPDATE SET
        event = excluded.event, due = min(due, max(excluded.due, triedAt + ${FIRST_RETRY_MS}))
      WHERE event <> excluded.event OR due > max(excluded.due, triedAt + ${FIRST_RETRY_MS})`;
    this.wake("outbox", due);
  }

  find(receiver: Name, uid = ""): OutboxRow<Name> | undefined {
    return this.sql.first<OutboxRow<Name>>`
      SELECT receiver, uid, event, tries FROM outbox WHERE receiver = ${receiver} AND uid = ${uid}`;
  }

  due(now: number, limit: number): OutboxRow<Name>[] {
    return this.sql.all<OutboxRow<Name>>`
      SELECT receiver, uid, event, tries FROM outbox WHERE due <= ${now} ORDER BY due LIMIT ${limit}`;
  }

  /** When the next one is due; undefined if none waits. */
  nextDue(): number | undefined {
    return this.sql.first<{ due: number }>`SELECT due FROM outbox ORDER BY due LIMIT 1`?.due;
  }

  /** Some that could not be told, and with what the last try failed. */
  failing(limit: number): (OutboxRow<Name> & { readonly due: number; readonly lastError: string })[] {
    return this.sql.all`
      SELECT receiver, uid, event, tries, due, lastError FROM outbox WHERE tries > 0 ORDER BY due LIMIT ${limit}`;
  }

  /** The receiver was told all that the row is about. */
  acknowledge({ receiver, uid, event }: OutboxRow<Name>): void {
    this.sql.run`DELETE FROM outbox WHERE receiver = ${receiver} AND uid = ${uid} AND event = ${event}`;
  }

  /** It was told something: what is left waits for no retry. */
  reached({ receiver, uid }: OutboxRow<Name>, now: number): void {
    this.sql.run`
      UPDATE outbox SET tries = 0, triedAt = 0, lastError = NULL, due = min(due, ${now})
      WHERE receiver = ${receiver} AND uid = ${uid}`;
  }

  /** It could not be told: again later, with growing pauses. */
  failed({ receiver, uid, tries }: OutboxRow<Name>, { error, now }: { error: unknown; now: number }): void {
    const due = now + retryMs(tries + 1);
    this.sql.run`
      UPDATE outbox SET tries = ${tries + 1}, triedAt = ${now}, due = ${due}, lastError = ${String(error)}
      WHERE receiver = ${receiver} AND uid = ${uid}`;
    this.wake("outbox", due);
  }

  drop(receiver: Name, uid = ""): void {
    this.sql.run`DELETE FROM outbox WHERE receiver = ${receiver} AND uid = ${uid}`;
  }
}

/** Tells a receiver, the one of that uid, what waits for it. Rejects if it can't be reached. */
export type Send = (uid: string) => Promise<Forget | undefined>;

/** Forgets what was told, in the transaction of the acknowledgement. Returns whether that was all; if not, the row stays. */
export type Forget = (tx: Tx) => boolean;

interface DispatcherOptions<Name extends string> {
  /** What the object is called in the log. */
  readonly object: () => string;
  readonly ledger: {
    readonly outbox: OutboxStore<Name>;
    transaction<T>(work: (tx: Tx) => T, changes?: Changes): T;
  };
  readonly now: () => number;
  readonly receivers: Readonly<Record<Name, Send>>;
}

/** Receivers that are told at the same time. */
const AT_ONCE = 20;
/** Most failing receivers that are shown. */
const SHOWN = 20;

/** Tells receivers what waits for them: each in its own time, one thing after the other. */
export class OutboxDispatcher<Name extends string> implements NamedLoop {
  readonly name = "outbox";
  readonly atOnce = true;
  readonly #options: DispatcherOptions<Name>;
  /** Who is being told, and whether it was. */
  readonly #sending = new Map<string, Promise<boolean>>();
  #look = Promise.withResolvers<void>();

  constructor(options: DispatcherOptions<Name>) {
    this.#options = options;
  }

  due(): number | undefined {
    return this.#options.ledger.outbox.nextDue();
  }

  /** There may be more to tell than when the step began, which may be waiting for a receiver that hangs. */
  heard(): void {
    this.#look.resolve();
  }

  rang(): void {
    this.#look.resolve();
  }

  /** Begins to tell those that are due, and waits for the first of all that are being told. */
  async step(): Promise<boolean> {
    const { ledger, now } = this.#options;
    this.#look = Promise.withResolvers();
    const due = ledger.outbox.due(now(), AT_ONCE + this.#sending.size);
    const idle = due.filter((row) => !this.#sending.has(nameOf(row)));
    // Calls tell some as well: there may be more under way than the loop begins.
    const free = Math.max(0, AT_ONCE - this.#sending.size);
    for (const row of idle.slice(0, free)) void this.flush(row.receiver, row.uid);
    if (this.#sending.size === 0) return false;
    await Promise.race([...this.#sending.values(), this.#look.promise]);
    return true;
  }

  /**
   * Tells one now, after what it is being told already. Returns whether it knows all that waited when this was called; what
   * comes meanwhile has a caller of its own.
   */
  flush(receiver: Name, uid = ""): Promise<boolean> {
    const key = nameOf({ receiver, uid });
    const before = this.#sending.get(key)?.catch(() => {});
    const sent = Promise.resolve(before)
      .then(() => this.#options.ledger.outbox.find(receiver, uid))
      .then((row) => (row ? this.send(row) : true))
      .finally(() => {
        if (this.#sending.get(key) === sent) this.#sending.delete(key);
      });
    this.#sending.set(key, sent);
    return sent;
  }

  /** Returns whether it arrived. */
  async send(row: OutboxRow<Name>): Promise<boolean> {
    const { ledger, receivers, now, object } = this.#options;
    const { outbox } = ledger;
    try {
      const forget = await receivers[row.receiver](row.uid);
      // Rows of the outbox are nobody's answer. What is forgotten beside them may be.
      const changes = forget ? "anything" : "paths";
      ledger.transaction((tx) => {
        if (forget?.(tx) ?? true) outbox.acknowledge(row);
        if (row.tries > 0) outbox.reached(row, now());
      }, changes);
      return true;
    } catch (error) {
      ledger.transaction(() => outbox.failed(row, { error, now: now() }), "paths");
      const tries = row.tries + 1;
      tellFailure(object(), { loop: nameOf(row), tries, retryMs: retryMs(tries), error });
      return false;
    }
  }

  /** The receivers that could not be told. */
  parts(): LoopStanding[] {
    return this.#options.ledger.outbox.failing(SHOWN).map((row) => ({
      name: nameOf(row),
      state: "failing",
      due: row.due,
      tries: row.tries,
      error: row.lastError,
    }));
  }
}

/** What the log and `sluice doctor` call a receiver. */
function nameOf({ receiver, uid }: Pick<OutboxRow, "receiver" | "uid">): string {
  return `outbox (${[receiver, uid].join(" ").trim()})`;
}
