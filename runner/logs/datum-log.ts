import { StringDecoder } from "node:string_decoder";
import { LogStream, MAX_LOG_LINE_CHARACTERS } from "../../protocol/runner.ts";

/** In characters, with LINE_COST for each line: what a datum may print in a burst, and each second after that. */
const BURST = 256 * 1024;
const EACH_SECOND = 64 * 1024;
/** What waits to be shipped of one datum, at most, and of all datums of a worker: the gateway may be away. */
const MAX_WAITING = 256 * 1024;
const MAX_WAITING_IN_ALL = 2 * 1024 * 1024;
/** Memory and message that a line takes beside its characters. */
const LINE_COST = 64;
/** Lines that are kept of the end of what there was no room for. */
const LAST_LINES = 200;
/** A line that is not finished is shipped after so long, so that a progress bar shows. */
const UNFINISHED_MS = 1000;

interface PrintedLine {
  /** When it was printed, by the writer's clock. */
  readonly at: number;
  readonly stream: LogStream;
  readonly text: string;
}

export interface Take {
  /** Lines that were left out before these. */
  readonly dropped: number;
  readonly lines: readonly PrintedLine[];
}

/** What waits in all logs of a worker, in the unit of the bounds above. */
export interface WaitingInAll {
  weight: number;
}

/**
 * What one datum prints, on its way to the gateway: its lines, as far as there is room, and of each stream the end of the
 * rest. So its memory is bounded, dropped lines are counted, and its last lines, which say why it failed, are always there.
 * The caller's clock must not go back.
 */
export class DatumLog {
  readonly #inAll: WaitingInAll;
  readonly #allowance = new Allowance({ capacity: BURST, perSecond: EACH_SECOND });
  readonly #streams: readonly StreamLog[] = LogStream.options.map((stream) => new StreamLog(stream));
  #waiting: (PrintedLine & { readonly dropped: number })[] = [];
  #weight = 0;
  /** Lines that were left out before the next one. */
  #dropped = 0;
  #closed = false;

  constructor(inAll: WaitingInAll) {
    this.#inAll = inAll;
  }

  /** Keeps nothing of `bytes` itself. */
  write(bytes: Buffer, { stream, now }: { stream: LogStream; now: number }): void {
    const of = this.#streams.find((each) => each.stream === stream);
    if (this.#closed || !of) return;
    of.writtenAt = now;
    let start = 0;
    while (start < bytes.length && this.#hasRoom(now)) {
      const { stop, lines } = of.splitter.next(bytes, start);
      this.#keep(lines, { stream, at: now });
      start = stop;
    }
    if (start === bytes.length) return;
    of.overflow ??= new Overflow();
    of.overflow.add(bytes.subarray(start), now);
  }

  /** Whether there is something to take. */
  get isWaiting(): boolean {
    return this.#waiting.length > 0 || this.#isOverflowing || this.#dropped > 0;
  }

  get isUnfinished(): boolean {
    return this.#streams.some(({ splitter }) => splitter.unfinished);
  }

  /** Makes unfinished lines lines of their own, if nothing more of them has come for UNFINISHED_MS. */
  flushUnfinished(now: number): void {
    if (this.#isOverflowing) return;
    for (const { stream, splitter, writtenAt } of this.#inOrder()) {
      if (now - writtenAt >= UNFINISHED_MS) this.#keep(splitter.flush(), { stream, at: writtenAt });
    }
  }

  /** The command has ended: its last lines are finished. */
  end(): void {
    this.#takeOverflow();
    for (const { stream, splitter, writtenAt } of this.#inOrder()) {
      this.#keep(splitter.finish(), { stream, at: writtenAt });
    }
  }

  /** Takes the oldest lines, as far as nothing was left out between them, and as many as there may be. */
  take({ lines, characters }: { lines: number; characters: number }): Take {
    this.#takeOverflow();
    const dropped = this.#waiting[0]?.dropped ?? this.#takeDropped();
    const count = this.#countOf({ lines, characters });
    const taken = this.#waiting.slice(0, count).map(({ at, stream, text }) => ({ at, stream, text }));
    this.#waiting = this.#waiting.slice(count);
    this.#weigh(-taken.reduce((sum, { text }) => sum + text.length + LINE_COST, 0));
    return { dropped, lines: taken };
  }

  /** Counts taken lines that could not be shipped as dropped. */
  lose({ dropped, lines }: Take): void {
    const lost = dropped + lines.length;
    const [first, ...others] = this.#waiting;
    if (first) this.#waiting = [{ ...first, dropped: first.dropped + lost }, ...others];
    else this.#dropped += lost;
  }

  /** Nothing more of it is wanted. */
  close(): void {
    this.#closed = true;
    this.#weigh(-this.#weight);
    this.#waiting = [];
    for (const of of this.#streams) of.clear();
    this.#dropped = 0;
  }

  /** Something came while there was no room. The lines before it are shipped first. */
  get #isOverflowing(): boolean {
    return this.#streams.some(({ overflow }) => overflow !== undefined);
  }

  /** The stream on which something came last is the last one. */
  #inOrder(): StreamLog[] {
    return this.#streams.toSorted((one, other) => one.writtenAt - other.writtenAt);
  }

  #hasRoom(now: number): boolean {
    if (this.#isOverflowing || this.#weight >= MAX_WAITING) return false;
    return this.#inAll.weight < MAX_WAITING_IN_ALL && this.#allowance.isLeft(now);
  }

  #keep(lines: readonly string[], { stream, at }: { stream: LogStream; at: number }): void {
    for (const text of lines) {
      this.#waiting.push({ at, stream, text, dropped: this.#takeDropped() });
      this.#weigh(text.length + LINE_COST);
      this.#allowance.spend(text.length + LINE_COST);
    }
  }

