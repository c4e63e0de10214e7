import { comparePaths } from "../core/path-order.ts";
import type { CommitRow, Position } from "./commits.ts";
import type { Head } from "./generations.ts";
import { justAfter, type PathRange } from "./path-order.ts";
import type { Sql } from "./sql.ts";
import { ALIVE, ALIVE_FOLDED, DIED_SINCE, PAST } from "./walk-queries.ts";

/** How many changes back from HEAD a commit is read as HEAD and what died since; see `openWalk`. */
export const NEAR_HEAD_CHANGES = 50_000;

/** One path of a commit. */
interface WalkRow {
  readonly path: string;
  readonly digest: string;
  readonly size: number;
  /** The commit that wrote it, by its number. */
  readonly born: number;
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

interface WalkOptions {
  readonly position: Position;
  /** The commit at the position; undefined for position 0, where nothing is. */
  readonly commit: CommitRow | undefined;
  readonly head: Head;
  readonly range: PathRange;
  /** Where the caller will fold: of the paths in one folder below this prefix, those after the first may be left out. */
  readonly foldBelow?: string | undefined;
  /** How many rows the caller means to use. */
  readonly rows: number;
}

/**
 * The paths of a commit. The past must be listed without walking the dead (design §3): near HEAD it is what is alive
 * plus what died since; further back each path is looked up by itself, however many versions it has.
 */
export function openWalk(sql: Sql, { position, commit, head, range, foldBelow, rows }: WalkOptions): Walk {
  const { gen, seq } = position;
  const { lower, upper } = range;
  const paged = (text: string, page: number, ...more: number[]) =>
    new PagedWalk({
      fetch: (from, limit) => sql.query<WalkRow>(text, [gen, from, upper, seq, limit, ...more]),
      lower,
      page,
    });
  if (!commit || commit.kind === "deletion") return new PagedWalk({ fetch: () => [], lower, page: rows });
  const changes = head.births - commit.births + head.deaths - commit.deaths;
  // The caller skips much of what is fetched: begin with little.
  if (changes > NEAR_HEAD_CHANGES) return paged(PAST, foldBelow === undefined ? rows : 1);
  const alive =
    foldBelow === undefined
      ? paged(ALIVE, rows)
      : paged(ALIVE_FOLDED, rows, Array.from(foldBelow).length + 1);
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
}

/** Rows of one query, fetched in pages that grow while they are used up and start anew after a skip. */
class PagedWalk implements Walk {
  readonly #fetch: PagedWalkOptions["fetch"];
  readonly #firstPage: number;
  #page: number;
  #lower: string;
  #rows: readonly WalkRow[] = [];
  #index = 0;
  #ended = false;

  constructor({ fetch, lower, page }: PagedWalkOptions) {
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
