import { closeSync, readSync, writeSync } from "node:fs";
import { StringDecoder } from "node:string_decoder";
import { openUnnamed } from "./changed-file.ts";

/** Characters of lines that are held before they are sorted and written as a run. The lines take some ten times as much. */
const RUN_CHARACTERS = 1024 * 1024;
/** Of each run while they are merged: a gigabyte is a thousand runs. */
const READ_BYTES = 8 * 1024;
const WRITE_CHARACTERS = 256 * 1024;

/** A sorted stretch of the file. */
interface Run {
  readonly start: number;
  readonly end: number;
}

/**
 * Lines that are read again in order, as many as the disk holds: they are sorted in runs, and the runs are merged when they are
 * read. Memory is bounded by one run while lines are added, and by a buffer a run while they are read. The order is that of JavaScript's
 * comparison of strings. A line holds no "\n".
 */
export class SortedLines {
  #lines: string[] = [];
  #characters = 0;
  #file: number | undefined;
  #end = 0;
  readonly #runs: Run[] = [];

  add(line: string): void {
    this.#lines.push(line);
    this.#characters += line.length + 1;
    if (this.#characters >= RUN_CHARACTERS) this.#write();
  }

  /** All lines in order. Nothing can be added after it. */
  *read(): Generator<string, undefined> {
    if (this.#file === undefined) {
      yield* this.#lines.sort();
      return;
    }
    this.#write();
    const file = this.#file;
    yield* merged(this.#runs.map((run) => linesOf(file, run)));
  }

  /** Gives the room on the disk back. */
  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
    this.#lines = [];
  }

  #write(): void {
    this.#file ??= openUnnamed();
    const start = this.#end;
    let text = "";
    for (const line of this.#lines.sort()) {
      text += `${line}\n`;
      if (text.length < WRITE_CHARACTERS) continue;
      this.#append(text);
      text = "";
    }
    this.#append(text);
    this.#runs.push({ start, end: this.#end });
    this.#lines = [];
    this.#characters = 0;
  }

  #append(text: string): void {
    const bytes = Buffer.from(text);
    // A write may take less than all.
    for (let at = 0; at < bytes.length; ) {
      at += writeSync(this.#file as number, bytes, at, bytes.length - at, this.#end + at);
    }
    this.#end += bytes.length;
  }
}

function* linesOf(file: number, { start, end }: Run): Generator<string, undefined> {
  const buffer = Buffer.alloc(READ_BYTES);
  const decoder = new StringDecoder("utf8");
  let rest = "";
  for (let at = start; at < end; ) {
    const read = readSync(file, buffer, 0, Math.min(buffer.length, end - at), at);
    if (read === 0) throw new Error("a temporary file was cut");
    at += read;
    const lines = (rest + decoder.write(buffer.subarray(0, read))).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}

/** The next line of a run, and where more come from. */
interface Head {
  line: string;
  readonly more: Generator<string, undefined>;
}

/** Merges runs by a heap of their next lines: the least is at the front, and none is greater than those at twice its place. */
function* merged(runs: readonly Generator<string, undefined>[]): Generator<string, undefined> {
  const heap: Head[] = [];
  for (const more of runs) {
    const { done, value } = more.next();
    if (!done) heap.push({ line: value, more });
  }
  heap.sort((one, other) => (one.line < other.line ? -1 : 1));
  for (let least = heap[0]; least; least = heap[0]) {
    yield least.line;
    const { done, value } = least.more.next();
    if (!done) least.line = value;
    else {
      const last = heap.pop();
      if (last === undefined || heap.length === 0) return;
      heap[0] = last;
    }
    sink(heap);
  }
}

/** Puts the first head where it belongs. */
function sink(heap: Head[]): void {
  const [head] = heap;
  if (!head) return;
  let at = 0;
  for (;;) {
    const left = heap[2 * at + 1];
    const right = heap[2 * at + 2];
    const isRight = right !== undefined && left !== undefined && right.line < left.line;
    const child = isRight ? right : left;
    if (child === undefined || head.line <= child.line) break;
    heap[at] = child;
    at = 2 * at + (isRight ? 2 : 1);
  }
  heap[at] = head;
}
