import type { Sql } from "../../objects/sql.ts";
import { Store } from "../../objects/store.ts";

/** `work`: loops may have something to go on with; `leases`: a lease runs out; `jobs`: a job's time does. */
export type TimerKind = "work" | "leases" | "jobs";

/** All timers of the object over its one alarm. Set in the same turn as the rows they are for, they survive with them. */
export class TimerStore extends Store {
  readonly #storage: DurableObjectStorage;
  /** When the alarm is known to ring; undefined if that is unknown, or never. */
  #alarm: number | undefined;

  constructor(sql: Sql, storage: DurableObjectStorage) {
    super(sql);
    this.#storage = storage;
  }

  /** Due then, or sooner if it was due before that. */
  arm(kind: TimerKind, due: number): void {
    this.sql.run`
      INSERT INTO timers (kind, due) VALUES (${kind}, ${due})
      ON CONFLICT (kind) DO UPDATE SET due = excluded.due WHERE excluded.due < timers.due`;
    if (this.#alarm === undefined || due < this.#alarm) this.#ring();
  }

  /** Due then, whatever was set; undefined: never. Without any timer no alarm stands, so that an idle object rests. */
  set(kind: TimerKind, due: number | undefined): void {
    this.sql.run`DELETE FROM timers WHERE kind = ${kind}`;
    if (due === undefined) this.#ring();
    else this.arm(kind, due);
  }

  all(): { kind: TimerKind; dueAt: number }[] {
    return this.sql.all<{
      kind: TimerKind;
      dueAt: number;
    }>`SELECT kind, due AS "dueAt" FROM timers ORDER BY kind`;
  }

  /** After the alarm rang: the platform forgot it. */
  rearm(): void {
    this.#alarm = undefined;
    this.#ring();
  }

  #ring(): void {
    const next = this.sql.first<{ due: number | null }>`SELECT min(due) AS due FROM timers`?.due ?? undefined;
    if (next === this.#alarm && next !== undefined) return;
    this.#alarm = next;
    if (next === undefined) void this.#storage.deleteAlarm();
    else void this.#storage.setAlarm(next);
  }
}
