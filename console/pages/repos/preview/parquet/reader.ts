import { gunzipSync } from "fflate";
import { decompress } from "fzstd";
import { parquetMetadata, parquetReadObjects, parquetSchema, snappyUncompress } from "hyparquet";
import { parquetHeader } from "hyparquet/src/column.js";
import type { Compressors, FileMetaData, SchemaTree } from "hyparquet/src/types.js";
import { doApart, serveApart } from "../../../../parts/apart.ts";

/*
 * The columns and the first rows of a Parquet file, out of some of its bytes. It runs in a worker: what a file says of its
 * lengths may be wrong, so that each is held to a bound before anything is made of it, and the worker ends after some seconds.
 */

/** Bytes of the footer, and of the first rows' columns, at most: with the first bytes of the file and its last, 8 MiB. */
const MOST_FOOTER = 1024 * 1024;
const MOST_DATA = 6 * 1024 * 1024;
/** Bytes of all pages together once they are unpacked; each value has at least so many of them then. */
const MOST_UNPACKED = 64 * 1024 * 1024;
const VALUE_BYTES = 8;
const MOST_ROWS = 100;
const MOST_COLUMNS = 200;
const MOST_IN_CELL = 300;
const MOST_BYTES_IN_CELL = 32;

interface Range {
  readonly start: number;
  readonly end: number;
}

