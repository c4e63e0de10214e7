import type { CommitRow, Position } from "./commits.ts";
import type { Head } from "./generations.ts";
import { comparePaths, justAfter, type PathRange } from "./path-order.ts";
import type { Sql } from "./sql.ts";

/** How many changes back from HEAD a commit is read as HEAD and what died since; see `openWalk`. */
export const NEAR_HEAD_CHANGES = 50_000;

/** One path of a commit. */
export interface WalkRow {
  readonly path: string;
  readonly digest: string;
  readonly size: number;
}

/** Goes through the paths of one commit in order. */
export interface Walk {
  /** The row it stands on; undefined at the end. */
  peek(): WalkRow | undefined;
  /** Goes on to the next row. */
  advance(): void;
  /** Goes on to the first path that is `lower` or greater. */
  skipTo(lower: string): void;
}

export interface WalkOptions {
  readonly position: Position;
  /** The commit at the position; undefined for position 0, where nothing is. */
  readonly commit: CommitRow | undefined;
  readonly head: Head;
  readonly range: PathRange;
  /** Rows fetched at first; more with each further fetch that is used up. */
  readonly page: number;
}

/**
 * The paths of a commit. The past must be listed without walking the dead (design §3): near HEAD it is what is alive
 * plus what died since; further back each path is looked up by itself, however many versions it has.
 */
export function openWalk(sql: Sql, { position, commit, head, range, page }: WalkOptions): Walk {
  if (!commit || commit.kind === "deletion") return new PagedWalk(() => [], { lower: range.lower, page });
  const { gen, seq } = position;
  const { upper } = range;
  const alive = (lower: string, limit: number) =>
    sql.query<WalkRow>(ALIVE, [gen, lower, upper, seq, limit]);
  const diedSince = (lower: string, limit: number) =>
    sql.query<WalkRow>(DIED_SINCE, [gen, lower, upper, seq, limit]);
  const past = (lower: string, limit: number) => sql.query<WalkRow>(PAST, [gen, lower, upper, seq, limit]);
  const start = { lower: range.lower, page };
  if (head.deaths === commit.deaths && head.births === commit.births) return new PagedWalk(alive, start);
  const changes = head.births - commit.births + head.deaths - commit.deaths;
  if (changes > NEAR_HEAD_CHANGES) return new PagedWalk(past, start);
  // Each fetch of the dead sorts all of them: it had better bring many.
  const dead = new PagedWalk(diedSince, { lower: range.lower, page: MAX_PAGE });
  return new MergedWalk(new PagedWalk(alive, start), dead);
}

export const ALIVE = `
  SELECT path, lower(hex(digest)) AS digest, size FROM files INDEXED BY head
  WHERE gen = ?1 AND died IS NULL AND path >= ?2 AND path < ?3 AND born <= ?4 ORDER BY path LIMIT ?5`;

export const DIED_SINCE = `
  SELECT path, lower(hex(digest)) AS digest, size FROM files INDEXED BY by_died
  WHERE gen = ?1 AND died > ?4 AND path >= ?2 AND path < ?3 AND born <= ?4 ORDER BY path LIMIT ?5`;

/** A walk over distinct paths, one seek each, and a look-up of each path's version. Rows come as the walk goes: in order, and no further than the limit. */
export const PAST = `
  WITH RECURSIVE walk (path) AS (
    SELECT (SELECT path FROM files WHERE gen = ?1 AND path >= ?2 AND path < ?3 ORDER BY path LIMIT 1)
    UNION ALL
    SELECT (SELECT path FROM files WHERE gen = ?1 AND path > walk.path AND path < ?3 ORDER BY path LIMIT 1)
    FROM walk WHERE walk.path IS NOT NULL
  )
  SELECT version.path AS path, lower(hex(version.digest)) AS digest, version.size AS size
  FROM walk CROSS JOIN files AS version ON version.gen = ?1 AND version.path = walk.path AND version.born = (
    SELECT max(born) FROM files WHERE gen = ?1 AND path = walk.path AND born <= ?4
  )
  WHERE version.died IS NULL OR version.died > ?4 LIMIT ?5`;

const MAX_PAGE = 1000;

/** Rows of one query, fetched in pages that grow while they are used up and start small after a skip. */
class PagedWalk implements Walk {
  readonly #fetch: (lower: string, limit: number) => WalkRow[];
  readonly #firstPage: number;
  #page: number;
  #lower: string;
  #rows: readonly WalkRow[] = [];
  #index = 0;
  #ended = false;

  constructor(
    fetch: (lower: string, limit: number) => WalkRow[],
    { lower, page }: { lower: string; page: number },
  ) {
    this.#fetch = fetch;
    this.#lower = lower;
    this.#firstPage = page;
    this.#page = page;
  }

  peek(): WalkRow | undefined {
    if (this.#index === this.#rows.length && !this.#ended) this.#fill();
    return this.#rows[this.#index];
  }

  advance(): void {
    if (this.peek()) this.#index++;
  }

  skipTo(lower: string): void {
    for (let row = this.#rows[this.#index]; row; row = this.#rows[this.#index]) {
      if (comparePaths(row.path, lower) >= 0) return;
      this.#index++;
    }
    if (comparePaths(lower, this.#lower) > 0) this.#lower = lower;
    this.#page = this.#firstPage;
  }

  #fill(): void {
    this.#rows = this.#fetch(this.#lower, this.#page);
    this.#index = 0;
    this.#ended = this.#rows.length < this.#page;
    this.#page = Math.min(this.#page * 2, MAX_PAGE);
    const last = this.#rows.at(-1);
    if (last) this.#lower = justAfter(last.path);
  }
}

/** Two walks over different paths as one. */
class MergedWalk implements Walk {
  readonly #walks: readonly [Walk, Walk];

  constructor(...walks: [Walk, Walk]) {
    this.#walks = walks;
  }

  peek(): WalkRow | undefined {
    return this.#first().peek();
  }

  advance(): void {
    this.#first().advance();
  }

  skipTo(lower: string): void {
    for (const walk of this.#walks) walk.skipTo(lower);
  }

  #first(): Walk {
    const [left, right] = this.#walks;
    const [a, b] = [left.peek(), right.peek()];
    if (!a || !b) return a ? left : right;
    return comparePaths(a.path, b.path) < 0 ? left : right;
  }
}
