import { createReadStream, rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { atEnd } from "../../stop-requests.ts";
import { type EntryPage, inPages } from "../entry-pages.ts";
import { checkTarget, type LocalEntry } from "../local-tree.ts";
import { JsonSplitter } from "./json-splitter.ts";
import type { SplitKind } from "./kinds.ts";
import { LineSplitter } from "./line-splitter.ts";
import { Piece } from "./piece.ts";
import type { RecordSplitter } from "./record-splitter.ts";

export interface Split {
  /** A file on this machine, or `-` for what comes on stdin. */
  readonly from: string;
  readonly by: SplitKind;
  /** Records in one file. */
  readonly perFile: number;
  /** Path in the branch: "" or ending in `/`. */
  readonly into: string;
}

/** Pachyderm's names, which sort as the numbers do. */
const NAME_DIGITS = 16;
const CHUNK_BYTES = 256 * 1024;
/** Bytes that are put in one go: about what is held in memory. */
const PAGE_BYTES = 64 * 1024 * 1024;

const SPLITTERS: Readonly<Record<SplitKind, new (name: string) => RecordSplitter>> = {
  line: LineSplitter,
  json: JsonSplitter,
};

/**
 * The files that a file is cut into, in pages; read as it comes, so that memory is bounded by a page and a record. Files
 * too large for memory lie in a temporary folder until the next page is asked for.
 */
export async function* splitFile(split: Split): AsyncGenerator<EntryPage> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-split-"));
  // A program that is stopped while it waits for input never comes to the end of this.
  const forget = atEnd(() => rmSync(folder, { recursive: true, force: true }));
  try {
    for await (const page of inPages(piecesOf(split, folder), { maxBytes: PAGE_BYTES })) {
      yield page;
      await removeSpooled(page);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
    forget();
  }
}

async function* piecesOf(split: Split, folder: string): AsyncGenerator<LocalEntry> {
  let number = 0;
  const next = (): Piece => new Piece(join(folder, String(number)));
  let piece = next();
  for await (const record of recordsOf(split)) {
    piece.add(record);
    if (piece.isFull) await piece.spill();
    if (piece.records < split.perFile) continue;
    yield await entryOf(piece, { split, number });
    number++;
    piece = next();
  }
  if (piece.records > 0) yield await entryOf(piece, { split, number });
}

async function* recordsOf({ from, by }: Split): AsyncGenerator<Buffer> {
  const splitter = new SPLITTERS[by](from === "-" ? "stdin" : from);
  const chunks = from === "-" ? process.stdin : createReadStream(from, { highWaterMark: CHUNK_BYTES });
  for await (const chunk of chunks) yield* splitter.push(chunk as Buffer);
  yield* splitter.end();
}

async function entryOf(
  piece: Piece,
  { split: { from, into }, number }: { split: Split; number: number },
): Promise<LocalEntry> {
  const extension = from === "-" ? "" : extname(from);
  const target = `${into}${String(number).padStart(NAME_DIGITS, "0")}${extension}`;
  checkTarget(from, target);
  const { source, content } = await piece.finish();
  return { source, target, size: content.size, content };
}

async function removeSpooled({ entries }: EntryPage): Promise<void> {
  for (const { source } of entries) {
    if (typeof source === "string") await rm(source, { force: true });
  }
}
