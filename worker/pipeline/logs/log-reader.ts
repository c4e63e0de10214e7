import { Store } from "../../objects/store.ts";
import type { ChunkLine } from "./log-store.ts";

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

/** Reads what LogStore keeps. */
export class LogReader extends Store {
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

  /** Where the last lines begin of what the datums of a job printed, or one of them: in which chunk, and behind how many of its lines. */
  end(
    job: number,
    { datum, lines }: { datum?: string; lines: number },
  ): { readonly seq: number; readonly seen: number } {
    const place = placeOf(job, datum);
    let left = lines;
    for (let before = Number.MAX_SAFE_INTEGER; ; ) {
      const rows = this.sql.query<{ seq: number; count: number }>(
        `SELECT c.seq, c.count FROM log_chunks AS c ${place.where} AND c.seq < ? ORDER BY c.seq DESC LIMIT ${PAGE_ROWS}`,
        [...place.values, before],
      );
      for (const { seq, count } of rows) {
        left -= count;
        if (left <= 0) return { seq, seen: -left };
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
    const row = this.sql.first<{ gone: number }>`
      SELECT gone FROM log_datums WHERE job = ${job} AND datum = ${datum}`;
    return row?.gone ?? 0;
  }

  /** Of the failed datums of a job of which nothing is kept here, by key, the last lines that came with their outcome. */
  tails(job: number, { after, limit }: { after: string | null; limit: number }): Tail[] {
    const first = after === null ? 1 : 0;
    return this.sql.all<Tail>`
      SELECT a.id, a.node, a.finishedAt, a.log,
        coalesce((SELECT gone FROM log_datums AS d WHERE d.job = a.job AND d.datum = a.id), 0) AS gone
      FROM attempts AS a INDEXED BY attempts_failed
      WHERE a.state = 'failed' AND a.job = ${job} AND a.key >= ${after ?? ""} AND (${first} OR a.key > ${after})
        AND a.log IS NOT NULL AND NOT EXISTS (
          SELECT 1 FROM log_chunks AS c INDEXED BY log_chunks_by_datum WHERE c.job = a.job AND c.datum = a.id)
      ORDER BY a.key LIMIT ${limit}`;
  }
}

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
