import { createReadStream, createWriteStream, rmSync, type WriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { finished } from "node:stream/promises";
import type { ContentId } from "../../../protocol/content.ts";
import { TreeHash } from "../../../runner/lib/tree-hash.ts";
import { atEnd } from "../../stop-requests.ts";
import { checkTarget, type EntryPage, hashBytes, inPages, type LocalEntry } from "../local-tree.ts";
import { JsonSplitter, LineSplitter } from "./splitters.ts";

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

const SPLITTERS = { line: LineSplitter, json: JsonSplitter };

/** By what a file can be cut. */
export type SplitKind = keyof typeof SPLITTERS;

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

/** Bytes of a piece that stay in memory; what is longer goes to a file. */
const HELD_BYTES = 8 * 1024 * 1024;

/** The bytes of one file that is being put together from records. */
interface WholePiece {
  /** The bytes, or the file that holds them. */
  readonly source: Buffer | string;
  readonly content: ContentId;
}

/** A file that is being put together from records: in memory while it is small, else on disk. */
class Piece {
  readonly #spoolFile: string;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #records = 0;
  #spool: { readonly stream: WriteStream; readonly hash: TreeHash } | undefined;

  /** `spoolFile` takes the bytes if they are many. It is made only then. */
  constructor(spoolFile: string) {
    this.#spoolFile = spoolFile;
  }

  get records(): number {
    return this.#records;
  }

  /** Whether `spill` is to be called before more comes. */
  get isFull(): boolean {
    return this.#heldBytes > HELD_BYTES;
  }

  add(record: Buffer): void {
    this.#records++;
    this.#held.push(record);
    this.#heldBytes += record.length;
  }

  /** Brings to disk what is in memory. */
  async spill(): Promise<void> {
    this.#spool ??= { stream: createWriteStream(this.#spoolFile), hash: new TreeHash() };
    const { stream, hash } = this.#spool;
    const bytes = this.#takeHeld();
    hash.update(bytes);
    await new Promise<void>((resolve, reject) => {
      stream.write(bytes, (error) => (error ? reject(error) : resolve()));
    });
  }

  /** To be called once, at the end. */
  async finish(): Promise<WholePiece> {
    if (!this.#spool) {
      const bytes = this.#takeHeld();
      return { source: bytes, content: hashBytes(bytes) };
    }
    await this.spill();
    const { stream, hash } = this.#spool;
    stream.end();
    await finished(stream);
    return { source: this.#spoolFile, content: hash.finish() };
  }

  /** A copy, so that the chunks that the records are parts of can go. */
  #takeHeld(): Buffer {
    const bytes = Buffer.concat(this.#held);
    this.#held = [];
    this.#heldBytes = 0;
    return bytes;
  }
}
