import { comparePaths } from "../../core/path-order.ts";
import type { Sql } from "../../objects/sql.ts";
import type { CommitRow, Position } from "../tree/commit-store.ts";
import type { Head } from "../tree/generation-store.ts";
import { justAfter, type PathRange } from "../tree/path-ranges.ts";

/**
 * The queries behind a walk, all of (?1 gen, ?2 lower, ?3 upper, ?4 seq, ?5 limit): rows of the commit `seq` whose
 * path is in [lower, upper), in path order.
 */

/** What is alive at HEAD and was at the commit. */
const ALIVE = `
  SELECT path, lower(hex(digest)) AS digest, size, born, ifnull(version, born) AS version,
    bytesAt, renewed
  FROM files INDEXED BY head
  WHERE gen = ?1 AND died IS +NULL AND path >= ?2 AND path < ?3 AND born <= ?4 ORDER BY path LIMIT ?5`;

/**
 * As ALIVE, but behind a path with a "/" at or after character ?6 it goes on behind the folder that ends there, and has nothing
 * but the path of it: its row is not looked up. "0" is the byte after "/", and paths hold no control characters.
 */
const ALIVE_FOLDED = `
  WITH RECURSIVE walk (path) AS (
    SELECT (
      SELECT path FROM files INDEXED BY head
      WHERE gen = ?1 AND died IS +NULL AND path >= ?2 AND path < ?3 AND born <= ?4 ORDER BY path LIMIT 1
    )
    UNION ALL
    SELECT (
      SELECT path FROM files INDEXED BY head
      WHERE gen = ?1 AND died IS +NULL AND path < ?3 AND born <= ?4 AND path >= CASE instr(substr(walk.path, ?6), '/')
        WHEN 0 THEN walk.path || char(1)
        ELSE substr(walk.path, 1, ?6 - 2 + instr(substr(walk.path, ?6), '/')) || '0'
      END
      ORDER BY path LIMIT 1
    )
    FROM walk WHERE walk.path IS NOT NULL
  )
  SELECT walk.path AS path, lower(hex(alive.digest)) AS digest, alive.size AS size, alive.born AS born,
    ifnull(alive.version, alive.born) AS version, alive.bytesAt AS bytesAt, alive.renewed AS renewed
  FROM walk LEFT JOIN files AS alive INDEXED BY head
    ON alive.gen = ?1 AND alive.died IS +NULL
      AND alive.path = CASE instr(substr(walk.path, ?6), '/') WHEN 0 THEN walk.path END
  WHERE walk.path IS NOT NULL LIMIT ?5`;

/** What was alive at the commit and died since. Sorts all of it. */
export const DIED_SINCE = `
  SELECT path, lower(hex(digest)) AS digest, size, born, ifnull(version, born) AS version, bytesAt
  FROM files INDEXED BY by_died
  WHERE gen = ?1 AND died > ?4 AND path >= ?2 AND path < ?3 AND born <= ?4 ORDER BY path LIMIT ?5`;

/** What is alive at HEAD, whenever it was born: for the caller to choose from. */
export const ALIVE_ALL = `
  SELECT path, lower(hex(digest)) AS digest, size, born, ifnull(version, born) AS version,
    bytesAt, renewed
  FROM files INDEXED BY head
  WHERE gen = ?1 AND died IS +NULL AND path >= ?2 AND path < ?3 ORDER BY path LIMIT ?5`;

/** What was alive at the commit and died at the next one. */
export const DIED_NEXT = `
  SELECT path, lower(hex(digest)) AS digest, size, born, ifnull(version, born) AS version,
    bytesAt, renewed
  FROM files INDEXED BY by_died
  WHERE gen = ?1 AND died = ?4 + 1 AND path >= ?2 AND path < ?3 ORDER BY path LIMIT ?5`;

/** What was alive at the commit and was born after ?6. Sorts all that was born after it. */
export const BORN_SINCE = `
  SELECT path, lower(hex(digest)) AS digest, size, born, ifnull(version, born) AS version, bytesAt
  FROM files INDEXED BY by_born
  WHERE gen = ?1 AND born > ?6 AND born <= ?4 AND path >= ?2 AND path < ?3 AND (died IS NULL OR died > ?4)
  ORDER BY path LIMIT ?5`;

