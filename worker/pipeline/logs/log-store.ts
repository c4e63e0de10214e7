import { type LogStream, STREAM_NUMBERS } from "../../../protocol/runner.ts";
import type { Sql } from "../../objects/sql.ts";
import { Store } from "../../objects/store.ts";
import type { Tx } from "../../objects/transaction.ts";

/** How much of what commands print is kept, in bytes. */
export interface LogLimits {
  /** Of one datum in one job, all its tries together. */
  readonly datumBytes: number;
  readonly pipelineBytes: number;
}

const DATUM_BYTES = 1024 * 1024;
const PIPELINE_BYTES = 256 * 1024 * 1024;

/** About the most characters of lines in one row. */
const CHUNK_CHARACTERS = 64 * 1024;
/** What a row takes beside its lines, in bytes. */
const ROW_BYTES = 100;
/** Most rows that go when one entry comes: more than an entry brings rows, so that a bound that is passed is met again. */
const MAX_EVICTED = 500;

type StreamNumber = (typeof STREAM_NUMBERS)[LogStream];

/** A line, how many milliseconds after the first of its chunk it was printed, and on which stream, if that is known. */
export type ChunkLine = readonly [afterMs: number, text: string, stream?: StreamNumber];

/** A try that prints. */
export interface Printer {
  readonly job: number;
  readonly datum: string;
  readonly node: string | null;
  readonly lease: string;
  /** When its job was made: what it prints is younger. */
  readonly since: number;
}

/** What a runner sent of one lease; a line has the age that it had when it was sent. */
export interface LogEntry {
  readonly seq: number;
  readonly dropped: number;
  readonly lines: readonly (readonly [ageMs: number, text: string])[];
  /** A character for each line: the number of its stream. Absent: none of them is known. */
  readonly streams?: string | undefined;
}

interface Taken {
  readonly bytes: number;
  readonly lease: string;
  readonly entry: number;
  readonly at: number;
}

interface Evicted {
  readonly seq: number;
  readonly job: number;
  readonly datum: string;
  readonly bytes: number;
  readonly lines: number;
}

/**
 * What datums printed, in the order in which it came. The oldest goes if there is more than is kept: first of the
 * datum that has too much, then of the whole pipeline, of any job. How many lines went is remembered.
 */
export class LogStore extends Store {
  readonly #limits: LogLimits;

  constructor(sql: Sql, limits: LogLimits = { datumBytes: DATUM_BYTES, pipelineBytes: PIPELINE_BYTES }) {
    super(sql);
    this.#limits = limits;
  }

  /** Keeps an entry. Does nothing if it, or one after it, was kept before. */
  add(_: Tx, printer: Printer, { seq, dropped, lines, streams, now }: LogEntry & { now: number }): void {
    const { job, datum, lease, since } = printer;
    const before = this.sql.first<Taken>`
      SELECT bytes, lease, entry, at FROM log_datums WHERE job = ${job} AND datum = ${datum}`;
    const last = before?.lease === lease ? before : undefined;
    if (last && seq <= last.entry) return;
    // A lease's lines never go back in time, however late an entry comes.
    let at = Math.max(last?.at ?? 0, since);
    const printed = lines.map(([ageMs, text], place): Printed => {
      at = Math.max(at, now - ageMs);
      const stream = streamOf(streams?.[place]);
      return { at, text, ...(stream && { stream }) };
    });
    if (printed.length === 0) at = Math.max(at, now);
    const bytes = this.#insert(printer, { dropped, printed, at });
    this.sql.run`
      INSERT INTO log_datums (job, datum, bytes, gone, lease, entry, at)
      VALUES (${job}, ${datum}, ${bytes}, 0, ${lease}, ${seq}, ${at})
      ON CONFLICT (job, datum) DO UPDATE SET
        bytes = bytes + ${bytes}, lease = excluded.lease, entry = excluded.entry, at = excluded.at`;
    this.#keepBounds({ job, datum, bytes: (before?.bytes ?? 0) + bytes });
  }

