import {
  type LogsRequest,
  MAX_BATCH,
  MAX_LOG_LINE_CHARACTERS,
  MAX_LOG_LINES,
  MAX_LOGS_CHARACTERS,
  STREAM_NUMBERS,
} from "../../protocol/runner.ts";
import type { TakeOutput } from "../executors/executor.ts";
import { failureOf } from "../gateway/client.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { jitteredBackoff, pause } from "../gateway/retry.ts";
import { messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";
import { DatumLog, type Take, type WaitingInAll } from "./datum-log.ts";

export interface LogShipperDeps {
  readonly gateway: Pick<Gateway, "logs">;
  readonly log: Log;
  readonly pipeline: string;
  readonly worker: string;
  /** Ends all shipping. */
  readonly kill: AbortSignal;
}

/** How often lines are sent while there are some, and how soon the first ones after a silence. */
const EVERY_MS = 1000;
const SOON_MS = 200;
const ANSWER_WITHIN_MS = 10_000;
/** For how long, and how often in a row, it is tried before results go on without their logs. */
const FLUSH_WITHIN_MS = 20_000;
const FLUSH_TRIES = 3;

/**
 * Brings what commands print to the gateway, about once a second, the lines of all of a worker's datums together.
 * Best effort: it never makes a command wait, keeps a bounded amount while the gateway is away, and makes results wait
 * only while there is hope.
 */
export class LogShipper {
  readonly #deps: LogShipperDeps;
  readonly #logs = new LeaseLogs();
  /** Sent, or to be sent again unchanged: it may have come although no answer did. */
  #parcel: Parcel = [];
  /** Calls follow one another, so that lines stay in order. */
  #turn: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #sentAt = Number.NEGATIVE_INFINITY;
  readonly #backoff = jitteredBackoff({ minMs: 1000, maxMs: 10_000 });
  #waitMs = EVERY_MS;
  /** Until then results do not wait for logs, which alone are not taken. */
  #hopelessUntil = Number.NEGATIVE_INFINITY;
  readonly #hopeless = jitteredBackoff({ minMs: 5000, maxMs: 60_000 });

  constructor(deps: LogShipperDeps) {
    this.#deps = deps;
  }

  /** A function that takes the output of a lease's command. Costs nothing until the command prints. */
  outputOf(lease: string): TakeOutput {
    let log: DatumLog | undefined;
    return (bytes, stream) => {
      log ??= this.#logs.open(lease);
      log.write(bytes, { stream, now: performance.now() });
      this.#arm();
    };
  }

  /** To be called before the outcomes of these leases are reported. Resolves when all that they printed is sent, or can't be just now. */
  async flush(leases: readonly string[]): Promise<void> {
    this.#logs.end(leases);
    if (!this.#isUnsent(leases) || this.#isHopeless) return;
    const signal = AbortSignal.any([this.#deps.kill, AbortSignal.timeout(FLUSH_WITHIN_MS)]);
    await this.#inTurn(() => this.#flush(leases, signal));
  }

  /** To be called when the outcomes of these leases are recorded: nothing more of their logs can be sent. */
  recorded(leases: readonly string[]): void {
    if (this.#isUnsent(leases) && !this.#isHopeless) {
      const { log, pipeline } = this.#deps;
      log.warn(`logs of datums of ${pipeline} are lost: the gateway does not take them`);
      this.#hopelessUntil = performance.now() + this.#hopeless.next();
    }
    this.drop(leases);
  }

  /** Forgets what these leases printed: nobody wants it. */
  drop(leases: readonly string[]): void {
    this.#logs.drop(leases);
  }

  async #flush(leases: readonly string[], signal: AbortSignal): Promise<void> {
    const backoff = jitteredBackoff({ minMs: 100, maxMs: 1000 });
    for (let failures = 0; failures < FLUSH_TRIES && !signal.aborted; ) {
      const sent = await this.#send(leases, signal);
      if (sent === "nothing") return;
      if (sent === "taken") continue;
      failures += 1;
      if (failures < FLUSH_TRIES) await pause(backoff.next(), signal);
    }
  }

  #arm(): void {
    if (this.#timer || this.#deps.kill.aborted) return;
    const wait = Math.max(SOON_MS, this.#sentAt + this.#waitMs - performance.now());
    this.#timer = setTimeout(() => void this.#inTurn(() => this.#tick()), wait);
    this.#timer.unref();
  }

  async #tick(): Promise<void> {
    this.#logs.flushUnfinished(performance.now());
    let sent = await this.#send();
    while (sent === "taken") sent = await this.#send();
    this.#waitMs = sent === "failed" ? this.#backoff.next() : EVERY_MS;
    this.#timer = undefined;
    if (this.#parcel.length > 0 || this.#logs.isWaiting() || this.#logs.isUnfinished) this.#arm();
  }

  /** One try to send one call's worth: of these leases, or of all. */
  async #send(leases?: readonly string[], signal = this.#deps.kill): Promise<"taken" | "nothing" | "failed"> {
    const { gateway, pipeline, worker } = this.#deps;
    // What was dropped meanwhile is not sent again.
    this.#parcel = this.#parcel.filter(({ lease }) => this.#logs.has(lease));
    if (this.#parcel.length === 0) this.#parcel = this.#logs.take(leases);
    if (this.#parcel.length === 0) return "nothing";
    this.#sentAt = performance.now();
    const body = { pipeline, worker, entries: entriesOf(this.#parcel, this.#sentAt) };
    try {
      const { lost } = await gateway.logs(
        body,
        AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]),
      );
      this.#taken(lost);
      return "taken";
    } catch (error) {
      this.#refused(error);
      return "failed";
    }
  }

  #taken(lost: readonly string[]): void {
    this.#parcel = [];
    this.#logs.drop(lost);
    this.#backoff.reset();
    this.#hopeless.reset();
    this.#hopelessUntil = Number.NEGATIVE_INFINITY;
  }

  #refused(error: unknown): void {
    const { log, pipeline, kill } = this.#deps;
    if (!kill.aborted)
      log.debug({ reason: messageOf(error) }, `the gateway did not take logs of ${pipeline}`);
    if (failureOf(error) !== "final") return;
    this.#logs.lose(this.#parcel);
    this.#parcel = [];
  }

  get #isHopeless(): boolean {
    return performance.now() < this.#hopelessUntil;
  }

  #isUnsent(leases: readonly string[]): boolean {
    return this.#logs.isWaiting(leases) || this.#parcel.some(({ lease }) => leases.includes(lease));
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }
}

function entriesOf(parcel: Parcel, now: number): LogsRequest["entries"] {
  return parcel.map(({ lease, seq, dropped, lines }) => ({
    lease,
    seq,
    dropped,
    lines: lines.map(({ at, text }): [number, string] => [Math.max(0, Math.round(now - at)), text]),
    streams: lines.map(({ stream }) => STREAM_NUMBERS[stream]).join(""),
  }));
}

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
class LeaseLogs {
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
