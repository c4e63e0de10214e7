import { closeSync, readSync, writeSync } from "node:fs";
import { type StructuredPatch, structuredPatch } from "diff";
import { printLine, printOutput, showSize } from "../output/output.ts";
import { type ChangedFile, type FileSide, openUnnamed } from "./changed-file.ts";

/**
 * Bytes between the first and the last difference of a file that are compared line by line, of each side. What is alike before and after
 * does not count, so that a large file to which lines were added is compared, too.
 */
const MAX_TEXT_BYTES = 4 * 1024 * 1024;
/** Lines that may be added and removed before the search for the shortest way ends: it takes time with their square, a second for these. */
const MAX_EDITS = 2000;
/** Lines around a change that are shown. */
const CONTEXT = 3;
/** A file with a NUL among its first bytes is binary, as git has it. */
const LOOKED_AT = 8000;
const BLOCK = 64 * 1024;
const LINE_END = 0x0a;
const NONE = "/dev/null";

type Hunk = StructuredPatch["hunks"][number];

/**
 * Prints how a file differs by lines, as a unified diff that `patch` takes. Binary files and those that differ in more than
 * MAX_TEXT_BYTES are named as such. Memory is bounded by MAX_TEXT_BYTES: both sides are on disk, and what is alike is not read into it.
 */
export async function printTextDiff({ path, before, after }: ChangedFile): Promise<void> {
  const names = [before ? `a/${path}` : NONE, after ? `b/${path}` : NONE] as const;
  const binary = `Binary files ${names[0]} and ${names[1]} differ`;
  const files = [openUnnamed(), openUnnamed()] as const;
  try {
    const sides = [await spool(before, files[0]), await spool(after, files[1])] as const;
    if (sides.some(isBinary)) return printLine(binary);
    const middle = differingPart(...sides);
    const left = textOf(sides[0], middle.before);
    const right = textOf(sides[1], middle.after);
    if (!left.ok || !right.ok) {
      const reasons = [left, right].map((side) => (side.ok ? undefined : side.reason));
      if (!reasons.includes("too-large")) return printLine(binary);
      const most = showSize(MAX_TEXT_BYTES);
      const at = `from line ${middle.line + 1} on`;
      return printLine(
        `Files ${names[0]} and ${names[1]} differ in more than ${most} ${at}: not compared by line`,
      );
    }
    printLine(`--- ${names[0]}`);
    printLine(`+++ ${names[1]}`);
    for (const hunk of hunksOf(left.text, right.text)) printHunk(hunk, middle.line);
  } finally {
    for (const file of files) closeSync(file);
  }
}

/** A side on disk. */
interface Spooled {
  readonly file: number;
  readonly size: number;
}

async function spool(side: FileSide | null, file: number): Promise<Spooled> {
  let size = 0;
  for await (const piece of side?.read() ?? []) {
    for (let at = 0; at < piece.length; ) at += writeSync(file, piece, at);
    size += piece.length;
  }
  return { file, size };
}

function isBinary(side: Spooled): boolean {
  return read(side, { start: 0, end: Math.min(LOOKED_AT, side.size) }).includes(0);
}

interface Range {
  readonly start: number;
  readonly end: number;
}

/** The lines from the first difference to the last, with context, on both sides. `line`: how many lines come before. */
interface Middle {
  readonly before: Range;
  readonly after: Range;
  readonly line: number;
}

function differingPart(before: Spooled, after: Spooled): Middle {
  const alike = alikeFromStart(before, after);
  const start = lineStartBefore(before, alike, CONTEXT);
  const most = Math.min(before.size, after.size) - alike;
  const alikeAtEnd = alikeFromEnd(before, after, most);
  const rest = contextAfter(before, before.size - alikeAtEnd);
  return {
    before: { start, end: before.size - alikeAtEnd + rest },
    after: { start, end: after.size - alikeAtEnd + rest },
    line: countLineEnds(before, { start: 0, end: start }),
  };
}

/** Bytes that both begin with. */
function alikeFromStart(one: Spooled, other: Spooled): number {
  const most = Math.min(one.size, other.size);
  for (let at = 0; at < most; at += BLOCK) {
    const range = { start: at, end: Math.min(at + BLOCK, most) };
    const [left, right] = [read(one, range), read(other, range)];
    if (!left.equals(right)) return at + left.findIndex((byte, index) => byte !== right[index]);
  }
  return most;
}