  /** Removes some of what jobs before one printed; returns whether there may be more. */
  trim(before: number, limit: number): boolean {
    const chunks = this.sql.all<{ bytes: number }>`
      DELETE FROM log_chunks WHERE seq IN (
        SELECT seq FROM log_chunks INDEXED BY log_chunks_by_job WHERE job < ${before} LIMIT ${limit})
      RETURNING bytes`;
    if (chunks.length > 0) this.#addBytes(-sum(chunks));
    if (chunks.length === limit) return true;
    const rows = this.sql.all`
      DELETE FROM log_datums WHERE (job, datum) IN (
        SELECT job, datum FROM log_datums WHERE job < ${before} ORDER BY job, datum LIMIT ${limit})
      RETURNING 1`;
    return rows.length === limit;
  }

  /** What the datums of a job printed, or one of them, from a number on; and whether there is more. */
  page(job: number, { datum, from }: { datum: string | undefined; from: number }): ChunkPage {
    const place = placeOf(job, datum);
    const sizes = this.sql.query<Size>(
      `SELECT c.seq, c.bytes FROM log_chunks AS c ${place.where} AND c.seq >= ? ORDER BY c.seq LIMIT ${PAGE_ROWS}`,
      [...place.values, from],
    );
    const fits = fitting(sizes);
    const last = fits.at(-1)?.seq;
    if (last === undefined) return { chunks: [], more: false };
    // What is gone of a datum is missing before its first chunk.
    const rows = this.sql.query<ChunkRow>(
      `SELECT c.seq, c.datum, c.node, c.at, c.lines, c.dropped + coalesce((
         SELECT gone FROM log_datums AS d WHERE d.job = c.job AND d.datum = c.datum AND d.gone > 0
           AND NOT EXISTS (SELECT 1 FROM log_chunks AS o INDEXED BY log_chunks_by_datum
             WHERE o.job = c.job AND o.datum = c.datum AND o.seq < c.seq)), 0) AS dropped
       FROM log_chunks AS c ${place.where} AND c.seq BETWEEN ? AND ? ORDER BY c.seq`,
      [...place.values, from, last],
    );
    return {
      chunks: rows.map((row) => ({ ...row, lines: JSON.parse(row.lines) })),
      more: fits.length < sizes.length || sizes.length === PAGE_ROWS,
    };
  }

