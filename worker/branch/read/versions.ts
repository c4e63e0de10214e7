import { isUlid } from "../../../protocol/names.ts";
import type { ChecksumAlgorithm, ChecksumType } from "../../core/checksums.ts";
import { comparePaths } from "../../core/path-order.ts";
import type { Refused } from "../contract/answers.ts";
import type { ListVersions, VersionEntry, VersionList, VersionMark } from "../contract/files.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { PLACEHOLDER } from "../tree/file-store.ts";
import type { Live } from "../tree/generation-store.ts";
import { justAfter, type PathRange, rangeOf, subtree } from "../tree/path-ranges.ts";
import { commonPrefix, pageStart } from "./listing.ts";

/**
 * The queries behind a listing of versions, of (?1 gen, ?2 lower, ?3 upper, ?4 limit): rows of `files`, alive and
 * dead, whose path is in [lower, upper), by path, the oldest of a path first. Those that erasures left and that are no
 * version have 0 for their version.
 */

/** What a row's checksum is; nulls if it has none. */
const CHECKSUM = `
  attributes ->> '$.checksum.algorithm' AS checksumAlgorithm, attributes ->> '$.checksum.type' AS checksumType`;

/** All of them. */
const VERSIONS = `
  SELECT path, born, died, lower(hex(digest)) AS digest, size, version, unmarked, kind, ${CHECKSUM} FROM files
  WHERE gen = ?1 AND path >= ?2 AND path < ?3 AND version IS NOT 0 ORDER BY path, born LIMIT ?4`;

/**
 * As VERSIONS, but of a folder that begins with a "/" at or after character ?5 only its first path, and nothing of the rows of
 * that: a walk over paths and folders, one seek each. "0" is the byte after "/", and paths hold no control characters. Rows
 * come as the walk goes: in order, and no further than the limit.
 */
const VERSIONS_FOLDED = `
  WITH RECURSIVE walk (path) AS (
    SELECT (
      SELECT path FROM files
      WHERE gen = ?1 AND path >= ?2 AND path < ?3 AND version IS NOT 0 ORDER BY path LIMIT 1
    )
    UNION ALL
    SELECT (
      SELECT path FROM files
      WHERE gen = ?1 AND path < ?3 AND version IS NOT 0 AND path >= CASE instr(substr(walk.path, ?5), '/')
        WHEN 0 THEN walk.path || char(1)
        ELSE substr(walk.path, 1, ?5 - 2 + instr(substr(walk.path, ?5), '/')) || '0'
      END
      ORDER BY path LIMIT 1
    )
    FROM walk WHERE walk.path IS NOT NULL
  )
  SELECT walk.path AS path, one.born AS born, one.died AS died, lower(hex(one.digest)) AS digest, one.size AS size,
    one.version AS version, one.unmarked AS unmarked, one.kind AS kind, ${CHECKSUM}
  FROM walk LEFT JOIN files AS one ON one.gen = ?1 AND one.version IS NOT 0
    AND one.path = CASE instr(substr(walk.path, ?5), '/') WHEN 0 THEN walk.path END
  WHERE walk.path IS NOT NULL LIMIT ?4`;

/** Of (?1 gen, ?2 path, ?3 seq, ?4 limit): the rows of one path that were born before `seq`, the newest first. */
const OLDER_VERSIONS = `
  SELECT path, born, died, lower(hex(digest)) AS digest, size, version, unmarked, kind, ${CHECKSUM} FROM files
  WHERE gen = ?1 AND path = ?2 AND born < ?3 AND version IS NOT 0 ORDER BY born DESC LIMIT ?4`;

/** Rows of one query while the next commit is written, and most of those queries for a page. */
const STEP_ROWS = 500;
const STEPS = 10;

/** A row of `files`. */
interface BirthRow {
  readonly path: string;
  readonly born: number;
  readonly died: number | null;
  readonly digest: string;
  readonly size: number;
  /** The commit that it is the version of; null: the one at which it was born. */
  readonly version: number | null;
  /** 1: its death is no version. */
  readonly unmarked: number | null;
  readonly kind: number;
  readonly checksumAlgorithm: ChecksumAlgorithm | null;
  readonly checksumType: ChecksumType | null;
}

/** What happened to a path at a commit. `row`: what was written; null if the path was deleted. */
interface PathEvent {
  readonly path: string;
  /** The commit that names it. */
  readonly seq: number;
  readonly row: BirthRow | null;
  /** Whether it is the newest of the path. */
  readonly latest: boolean;
}

type Entry = PathEvent | { readonly prefix: string };