/** Bytes that both end with, `most` at most. */
function alikeFromEnd(one: Spooled, other: Spooled, most: number): number {
  for (let alike = 0; alike < most; alike += BLOCK) {
    const length = Math.min(BLOCK, most - alike);
    const [left, right] = [one, other].map((side) => {
      const end = side.size - alike;
      return read(side, { start: end - length, end });
    }) as [Buffer, Buffer];
    if (left.equals(right)) continue;
    const last = left.findLastIndex((byte, index) => byte !== right[index]);
    return alike + length - last - 1;
  }
  return most;
}

/** Where the line begins that is `lines` lines before the one at a place. If lines are too long for that, so is what follows. */
function lineStartBefore(side: Spooled, place: number, lines: number): number {
  let ends = 0;
  for (let end = place; end > 0 && place - end < MAX_TEXT_BYTES; end -= BLOCK) {
    const start = Math.max(0, end - BLOCK);
    const block = read(side, { start, end });
    for (let at = block.length - 1; at >= 0; at--) {
      if (block[at] === LINE_END && ++ends > lines) return start + at + 1;
    }
  }
  return Math.max(0, place - MAX_TEXT_BYTES);
}

/** How many bytes behind a place belong to the line there and to its context. */
function contextAfter(side: Spooled, place: number): number {
  let ends = 0;
  for (let start = place; start < side.size && start - place < MAX_TEXT_BYTES; start += BLOCK) {
    const block = read(side, { start, end: Math.min(start + BLOCK, side.size) });
    for (let at = 0; at < block.length; at++) {
      if (block[at] === LINE_END && ++ends > CONTEXT) return start + at + 1 - place;
    }
  }
  return side.size - place;
}

function countLineEnds(side: Spooled, { start, end }: Range): number {
  let count = 0;
  for (let at = start; at < end; at += BLOCK) {
    const block = read(side, { start: at, end: Math.min(at + BLOCK, end) });
    for (let found = block.indexOf(LINE_END); found >= 0; found = block.indexOf(LINE_END, found + 1)) count++;
  }
  return count;
}

function read({ file }: Spooled, { start, end }: Range): Buffer {
  const bytes = Buffer.alloc(end - start);
  let at = 0;
  while (at < bytes.length) {
    const length = readSync(file, bytes, at, bytes.length - at, start + at);
    if (length === 0) throw new Error("a temporary file was cut");
    at += length;
  }
  return bytes;
}

/** A part of a side as text, or why it can't be compared by line. */
type Text =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly reason: "too-large" | "binary" };

function textOf(side: Spooled, range: Range): Text {
  if (range.end - range.start > MAX_TEXT_BYTES) return { ok: false, reason: "too-large" };
  const bytes = read(side, range);
  try {
    return { ok: true, text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    return { ok: false, reason: "binary" };
  }
}

/** The shortest way from one text to the other; if that is long, all lines of the one go and all of the other come. */
function hunksOf(before: string, after: string): Hunk[] {
  const options = { context: CONTEXT, maxEditLength: MAX_EDITS };
  const patch = structuredPatch("", "", before, after, "", "", options);
  return patch ? patch.hunks : [wholeHunk(before, after)];
}

function wholeHunk(before: string, after: string): Hunk {
  const [removed, added] = [linesOf(before, "-"), linesOf(after, "+")];
  const count = (lines: readonly string[]) => lines.filter((line) => !line.startsWith("\\")).length;
  return {
    ...{ oldStart: 1, oldLines: count(removed), newStart: 1, newLines: count(added) },
    lines: [...removed, ...added],
  };
}

function linesOf(text: string, sign: string): string[] {
  const lines = text.split("\n");
  const last = lines.pop();
  const signed = lines.map((line) => `${sign}${line}`);
  return last === "" || last === undefined
    ? signed
    : [...signed, `${sign}${last}`, "\\ No newline at end of file"];
}

function printHunk({ oldStart, oldLines, newStart, newLines, lines }: Hunk, line: number): void {
  // Of no lines, the one before them is named.
  const range = (start: number, count: number) => `${start + line - (count === 0 ? 1 : 0)},${count}`;
  printLine(`@@ -${range(oldStart, oldLines)} +${range(newStart, newLines)} @@`);
  for (const text of lines) printOutput("", text);
}