  #takeOverflow(): void {
    for (const of of this.#inOrder()) {
      const { stream, overflow } = of;
      if (!overflow) continue;
      of.overflow = undefined;
      const when = { stream, at: overflow.at };
      const { bytes, dropped } = overflow.rest();
      if (dropped > 0) {
        // The unfinished line is cut off: what follows does not continue it.
        this.#keep(of.splitter.flush(), when);
        of.splitter = new LineSplitter();
      }
      const lines = of.splitter.all(bytes);
      const last = lines.slice(-LAST_LINES);
      this.#dropped += dropped + lines.length - last.length;
      this.#keep(last, when);
    }
  }

  #countOf({ lines, characters }: { lines: number; characters: number }): number {
    let count = 0;
    let length = 0;
    for (const { text, dropped } of this.#waiting) {
      length += text.length;
      if (count === lines || length > characters || (count > 0 && dropped > 0)) break;
      count += 1;
    }
    return count;
  }

  #takeDropped(): number {
    const dropped = this.#dropped;
    this.#dropped = 0;
    return dropped;
  }

  #weigh(change: number): void {
    this.#weight += change;
    this.#inAll.weight += change;
  }
}

/** One stream of a datum's log. */
class StreamLog {
  readonly stream: LogStream;
  splitter = new LineSplitter();
  /** What came while there was no room. */
  overflow: Overflow | undefined;
  /** When something last came. */
  writtenAt = 0;

  constructor(stream: LogStream) {
    this.stream = stream;
  }

  clear(): void {
    this.overflow = undefined;
    this.splitter = new LineSplitter();
  }
}

/** A token bucket: full at first, it fills again with time. `capacity` and `perSecond` are of one unit. */
class Allowance {
  readonly #capacity: number;
  readonly #perSecond: number;
  #left: number;
  #countedAt: number | undefined;

  constructor({ capacity, perSecond }: { capacity: number; perSecond: number }) {
    this.#capacity = capacity;
    this.#perSecond = perSecond;
    this.#left = capacity;
  }

  /** Whether any is left at `now` (milliseconds). */
  isLeft(now: number): boolean {
    const sinceMs = now - (this.#countedAt ?? now);
    this.#countedAt = now;
    this.#left = Math.min(this.#capacity, this.#left + (sinceMs * this.#perSecond) / 1000);
    return this.#left > 0;
  }

  /** May take more than is left; the debt is paid later. */
  spend(amount: number): void {
    this.#left -= amount;
  }
}

/** Bytes that are kept of its end. */
const KEPT_BYTES = 16 * 1024;
const NEWLINE = 10;

/** What a command prints beyond its room. Only newlines are counted, lines are not made, so that a gigabyte costs little. */
class Overflow {
  readonly #ring = new ByteRing(KEPT_BYTES);
  #newlines = 0;
  #at = 0;

  /** When the last of it came. */
  get at(): number {
    return this.#at;
  }

  add(bytes: Buffer, now: number): void {
    this.#newlines += countNewlines(bytes);
    this.#ring.add(bytes);
    this.#at = now;
  }

