import { changesSince, type Moment } from "./position.ts";
import { FILE_COLUMNS, type FileRow } from "./rows.ts";
import { compareUtf8 } from "./utf8-order.ts";

/** Up to so many changes back, the past is the living rows and those that died since; further back, see `FarPast`. */
const NEAR_CHANGES = 20_000;

/** A stretch of paths: from one on, up to but without another (null: to the end). */
export interface Stretch {
  readonly from: string;
  readonly end: string | null;
}

/** The paths that were there at some moment, in byte order. */
export interface Paths {
  /** The first `limit` rows of a stretch. */
  page(stretch: Stretch, limit: number): FileRow[];
}

/** The tree at a moment. Every page costs what it answers; at most NEAR_CHANGES rows are read once on top of that. */
export function pathsAt(sql: SqlStorage, moment: Moment): Paths {
  if (moment.seq >= moment.head) return new Present(sql, moment.gen);
  return changesSince(sql, moment) <= NEAR_CHANGES ? new NearPast(sql, moment) : new FarPast(sql, moment);
}

/** One path at a moment, or null. */
export function fileAt(sql: SqlStorage, { gen, seq }: Moment, path: string): FileRow | null {
  const query = `SELECT ${FILE_COLUMNS}, died FROM files WHERE gen = ? AND path = ? AND born <= ? ORDER BY born DESC LIMIT 1`;
  const row = sql.exec<FileRow & { died: number | null }>(query, gen, path, seq).toArray()[0];
  return row && (row.died === null || row.died > seq) ? row : null;
}

class Present implements Paths {
  readonly #sql: SqlStorage;
  readonly #gen: number;

  constructor(sql: SqlStorage, gen: number) {
    this.#sql = sql;
    this.#gen = gen;
  }

  page({ from, end }: Stretch, limit: number): FileRow[] {
    const upTo = end === null ? "" : "AND path < ?";
    const query = `SELECT ${FILE_COLUMNS} FROM files INDEXED BY files_head
       WHERE gen = ? AND died IS NULL AND path >= ? ${upTo} ORDER BY path LIMIT ?`;
    return this.#sql.exec<FileRow>(query, this.#gen, from, ...(end === null ? [] : [end]), limit).toArray();
  }
}

/** What lives now and was born by then, merged with what was there then and died since. */
class NearPast implements Paths {
  readonly #sql: SqlStorage;
  readonly #moment: Moment;
  readonly #diedSince: readonly FileRow[];

  constructor(sql: SqlStorage, moment: Moment) {
    this.#sql = sql;
    this.#moment = moment;
    const { gen, seq, head } = moment;
    const query = `SELECT ${FILE_COLUMNS} FROM files INDEXED BY files_by_died
      WHERE gen = ? AND died > ? AND died <= ? AND born <= ? ORDER BY path`;
    this.#diedSince = sql.exec<FileRow>(query, gen, seq, head, seq).toArray();
  }

  page({ from, end }: Stretch, limit: number): FileRow[] {
    const merged: FileRow[] = [];
    const living = this.#living({ from, end }, limit);
    let next = 0;
    let dead = this.#firstDead(from);
    while (merged.length < limit) {
      const alive = living[next];
      const died = this.#deadBefore(dead, end);
      if (!alive && !died) break;
      if (alive && (!died || compareUtf8(alive.path, died.path) < 0)) {
        merged.push(alive);
        next += 1;
      } else if (died) {
        merged.push(died);
        dead += 1;
      }
    }
    return merged;
  }

  #living({ from, end }: Stretch, limit: number): FileRow[] {
    const { gen, seq } = this.#moment;
    const upTo = end === null ? "" : "AND path < ?";
    const query = `SELECT ${FILE_COLUMNS} FROM files INDEXED BY files_head
       WHERE gen = ? AND died IS NULL AND path >= ? ${upTo} AND born <= ? ORDER BY path LIMIT ?`;
    const bindings = [gen, from, ...(end === null ? [] : [end]), seq, limit];
    return this.#sql.exec<FileRow>(query, ...bindings).toArray();
  }

  #firstDead(from: string): number {
    let low = 0;
    let high = this.#diedSince.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compareUtf8((this.#diedSince[middle] as FileRow).path, from) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #deadBefore(index: number, end: string | null): FileRow | undefined {
    const row = this.#diedSince[index];
    return row && (end === null || compareUtf8(row.path, end) < 0) ? row : undefined;
  }
}

/** Path by path: a seek to the next path there ever was, and one to what it was then. */
class FarPast implements Paths {
  readonly #sql: SqlStorage;
  readonly #moment: Moment;

  constructor(sql: SqlStorage, moment: Moment) {
    this.#sql = sql;
    this.#moment = moment;
  }

  page({ from, end }: Stretch, limit: number): FileRow[] {
    const found: FileRow[] = [];
    let path = this.#nextPath("path >= ?", from);
    while (path !== null && found.length < limit && (end === null || compareUtf8(path, end) < 0)) {
      const row = fileAt(this.#sql, this.#moment, path);
      if (row) found.push(row);
      path = this.#nextPath("path > ?", path);
    }
    return found;
  }

  #nextPath(condition: string, path: string): string | null {
    const query = `SELECT path FROM files WHERE gen = ? AND ${condition} ORDER BY path LIMIT 1`;
    return this.#sql.exec<{ path: string }>(query, this.#moment.gen, path).toArray()[0]?.path ?? null;
  }
}