/**
 * A walk over distinct paths, one seek each, and a look-up of each path's version. Rows come as the walk goes: in
 * order, and no further than the limit; those of paths where nothing was at the commit have an empty digest.
 */
export const PAST = `
  WITH RECURSIVE walk (path) AS (
    SELECT (SELECT path FROM files WHERE gen = ?1 AND path >= ?2 AND path < ?3 ORDER BY path LIMIT 1)
    UNION ALL
    SELECT (SELECT path FROM files WHERE gen = ?1 AND path > walk.path AND path < ?3 ORDER BY path LIMIT 1)
    FROM walk WHERE walk.path IS NOT NULL
  )
  SELECT walk.path AS path, lower(hex(version.digest)) AS digest, version.size AS size, version.born AS born,
    ifnull(version.version, version.born) AS version, version.bytesAt AS bytesAt
  FROM walk LEFT JOIN files AS version ON version.gen = ?1 AND version.path = walk.path AND version.born = (
    SELECT max(born) FROM files WHERE gen = ?1 AND path = walk.path AND born <= ?4
  ) AND (version.died IS NULL OR version.died > ?4)
  WHERE walk.path IS NOT NULL LIMIT ?5`;

/** How many changes back from HEAD a commit is read as HEAD and what died since; see `openWalk`. */
export const NEAR_HEAD_CHANGES = 50_000;

/** Most births that are read as what was born after a commit. */
const NEAR_BIRTHS = 10_000;
/** Most rows of one query that a page goes through, shown or not: what takes some tens of milliseconds. */
const PAGE_ROWS = 5000;

/** One path of a tree. */
export interface WalkRow {
  readonly path: string;
  readonly digest: string;
  readonly size: number;
  /** The commit that its row was born at, by its number; 0 if it is not in one yet. */
  readonly born: number;
  /** The commit that wrote it. Another one if an erasure made an earlier version current again. */
  readonly version: number;
  /** As in FileState. */
  readonly bytesAt: number | null;
  /** Of what is at HEAD: when it was last written again as it was; null: it was not. */
  readonly renewed?: number | null;
}

/** Goes through the paths of one tree in order, as far as one page should. */
export interface Walk {
  /** The row it stands on; undefined at the end, and when it gives up. */
  peek(): WalkRow | undefined;
  /** Set if it gave up: it went through all paths up to this one. */
  readonly spentAt: string | undefined;
  /** Goes on to the next row. */
  advance(): void;
  /** Goes on to the first path that is `lower` or greater. */
  skipTo(lower: string): void;
}

interface WalkOptions {
  readonly position: Position;
  /** The commit at the position; undefined for position 0, before the first commit. */
  readonly commit: CommitRow | undefined;
  readonly head: Head;
  readonly range: PathRange;
  /**
   * Set if the caller will fold: of the paths in one folder below this prefix, those after the first may be left out, and so may
   * all but the path of that. Not with `since`.
   */
  readonly foldBelow?: string | undefined;
  /** How many rows the caller means to use. */
  readonly rows: number;
  /** Whether rows of the commit after HEAD may be there already. */
  readonly isNextWritten: boolean;
  /** Only what later commits than this one wrote. */
  readonly since?: Since | undefined;
}

interface Since {
  readonly seq: number;
  /** As in CommitRow. */
  readonly births: number;
}

/**
 * The paths of a commit. A listing of the past must not walk through the dead rows of all time. So near HEAD it is what
 * is alive plus what died since; further back each path is looked up by itself, however many versions it has.
 */
