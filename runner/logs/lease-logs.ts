import {
  MAX_BATCH,
  MAX_LOG_LINE_CHARACTERS,
  MAX_LOG_LINES,
  MAX_LOGS_CHARACTERS,
} from "../../protocol/runner.ts";
import { DatumLog, type Take, type WaitingInAll } from "./datum-log.ts";

/** What goes to the gateway in one call. It goes again unchanged if nobody knows whether it came. */
export type Parcel = readonly ParcelEntry[];

interface ParcelEntry extends Take {
  readonly lease: string;
  readonly seq: number;
}

interface Held {
  readonly log: DatumLog;
  /** The number of its next entry. */
  seq: number;
}

/** The logs of a worker's leases. */
export class LeaseLogs {
  readonly #held = new Map<string, Held>();
  readonly #inAll: WaitingInAll = { weight: 0 };

  /** A log for a lease that has none. */
  open(lease: string): DatumLog {
    const log = new DatumLog(this.#inAll);
    this.#held.set(lease, { log, seq: 0 });
    return log;
  }

  has(lease: string): boolean {
    return this.#held.has(lease);
  }

  /** Whether lines wait to be taken: of these leases, or of all. */
  isWaiting(leases: Iterable<string> = this.#held.keys()): boolean {
    return [...leases].some((lease) => this.#held.get(lease)?.log.isWaiting);
  }

  /** Whether there are lines that are not finished. */
  get isUnfinished(): boolean {
    return [...this.#held.values()].some(({ log }) => log.isUnfinished);
  }

  flushUnfinished(now: number): void {
    for (const { log } of this.#held.values()) log.flushUnfinished(now);
  }

  /** Their commands have ended. */
  end(leases: Iterable<string>): void {
    for (const lease of leases) this.#held.get(lease)?.log.end();
  }

  /** Takes as much as fits in one call. */
  take(leases: Iterable<string> = this.#held.keys()): Parcel {
    const entries: ParcelEntry[] = [];
    const room = { lines: MAX_LOG_LINES, characters: MAX_LOGS_CHARACTERS };
    for (const lease of leases) {
      const held = this.#held.get(lease);
      while (held?.log.isWaiting && isRoom(entries, room)) {
        const take = held.log.take(room);
        room.lines -= take.lines.length;
        room.characters -= take.lines.reduce((sum, { text }) => sum + text.length, 0);
        entries.push({ lease, seq: held.seq++, ...take });
      }
    }
    return entries;
  }

  /** The gateway is not going to take the parcel. */
  lose(parcel: Parcel): void {
    for (const entry of parcel) this.#held.get(entry.lease)?.log.lose(entry);
  }

  /** Nothing of them is wanted any more. */
  drop(leases: Iterable<string>): void {
    for (const lease of leases) {
      this.#held.get(lease)?.log.close();
      this.#held.delete(lease);
    }
  }
}

function isRoom(entries: Parcel, { lines, characters }: { lines: number; characters: number }): boolean {
  return entries.length < MAX_BATCH && lines > 0 && characters >= MAX_LOG_LINE_CHARACTERS;
}
