import { comparePaths } from "../../core/path-order.ts";
import type { Sql } from "../../sqlite/sql.ts";
import type { CommitRow, Position } from "../tree/commit-store.ts";
import type { Head } from "../tree/generation-store.ts";
import { justAfter, type PathRange } from "../tree/path-ranges.ts";
import { ALIVE, ALIVE_ALL, ALIVE_FOLDED, BORN_SINCE, DIED_NEXT, DIED_SINCE, PAST } from "./walk-queries.ts";

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
  /** The commit that wrote it, by its number; 0 where it is not in one yet. */
  readonly born: number;
}

/** Goes through the paths of one tree in order, as far as one page should. */
export interface Walk {
  /** The row it stands on; undefined at the end, and where it gives up. */
  peek(): WalkRow | undefined;
  /** Set where it gave up: it went through all paths up to this one. */
  readonly spentAt: string | undefined;
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
  /** Whether rows of the commit after HEAD may be there already. */
  readonly isNextWritten: boolean;
  /** Only what later commits than this one wrote. */
  readonly since?: Since | undefined;
}

interface Since {
  readonly seq: number;
  /** As of CommitRow. */
  readonly births: number;
}

/**
 * The paths of a commit. The past must be listed without walking the dead (design §3): near HEAD it is what is alive
 * plus what died since; further back each path is looked up by itself, however many versions it has.
 */
export function openWalk(sql: Sql, options: WalkOptions): Walk {
  const { position, commit, head, range, foldBelow, rows, isNextWritten, since } = options;
  const { gen, seq } = position;
  const { lower, upper } = range;
  const after = since?.seq ?? 0;
  const shows = ({ digest, born }: WalkRow) => digest !== "" && born <= seq && born > after;
  const paged = (text: string, page: number, ...more: number[]) =>
    new PagedWalk({
      fetch: (from, limit) => sql.query<WalkRow>(text, [gen, from, upper, seq, limit, ...more]),
      lower,
      page,
      shows,
    });
  if (!commit || commit.kind === "deletion") return new PagedWalk({ fetch: () => [], lower, page: rows });
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
  /** Which of the rows fetched are wanted; all where absent. */
  readonly shows?: (row: WalkRow) => boolean;
  /** After how many rows it gives up. */
  readonly budget?: number;
}

/** Rows of one query, fetched in pages that grow while they are used up and start anew after a skip. */
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

/** How far several walks together went, where one of them gave up. To be asked after `peek`. */
export function leastSpent(walks: readonly Walk[]): string | undefined {
  let least: string | undefined;
  for (const { spentAt } of walks) {
    if (spentAt === undefined) continue;
    if (least === undefined || comparePaths(spentAt, least) < 0) least = spentAt;
  }
  return least;
}