  /**
   * Where the last lines begin of what the datums of a job printed, or one of them, on a stream or on both: in which chunk,
   * and behind how many of its lines.
   */
  end(
    job: number,
    { datum, stream, lines }: { datum?: string; stream?: LogStream | undefined; lines: number },
  ): { readonly seq: number; readonly seen: number } {
    const place = placeOf(job, datum);
    const counted = COUNTED[stream ?? "both"];
    let left = lines;
    for (let before = Number.MAX_SAFE_INTEGER; ; ) {
      const rows = this.sql.query<{ seq: number; count: number }>(
        `SELECT c.seq, ${counted} AS count FROM log_chunks AS c ${place.where} AND c.seq < ? ORDER BY c.seq DESC LIMIT ${PAGE_ROWS}`,
        [...place.values, before],
      );
      for (const { seq, count } of rows) {
        left -= count;
        if (left <= 0) return { seq, seen: stream ? this.#behind(seq, { stream, lines: -left }) : -left };
      }
      const first = rows.at(-1)?.seq;
      if (first === undefined || rows.length < PAGE_ROWS) return { seq: 0, seen: 0 };
      before = first;
    }
  }

  /** Lines of a datum that were kept once, if nothing is kept any more. Returns undefined if something is. */
  goneOf(job: number, datum: string): number | undefined {
    const kept = this.sql.first`
      SELECT 1 FROM log_chunks INDEXED BY log_chunks_by_datum WHERE job = ${job} AND datum = ${datum} LIMIT 1`;
    if (kept) return undefined;
    return this.sql.number`
      SELECT gone FROM log_datums WHERE job = ${job} AND datum = ${datum}`;
  }

  /** Of the failed datums of a job of which nothing is kept here, by key, the last lines that came with their outcome. */
  tails(job: number, { after, limit }: { after: string | null; limit: number }): Tail[] {
    return this.sql.all<Tail>`
      SELECT a.id, a.node, a.finishedAt, a.log,
        coalesce((SELECT gone FROM log_datums AS d WHERE d.job = a.job AND d.datum = a.id), 0) AS gone
      FROM attempts AS a INDEXED BY attempts_failed
      WHERE a.state = 'failed' AND a.job = ${job} AND a.key >= ${after ?? ""} AND (${after} IS NULL OR a.key > ${after})
        AND a.log IS NOT NULL AND NOT EXISTS (
          SELECT 1 FROM log_chunks AS c INDEXED BY log_chunks_by_datum WHERE c.job = a.job AND c.datum = a.id)
      ORDER BY a.key LIMIT ${limit}`;
  }

  /** Writes the rows of an entry; returns their bytes. */
  #insert(
    { job, datum, node }: Printer,
    { dropped, printed, at }: { dropped: number; printed: readonly Printed[]; at: number },
  ): number {
    const parts = printed.length > 0 ? inParts(printed) : dropped > 0 ? [[]] : [];
    let seq = this.sql.first<{ next: number }>`SELECT next FROM log_store WHERE one = 1`?.next ?? 1;
    let all = 0;
    for (const [index, part] of parts.entries()) {
      const from = part[0]?.at ?? at;
      const text = JSON.stringify(part.map((line) => chunkLine(line, from)));
      const bytes = ROW_BYTES + new TextEncoder().encode(text).length;
      this.sql.run`
        INSERT INTO log_chunks (seq, job, datum, node, at, dropped, count, stderr, bytes, lines)
        VALUES (${seq++}, ${job}, ${datum}, ${node}, ${from}, ${index === 0 ? dropped : 0}, ${part.length},
          ${onStderr(part)}, ${bytes}, ${text})`;
      all += bytes;
    }
    if (parts.length > 0) {
      this.sql.run`
        INSERT INTO log_store (one, bytes, next) VALUES (1, ${all}, ${seq})
        ON CONFLICT (one) DO UPDATE SET bytes = bytes + ${all}, next = excluded.next`;
    }
    return all;
  }

  #keepBounds({ job, datum, bytes }: { job: number; datum: string; bytes: number }): void {
    const excess = bytes - this.#limits.datumBytes;
    if (excess > 0) {
      const oldest = this.sql.all<Evicted>`
        SELECT seq, job, datum, bytes, dropped + count AS lines
        FROM log_chunks INDEXED BY log_chunks_by_datum
        WHERE job = ${job} AND datum = ${datum} ORDER BY seq LIMIT ${MAX_EVICTED}`;
      this.#evict(enough(oldest, excess));
    }
    const all = this.sql.number`SELECT bytes FROM log_store WHERE one = 1`;
    const over = all - this.#limits.pipelineBytes;
    if (over <= 0) return;
    const oldest = this.sql.all<Evicted>`
      SELECT seq, job, datum, bytes, dropped + count AS lines FROM log_chunks ORDER BY seq LIMIT ${MAX_EVICTED}`;
    this.#evict(enough(oldest, over));
  }

  /** How many lines of a chunk there are up to so many of a stream. */
  #behind(seq: number, { stream, lines }: { stream: LogStream; lines: number }): number {
    const row = this.sql.first<Pick<ChunkRow, "lines">>`SELECT lines FROM log_chunks WHERE seq = ${seq}`;
    const all: readonly ChunkLine[] = row ? JSON.parse(row.lines) : [];
    let left = lines;
    const next = all.findIndex(([, , number]) => number === STREAM_NUMBERS[stream] && left-- === 0);
    return next < 0 ? all.length : next;
  }

  #evict(chunks: readonly Evicted[]): void {
    for (const { seq, job, datum, bytes, lines } of chunks) {
      this.sql.run`DELETE FROM log_chunks WHERE seq = ${seq}`;
      this.sql.run`
        UPDATE log_datums SET bytes = bytes - ${bytes}, gone = gone + ${lines}
        WHERE job = ${job} AND datum = ${datum}`;
    }
    this.#addBytes(-sum(chunks));
  }

  #addBytes(bytes: number): void {
    this.sql.run`UPDATE log_store SET bytes = bytes + ${bytes} WHERE one = 1`;
  }
}