/** How far the history of a path was gone through, from the newest on. */
interface PathPlace {
  /** The row that comes next was born before this commit. */
  readonly newer: number;
  /** The last event that was found, or where it began. */
  readonly last: number;
}

/**
 * One page of the history of the paths of the live generation: each write and each deletion of a path is a version of
 * it. A write that replaces a file is one event, its death and the birth; a death without a birth is a deletion.
 */
export function listVersions(ledger: Ledger, request: ListVersions): VersionList | Refused<"no-such-branch"> {
  const { live } = ledger;
  if (!live) return { ok: false, reason: "no-such-branch" };
  const page = new VersionPage(ledger, { live, request });
  const found = page.read();
  const entries = found.slice(0, request.limit);
  const shown = show(ledger, { gen: live.gen, entries });
  const next = found.length > entries.length ? markOf(shown.at(-1)) : page.spentAt;
  const list: VersionList = { ok: true, entries: shown, truncated: next !== null, next };
  ledger.sharePage({ of: "versions", ...request }, list);
  return list;
}

/** Gathers the entries of one page, and one more where there is one. */
class VersionPage {
  readonly #ledger: Ledger;
  readonly #gen: number;
  /** The commit after HEAD: rows that are written for it did not happen yet. */
  readonly #next: number;
  readonly #request: ListVersions;
  readonly #entries: Entry[] = [];
  #spentAt: VersionMark | null = null;

  constructor(ledger: Ledger, { live, request }: { live: Live; request: ListVersions }) {
    this.#ledger = ledger;
    this.#gen = live.gen;
    this.#next = live.head.seq + 1;
    this.#request = request;
  }

  /** Where it gave up before the page was full; null if it did not. */
  get spentAt(): VersionMark | null {
    return this.#spentAt;
  }

  read(): readonly Entry[] {
    const { prefix, delimiter, after } = this.#request;
    this.#finishPath(after);
    const range = {
      ...rangeOf(prefix),
      lower: pageStart({ prefix, delimiter, after: after?.path }),
    };
    if (this.#room > 0) {
      if (this.#ledger.applying.writesTo(this.#gen)) this.#stepPaths(range);
      else this.#readPaths(range);
    }
    return this.#entries;
  }

  /** How many entries are still to be found; one more than the page holds tells whether there is a next one. */
  get #room(): number {
    return this.#request.limit + 1 - this.#entries.length;
  }

  /** What comes after a version of its own path. */
  #finishPath(after: VersionMark | undefined): void {
    const { prefix, delimiter } = this.#request;
    if (after?.version === undefined || !isUlid(after.version) || !after.path.startsWith(prefix)) return;
    // What is within a folder is folded into it.
    if (delimiter && commonPrefix(after.path, prefix)) return;
    // The version may have been given back since it was listed, and its commit with it: ids grow as commits do.
    const { commits } = this.#ledger;
    const isThere = commits.byId(after.version)?.gen === this.#gen;
    const seq = commits.seqUpTo(this.#gen, after.version);
    this.#addPath(after.path, isThere ? seq : seq + 1);
    // So may all that was newer: then one behind it is the newest by now.
    const newest = this.#newestOf(after.path);
    for (const [index, entry] of this.#entries.entries())
      if ("seq" in entry) this.#entries[index] = { ...entry, latest: entry.seq === newest };
  }

  /** The commit that names the newest event of a path; undefined if that was erased, so that there is none. */
  #newestOf(path: string): number | undefined {
    const [row] = this.#ledger.sql.query<BirthRow>(OLDER_VERSIONS, [this.#gen, path, this.#next, 1]);
    if (!row || row.kind === PLACEHOLDER) return row?.born;
    const { born, died, version, unmarked } = row;
    const isDead = died !== null && died < this.#next;
    if (isDead) return unmarked === null ? died : undefined;
    return version ?? born;
  }