  /** Its last bytes, from the start of a line on, and how many lines are gone before them. */
  rest(): { bytes: Buffer; dropped: number } {
    const bytes = this.#ring.bytes();
    if (!this.#ring.overflowed) return { bytes, dropped: 0 };
    const whole = bytes.subarray(startOfLine(bytes));
    return { bytes: whole, dropped: Math.max(1, this.#newlines - countNewlines(whole)) };
  }
}

/** The start of the second line or, if there is none, of the first whole character. */
function startOfLine(bytes: Buffer): number {
  const newline = bytes.indexOf(NEWLINE);
  if (newline >= 0 && newline < bytes.length - 1) return newline + 1;
  let start = 0;
  while (start < 4 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start += 1;
  return start;
}

// A loop over the bytes: if lines are short, looking for each newline costs many times as much.
function countNewlines(bytes: Buffer): number {
  let count = 0;
  for (let index = 0; index < bytes.length; index += 1) if (bytes[index] === NEWLINE) count += 1;
  return count;
}

/** The last bytes of what it is given, at a cost that does not depend on the size of the pieces. */
class ByteRing {
  readonly #buffer: Buffer;
  #end = 0;
  #full = false;
  #overflowed = false;

  constructor(capacity: number) {
    this.#buffer = Buffer.allocUnsafeSlow(capacity);
  }

  /** Whether something is gone. */
  get overflowed(): boolean {
    return this.#overflowed;
  }

  add(bytes: Buffer): void {
    const capacity = this.#buffer.length;
    if (this.#length + bytes.length > capacity) this.#overflowed = true;
    const kept = bytes.subarray(-capacity);
    const first = kept.copy(this.#buffer, this.#end);
    if (first < kept.length) kept.copy(this.#buffer, 0, first);
    this.#full ||= this.#end + kept.length >= capacity;
    this.#end = (this.#end + kept.length) % capacity;
  }

  bytes(): Buffer {
    const newest = this.#buffer.subarray(0, this.#end);
    return Buffer.concat(this.#full ? [this.#buffer.subarray(this.#end), newest] : [newest]);
  }

  get #length(): number {
    return this.#full ? this.#buffer.length : this.#end;
  }
}

/** Makes lines of bytes: UTF-8, of which what is invalid is replaced; a line that is too long becomes several. */
export class LineSplitter {
  readonly #decoder = new StringDecoder("utf8");
  /** The line that has not ended; never longer than a line may be. */
  #text = "";
  /** The start of that line has been given out. */
  #begun = false;

  /** Takes the bytes from `start` to the end of their line, or all if it does not end there. Returns where it stopped, and the complete lines. */
  next(bytes: Buffer, start: number): { stop: number; lines: string[] } {
    const newline = bytes.indexOf(NEWLINE, start);
    const end = newline < 0 ? bytes.length : newline;
    this.#text += this.#decoder.write(bytes.subarray(start, end));
    const lines = this.#cut();
    if (newline < 0) return { stop: end, lines };
    return { stop: end + 1, lines: [...lines, ...this.#end()] };
  }

  /** Takes all bytes; returns the complete lines. */
  all(bytes: Buffer): string[] {
    const all: string[] = [];
    for (let start = 0; start < bytes.length; ) {
      const { stop, lines } = this.next(bytes, start);
      all.push(...lines);
      start = stop;
    }
    return all;
  }

  /** Whether there is a line that has not ended. */
  get unfinished(): boolean {
    return this.#text !== "";
  }

  /** The line that has not ended, as far as it has come. What follows will be a line of its own. */
  flush(): string[] {
    if (this.#text === "") return [];
    const line = withoutReturn(this.#text);
    this.#text = "";
    this.#begun = true;
    return [line];
  }

  /** Like `flush`, but at the end: nothing more will come. */
  finish(): string[] {
    this.#text += this.#decoder.end();
    return [...this.#cut(), ...this.flush()];
  }

  #end(): string[] {
    this.#text += this.#decoder.end();
    const lines = this.#cut();
    const last = withoutReturn(this.#text);
    const wanted = last !== "" || !this.#begun;
    this.#text = "";
    this.#begun = false;
    return wanted ? [...lines, last] : lines;
  }

  #cut(): string[] {
    const lines: string[] = [];
    while (this.#text.length > MAX_LOG_LINE_CHARACTERS) {
      const at = endOfPiece(this.#text);
      lines.push(this.#text.slice(0, at));
      this.#text = this.#text.slice(at);
      this.#begun = true;
    }
    return lines;
  }
}

function withoutReturn(text: string): string {
  return text.endsWith("\r") ? text.slice(0, -1) : text;
}

/** Not between the two halves of one character. */
function endOfPiece(text: string): number {
  const last = text.charCodeAt(MAX_LOG_LINE_CHARACTERS - 1);
  return last >= 0xd800 && last < 0xdc00 ? MAX_LOG_LINE_CHARACTERS - 1 : MAX_LOG_LINE_CHARACTERS;
}