export function openWalk(sql: Sql, options: WalkOptions): Walk {
  const { position, commit, head, range, foldBelow, rows, isNextWritten, since } = options;
  const { gen, seq } = position;
  const { lower, upper } = range;
  const after = since?.seq ?? 0;
  const fetched = (text: string, page: number, ...more: number[]) => ({
    fetch: (from: string, limit: number) => sql.query<WalkRow>(text, [gen, from, upper, seq, limit, ...more]),
    lower,
    page,
  });
  const shows = ({ digest, born, version }: WalkRow) => digest !== "" && born <= seq && version > after;
  const paged = (...query: Parameters<typeof fetched>) => new PagedWalk({ ...fetched(...query), shows });
  if (commit?.kind !== "commit") return new PagedWalk({ fetch: () => [], lower, page: rows });
  if (since && commit.births - since.births <= NEAR_BIRTHS) return paged(BORN_SINCE, MAX_PAGE, after);
  // The caller skips much of what is fetched: begin with little.
  const page = foldBelow === undefined ? rows : 1;
  if (isNextWritten) {
    return seq === head.seq
      ? new MergedWalk(paged(ALIVE_ALL, page), paged(DIED_NEXT, page))
      : paged(PAST, page);
  }
  const changes = head.births - commit.births + head.deaths - commit.deaths;
  if (changes > NEAR_HEAD_CHANGES) return paged(PAST, page);
  const alive =
    foldBelow === undefined
      ? paged(ALIVE, rows)
      : new PagedWalk(fetched(ALIVE_FOLDED, rows, Array.from(foldBelow).length + 1));
  // Each fetch of the dead sorts all of them: it had better bring many.
  return head.deaths === commit.deaths ? alive : new MergedWalk(alive, paged(DIED_SINCE, MAX_PAGE));
}

const MAX_PAGE = 1000;

interface PagedWalkOptions {
  /** Rows from a path on, at most so many, in path order. */
  readonly fetch: (from: string, limit: number) => WalkRow[];
  readonly lower: string;
  /** Rows fetched at first. */
  readonly page: number;
  /** Which of the rows fetched are wanted. Absent: all. */
  readonly shows?: (row: WalkRow) => boolean;
  /** After how many rows it gives up. */
  readonly budget?: number;
}

/** Rows of one query, fetched in pages that grow while they are used up and are small again after a skip. */
export class PagedWalk implements Walk {
  readonly #fetch: PagedWalkOptions["fetch"];
  readonly #shows: (row: WalkRow) => boolean;
  readonly #firstPage: number;
  #budget: number;
  /** The last path that was fetched. */
  #seen = "";
  #page: number;
  #lower: string;
  #rows: readonly WalkRow[] = [];
  #index = 0;
  #ended = false;

  constructor({ fetch, lower, page, shows = () => true, budget = PAGE_ROWS }: PagedWalkOptions) {
    this.#fetch = fetch;
    this.#shows = shows;
    this.#budget = budget;
    this.#lower = lower;
    this.#firstPage = page;
    this.#page = page;
  }

  peek(): WalkRow | undefined {
    for (;;) {
      const row = this.#rows[this.#index];
      if (row && this.#shows(row)) return row;
      if (row) this.#index++;
      else if (this.#ended || this.#budget <= 0) return undefined;
      else this.#fill();
    }
  }

  get spentAt(): string | undefined {
    const isSpent = this.#index === this.#rows.length && !this.#ended && this.#budget <= 0;
    return isSpent ? this.#seen : undefined;
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
    this.#budget -= this.#rows.length;
    const last = this.#rows.at(-1);
    if (!last) return;
    this.#seen = last.path;
    this.#lower = justAfter(last.path);
  }
}

/** Two walks over different paths as one. */
class MergedWalk implements Walk {
  readonly #walks: readonly [Walk, Walk];

  constructor(...walks: [Walk, Walk]) {
    this.#walks = walks;
  }

  peek(): WalkRow | undefined {
    const row = this.#first().peek();
    const end = this.spentAt;
    return row && end !== undefined && comparePaths(row.path, end) > 0 ? undefined : row;
  }

  get spentAt(): string | undefined {
    return leastSpent(this.#walks);
  }

  advance(): void {
    if (this.peek()) this.#first().advance();
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

/** How far several walks together went, if one of them gave up. Ask after `peek`. */
export function leastSpent(walks: readonly Walk[]): string | undefined {
  let least: string | undefined;
  for (const { spentAt } of walks) {
    if (spentAt === undefined) continue;
    if (least === undefined || comparePaths(spentAt, least) < 0) least = spentAt;
  }
  return least;
}