  #readPaths({ lower, upper }: PathRange): void {
    for (let from: string | undefined = lower; from !== undefined && this.#room > 0; ) {
      from = this.#readSome({ lower: from, upper });
    }
  }

  /** Returns where to go on, since a version may have several rows, so that they can be fewer than were read; undefined at the end. */
  #readSome({ lower, upper }: PathRange): string | undefined {
    const { prefix, delimiter } = this.#request;
    const limit = this.#room;
    const range = [this.#gen, lower, upper, limit];
    const rows = delimiter
      ? this.#ledger.sql.query<BirthRow>(VERSIONS_FOLDED, [...range, Array.from(prefix).length + 1])
      : this.#ledger.sql.query<BirthRow>(VERSIONS, range);
    // Of the last path there may be more than was read, and the newest come first.
    const cut = rows.length === limit ? rows.at(-1)?.path : undefined;
    for (let start = 0; start < rows.length && this.#room > 0; ) {
      const path = rows[start]?.path ?? "";
      let end = start + 1;
      while (rows[end]?.path === path) end++;
      const common = delimiter && commonPrefix(path, prefix);
      if (common) this.#entries.push({ prefix: common });
      else if (path === cut) this.#addPath(path, this.#next);
      else this.#addEvents(rows.slice(start, end).reverse(), this.#newestPlace());
      start = end;
    }
    if (cut === undefined) return undefined;
    const common = delimiter && commonPrefix(cut, prefix);
    return common ? subtree(common).upper : justAfter(cut);
  }

  /** As `#readPaths`, while rows of the next commit are there: they are passed over, and may be very many. */
  #stepPaths({ lower, upper }: PathRange): void {
    let from = lower;
    let mark = "";
    for (let step = 0; step < STEPS; step++) {
      const rows = this.#ledger.sql.query<BirthRow>(VERSIONS, [this.#gen, from, upper, STEP_ROWS]);
      for (const { path, born } of rows) {
        if (this.#room <= 0) return;
        if (born >= this.#next || comparePaths(path, from) < 0) continue;
        mark = this.#addNext(path);
        from = mark === path ? justAfter(path) : subtree(mark).upper;
      }
      const last = rows.at(-1)?.path;
      if (rows.length < STEP_ROWS || last === undefined) return;
      if (comparePaths(last, from) >= 0) {
        mark = last;
        from = justAfter(last);
      }
    }
    this.#spentAt = { path: mark };
  }

  /** Adds a path, or the common prefix that it is folded into, and returns which. */
  #addNext(path: string): string {
    const { prefix, delimiter } = this.#request;
    const common = delimiter && commonPrefix(path, prefix);
    if (common) this.#entries.push({ prefix: common });
    else this.#addPath(path, this.#next);
    return common ?? path;
  }

  /** What happened to a path before a commit. */
  #addPath(path: string, before: number): void {
    let place: PathPlace = { ...this.#newestPlace(), newer: before, last: before };
    for (let full = true; full && this.#room > 0; ) {
      const room = this.#room;
      const rows = this.#ledger.sql.query<BirthRow>(OLDER_VERSIONS, [this.#gen, path, place.newer, room]);
      place = this.#addEvents(rows, place);
      full = rows.length === room;
    }
  }

  /** Where the newest versions of a path are. */
  #newestPlace(): PathPlace {
    return { newer: this.#next, last: this.#next };
  }

  /** `rows`: of one path, the newest first, from a place on. Returns the place behind them. */
  #addEvents(rows: readonly BirthRow[], { newer, last }: PathPlace): PathPlace {
    for (const row of rows) {
      const { path, born, died, version, unmarked, kind } = row;
      const first = last === this.#next;
      if (kind === PLACEHOLDER) {
        this.#entries.push({ path, seq: born, row: null, latest: first });
        last = born;
      } else {
        if (died !== null && died < newer && unmarked === null) {
          this.#entries.push({ path, seq: died, row: null, latest: first });
          last = died;
        }
        const seq = version ?? born;
        // Two rows of one version: it was current, and is or was so again.
        if (seq !== last) {
          const latest = last === this.#next && (died === null || died >= this.#next);
          this.#entries.push({ path, seq, row, latest });
        }
        last = seq;
      }
      newer = born;
    }
    return { newer, last };
  }
}

function show(ledger: Ledger, { gen, entries }: { gen: number; entries: readonly Entry[] }): VersionEntry[] {
  const seqs = entries.flatMap((entry) => ("prefix" in entry ? [] : [entry.seq]));
  const stampOf = ledger.commits.stamps(gen, seqs);
  return entries.map((entry) => {
    if ("prefix" in entry) return { kind: "prefix", path: entry.prefix };
    const { path, seq, row, latest } = entry;
    const stamp = stampOf(seq);
    const event = { path, version: stamp.id, latest, modifiedAt: stamp.createdAt };
    return row
      ? { kind: "version", ...event, digest: row.digest, size: row.size, ...checksumOf(row) }
      : { kind: "deletion", ...event };
  });
}

function checksumOf({
  checksumAlgorithm: algorithm,
  checksumType: type,
}: BirthRow): Pick<Extract<VersionEntry, { kind: "version" }>, "checksum"> {
  return algorithm === null || type === null ? {} : { checksum: { algorithm, type } };
}

/** What the next page comes after. */
function markOf(last: VersionEntry | undefined): VersionMark | null {
  if (!last) return null;
  return last.kind === "prefix" ? { path: last.path } : { path: last.path, version: last.version };
}