interface Printed {
  readonly at: number;
  readonly text: string;
  readonly stream?: StreamNumber;
}

function streamOf(character: string | undefined): StreamNumber | undefined {
  return Object.values(STREAM_NUMBERS).find((number) => String(number) === character);
}

/** How many of them came on stderr; null if it is not known. */
function onStderr(lines: readonly Printed[]): number | null {
  if (lines.some(({ stream }) => stream === undefined)) return null;
  return lines.filter(({ stream }) => stream === STREAM_NUMBERS.stderr).length;
}

function chunkLine({ at, text, stream }: Printed, from: number): ChunkLine {
  return stream === undefined ? [at - from, text] : [at - from, text, stream];
}

/** Lines in as many rows as they need; a row holds one at least. */
function inParts(lines: readonly Printed[]): Printed[][] {
  const parts: Printed[][] = [];
  let room = 0;
  for (const line of lines) {
    if (parts.length === 0 || room < line.text.length) {
      parts.push([]);
      room = CHUNK_CHARACTERS;
    }
    parts.at(-1)?.push(line);
    room -= line.text.length;
  }
  return parts;
}

/** As many from the front as make up so many bytes. */
function enough(chunks: readonly Evicted[], bytes: number): Evicted[] {
  let left = bytes;
  const taken: Evicted[] = [];
  for (const chunk of chunks) {
    if (left <= 0) break;
    taken.push(chunk);
    left -= chunk.bytes;
  }
  return taken;
}

function sum(chunks: readonly { readonly bytes: number }[]): number {
  return chunks.reduce((total, { bytes }) => total + bytes, 0);
}

/** How many lines of a chunk are of a stream, or of both. */
const COUNTED = {
  both: "c.count",
  stdout: "coalesce(c.count - c.stderr, 0)",
  stderr: "coalesce(c.stderr, 0)",
};

/** About the most bytes of one page, more than a row has, and the most rows. */
const PAGE_BYTES = 512 * 1024;
const PAGE_ROWS = 2000;

/** What a datum printed, as it was kept. */
export interface KeptChunk {
  readonly seq: number;
  readonly datum: string;
  readonly node: string | null;
  readonly at: number;
  /** Lines before these that are not kept. */
  readonly dropped: number;
  readonly lines: readonly ChunkLine[];
}

/** The last lines of a datum of which nothing else is kept. */
export interface Tail {
  readonly id: string;
  readonly node: string | null;
  readonly finishedAt: number;
  readonly log: string;
  /** Lines that were kept once. */
  readonly gone: number;
}

type ChunkRow = Omit<KeptChunk, "lines"> & { readonly lines: string };
type Size = { readonly seq: number; readonly bytes: number };

/** What a job printed lies together in one index, what a datum of it printed in another. */
function placeOf(job: number, datum: string | undefined): { where: string; values: (string | number)[] } {
  return datum === undefined
    ? { where: "INDEXED BY log_chunks_by_job WHERE c.job = ?", values: [job] }
    : { where: "INDEXED BY log_chunks_by_datum WHERE c.job = ? AND c.datum = ?", values: [job, datum] };
}

interface ChunkPage {
  readonly chunks: readonly KeptChunk[];
  readonly more: boolean;
}

/** As many from the front as fit on a page; one at least. */
function fitting(sizes: readonly Size[]): Size[] {
  let room = PAGE_BYTES;
  return sizes.filter(({ bytes }, index) => {
    const fits = room > 0 || index === 0;
    room -= bytes;
    return fits;
  });
}