/** Some bytes of the file. */
export interface Piece {
  readonly start: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

interface ParquetAsk {
  /** Of the file. */
  readonly size: number;
  /** One of them has its last bytes. */
  readonly pieces: readonly Piece[];
  /** No more pieces will come. */
  readonly isLast: boolean;
}

/** What is known of a file. `wants`: what must be read to know more. */
type ParquetAnswer = { readonly wants: Range } | ParquetFound;

export interface ParquetFound {
  readonly wants?: never;
  readonly rows: number;
  readonly groups: number;
  readonly codecs: readonly string[];
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  /** How many columns there are beside those. */
  readonly moreColumns: number;
  readonly head: readonly string[];
  readonly cells: readonly (readonly string[])[];
  /** Columns whose first rows were not read, and why. */
  readonly left: readonly { readonly name: string; readonly why: string }[];
}

/** Reads what it can; rejects if the bytes are no Parquet, or lie. */
export function readParquet(ask: ParquetAsk, signal: AbortSignal): Promise<ParquetAnswer> {
  return doApart(import.meta.url, ask, { signal });
}

async function read({ size, pieces, isLast }: ParquetAsk): Promise<ParquetAnswer> {
  const tail = pieces.find(({ start, bytes }) => start + bytes.length === size);
  if (!tail || size < 12) throw new Error("it is too short");
  const footer =
    8 + new DataView(tail.bytes.buffer, tail.bytes.byteOffset).getUint32(tail.bytes.length - 8, true);
  if (footer > MOST_FOOTER || footer > size) throw new Error(`its footer says that it has ${footer} bytes`);
  if (footer > tail.bytes.length) {
    if (isLast) throw new Error("its footer is not all here");
    return { wants: { start: size - footer, end: size } };
  }
  const metadata = parquetMetadata(tail.bytes.slice(-footer), { geoparquet: false });
  const { children } = parquetSchema(metadata);
  const chunks = chunksOf(metadata, size);
  const [first] = chunks;
  const within = chunks.filter(({ end }) => first && end - first.start <= MOST_DATA);
  const wanted = first && { start: first.start, end: Math.max(first.end, ...within.map(({ end }) => end)) };
  const isHere = !wanted || pieces.some((piece) => contains(piece, wanted));
  if (!isHere && within.length > 0 && !isLast) return { wants: wanted };
  const rows = Math.min(Number(metadata.row_groups[0]?.num_rows ?? 0), MOST_ROWS);
  const left = leftOut(chunks, { pieces, rows });
  const names = [...new Set(chunks.map(({ name }) => name))].filter((name) => !left.has(name));
  const shown = names.slice(0, MOST_COLUMNS);
  const cells = await rowsOf({ metadata, pieces, size, names: shown, rows });
  return {
    rows: Number(metadata.num_rows),
    groups: metadata.row_groups.length,
    codecs: [...new Set(chunks.map(({ codec }) => codec))],
    columns: children
      .slice(0, MOST_COLUMNS)
      .map((node) => ({ name: node.element.name, type: typeText(node) })),
    moreColumns: Math.max(0, children.length - MOST_COLUMNS),
    head: shown,
    cells,
    left: [...left].slice(0, MOST_COLUMNS).map(([name, why]) => ({ name, why })),
  };
}

/** The bytes that one column has in the first rows; several may be of one name. */
interface Chunk extends Range {
  readonly name: string;
  readonly codec: string;
  /** Whether a value of it is a row. */
  readonly isFlat: boolean;
}

function chunksOf({ row_groups: [group] }: FileMetaData, size: number): Chunk[] {
  const chunks = (group?.columns ?? []).map(({ meta_data: meta }) => {
    if (!meta) throw new Error("it does not say where its columns are");
    const start = Number(meta.dictionary_page_offset || meta.data_page_offset);
    const end = start + Number(meta.total_compressed_size);
    if (!(start >= 4 && end >= start && end <= size - 8))
      throw new Error("a column is said to lie outside of it");
    const [name = ""] = meta.path_in_schema;
    return { name, codec: meta.codec, isFlat: meta.path_in_schema.length === 1, start, end };
  });
  return chunks.sort((one, other) => one.start - other.start);
}

function sliceOf(pieces: readonly Piece[], range: Range): ArrayBuffer {
  const piece = pieces.find((one) => contains(one, range));
  if (!piece) throw new Error("a column is not where it was said to be");
  return piece.bytes.slice(range.start - piece.start, range.end - piece.start).buffer;
}

function contains({ start, bytes }: Piece, range: Range): boolean {
  return start <= range.start && range.end <= start + bytes.length;
}

interface LeftAsk {
  readonly pieces: readonly Piece[];
  readonly rows: number;
}

/** The names of columns whose first rows are not read, and why: what would come out of all that are stays within the bound. */
function leftOut(chunks: readonly Chunk[], { pieces, rows }: LeftAsk): Map<string, string> {
  const left = new Map<string, string>();
  let room = MOST_UNPACKED;
  for (const chunk of chunks) {
    if (left.has(chunk.name)) continue;
    const isHere = pieces.some((piece) => contains(piece, chunk));
    if (!READABLE.has(chunk.codec)) left.set(chunk.name, `it is packed with ${chunk.codec}`);
    else if (!isHere) left.set(chunk.name, "it is too large");
    else {
      const unpacked = unpackedBytes(sliceOf(pieces, chunk), { isFlat: chunk.isFlat, rows });
      if (unpacked <= room) room -= unpacked;
      else left.set(chunk.name, "too much would come out of it");
    }
  }
  return left;
}

interface RowsAsk {
  readonly metadata: FileMetaData;
  readonly pieces: readonly Piece[];
  readonly size: number;
  readonly names: readonly string[];
  readonly rows: number;
}

async function rowsOf({ metadata, pieces, size, names, rows: rowEnd }: RowsAsk): Promise<string[][]> {
  const [group] = metadata.row_groups;
  if (!group || names.length === 0 || !(rowEnd > 0)) return [];
  const rows = await parquetReadObjects({
    file: { byteLength: size, slice: (start, end = size) => sliceOf(pieces, { start, end }) },
    metadata: { ...metadata, row_groups: [group] },
    columns: [...names],
    rowEnd,
    compressors: unpackers(),
    utf8: false,
    parsers: { dateFromDays: (days) => timeText(new Date(days * DAY_MS)).slice(0, 10) },
  });
  return rows.map((row) => names.map((name) => cellText(row[name])));
}

/** How many bytes the pages of a column that will be read say that come out of them. Throws if one says what can't be. */
function unpackedBytes(buffer: ArrayBuffer, { isFlat, rows }: { isFlat: boolean; rows: number }): number {
  const reader = { view: new DataView(buffer), offset: 0 };
  let [sum, values] = [0, 0];
  while (reader.offset < buffer.byteLength - 1 && !(isFlat && values >= rows)) {
    const header = parquetHeader(reader);
    const page = header.data_page_header ?? header.data_page_header_v2;
    const count = page?.num_values ?? header.dictionary_page_header?.num_values ?? 0;
    const { compressed_page_size: packed, uncompressed_page_size: unpacked } = header;
    const isSound = packed >= 0 && reader.offset + packed <= buffer.byteLength && unpacked >= 0 && count >= 0;
    if (!isSound) throw new Error("a page of it says of its size what can't be");
    reader.offset += packed;
    sum += Math.max(unpacked, count * VALUE_BYTES);
    if (page) values += count;
  }
  return sum;
}

const READABLE: ReadonlySet<string> = new Set(["UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"]);

/** What unpacks pages, all of them together up to the bound. */
function unpackers(): Compressors {
  let left = MOST_UNPACKED;
  const room = (bytes: number): Uint8Array<ArrayBuffer> => {
    left -= bytes;
    if (left < 0) throw new Error("so many bytes come out of it that they are not unpacked here");
    return new Uint8Array(bytes);
  };
  return {
    SNAPPY(input, length) {
      const output = room(length);
      snappyUncompress(input, output);
      return output;
    },
    GZIP: (input, length) => gunzipSync(input, { out: room(length) }),
    ZSTD: (input, length) => decompress(input, room(length)),
  };
}

/** What a column holds, as people say it: `int64`, `list`, `{lat, name}`. */
function typeText({ element, children }: SchemaTree): string {
  const { logical_type: logical, converted_type: converted, type, repetition_type: repetition } = element;
  const own = logical?.type ?? converted ?? type;
  const inner = children.slice(0, MOST_COLUMNS).map((child) => child.element.name);
  const text = own?.toLowerCase() ?? `{${inner.join(", ")}}`;
  return repetition === "OPTIONAL" ? `${text} or none` : text;
}

function cellText(value: unknown): string {
  if (value === null || value === undefined) return "";
  const text =
    typeof value === "string" ? value : typeof value === "object" ? objectText(value) : String(value);
  return text.length > MOST_IN_CELL ? `${text.slice(0, MOST_IN_CELL)}…` : text;
}

const DAY_MS = 24 * 60 * 60 * 1000;

function timeText(time: Date): string {
  return Number.isNaN(time.getTime()) ? "no time" : time.toISOString();
}

function objectText(value: object): string {
  if (value instanceof Date) return timeText(value);
  if (value instanceof Uint8Array) {
    const hex = [...value.subarray(0, MOST_BYTES_IN_CELL)].map((byte) => byte.toString(16).padStart(2, "0"));
    return hex.join(" ") + (value.length > MOST_BYTES_IN_CELL ? " …" : "");
  }
  return (
    JSON.stringify(value, (_, inner: unknown) => (typeof inner === "bigint" ? String(inner) : inner)) ?? ""
  );
}

serveApart(read);
