import {
  ARCHIVE_PAGE_BYTES,
  type ArchivedCommit,
  type ArchivedFile,
  type ArchivedTag,
  MAX_ARCHIVE_COMMITS,
  MAX_ARCHIVE_FILES,
  MAX_ARCHIVE_TAGS,
  type MoreOfFile,
} from "../../../../protocol/archives.ts";
import { contentName, EMPTY_DIGEST } from "../../../../protocol/content.ts";
import { contentOf } from "../../contents/content-store.ts";
import { INLINE_KIND } from "../../contents/stored-body.ts";
import type { ArchivedBytes } from "../../contract/archives.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Position } from "../../tree/commit-store.ts";
import { kindOf, NO_VERSION, PLACEHOLDER } from "../../tree/file-store.ts";
import type { TagRow } from "../../tree/tag-store.ts";

/** Most rows of files, and about the most text, that one slice reads: what takes some milliseconds. */
const SLICE_ROWS = 250;
const SLICE_BYTES = 256 * 1024;
/** What a row takes beside its path and its attributes. */
const ROW_BYTES = 120;

/** Of (?1 gen, ?2 seq, ?3 after, ?4 limit): commits by number, each of a job with what it descends from. */
const COMMITS = `
  SELECT c.seq AS seq, c.id AS id, c.createdAt AS createdAt, c.births AS births, c.deaths AS deaths,
    c.origin AS origin, authors.key AS "key", c.annotation AS annotation, c.kind AS kind,
    CASE WHEN c.origin IS NOT NULL THEN (
      SELECT lineage FROM lineages AS l WHERE l.gen = c.gen AND l.seq <= c.seq ORDER BY l.seq DESC LIMIT 1
    ) END AS lineage
  FROM commits AS c LEFT JOIN authors ON authors.number = c.author
  WHERE c.gen = ?1 AND c.seq > ?3 AND c.seq <= ?2 AND c.kind <> 1 ORDER BY c.seq LIMIT ?4`;

/** Of (?1 gen, ?2 after, ?3 limit): tags, by name. */
const TAGS = `
  SELECT name, "commit", createdAt FROM tags WHERE gen = ?1 AND name > ?2 ORDER BY name LIMIT ?3`;

/** Of (?1 gen, ?2 path, ?3 born, ?4 limit): rows of files in the order of their key, with bytes that are in rows. */
const FILES = `
  SELECT path, born, died, lower(hex(files.digest)) AS digest, files.size AS size, attributes, bytesAt, renewed, version,
    unmarked,
    files.kind AS kind, CASE contents.kind WHEN ${INLINE_KIND} THEN contents.body END AS bytes
  FROM files LEFT JOIN ${contentOf("files")}
  WHERE files.gen = ?1 AND (path, born) > (?2, ?3) ORDER BY path, born LIMIT ?4`;

interface CommitRow {
  readonly seq: number;
  readonly id: string;
  readonly createdAt: number;
  readonly births: number;
  readonly deaths: number;
  readonly origin: string | null;
  /** 2: it is kept no more. */
  readonly kind: number;
  readonly key: string | null;
  readonly annotation: string | null;
  readonly lineage: string | null;
}

interface FileRow {
  readonly path: string;
  readonly born: number;
  readonly died: number | null;
  readonly digest: string;
  readonly size: number;
  readonly attributes: string | null;
  readonly bytesAt: number | null;
  readonly renewed: number | null;
  /** 0: it is no version, and only tells readers that something was erased. */
  readonly version: number | null;
  readonly unmarked: number | null;
  readonly kind: number;
  readonly bytes: ArrayBuffer | null;
}

/** The next commits of an export, after one: those up to the commit that it began with. */
export function commitsPage(
  { sql }: Ledger,
  { at, after }: { at: Position; after: number },
): { commits: ArchivedCommit[]; next: number | null } {
  const commits: ArchivedCommit[] = [];
  let length = 0;
  let lineageBefore: string | null = null;
  for (const row of rowsOf<CommitRow>(sql, COMMITS, [at.gen, at.seq, after, MAX_ARCHIVE_COMMITS])) {
    const { seq, id, createdAt, births, deaths, origin, key, annotation, kind } = row;
    // As of the one before it: said once.
    const lineage = row.lineage === lineageBefore ? null : row.lineage;
    lineageBefore = row.lineage ?? lineageBefore;
    commits.push([seq, id, createdAt, births, deaths, origin, key, annotation, lineage, kind === 2 ? 1 : 0]);
    length += ROW_BYTES + (annotation?.length ?? 0) + (lineage?.length ?? 0);
    if (length > SLICE_BYTES) break;
  }
  const last = commits.at(-1)?.[0];
  return { commits, next: last === undefined || last === at.seq ? null : last };
}

export function tagsPage(
  { sql, commits }: Ledger,
  { at: { gen, seq: last }, after }: { at: Position; after: string },
): { tags: ArchivedTag[]; next: string | null } {
  const rows = sql.query<TagRow>(TAGS, [gen, after, MAX_ARCHIVE_TAGS]);
  const named = commits.numbersOf(
    gen,
    rows.map(({ commit }) => commit),
  );
  const tags = rows.flatMap(({ name, commit, createdAt }): ArchivedTag[] => {
    const { seq, kind } = named.get(commit) ?? {};
    return kind === "commit" && seq !== undefined && seq <= last ? [[name, commit, createdAt]] : [];
  });
  return { tags, next: rows.length < MAX_ARCHIVE_TAGS ? null : (rows.at(-1)?.name ?? null) };
}

/** The next files of an export, with the bytes of contents that are in rows. */
export class FilePage {
  readonly files: ArchivedFile[] = [];
  readonly contents = new Map<string, ArchivedBytes>();
  #bytes = 0;

  get hasRoom(): boolean {
    return this.files.length + SLICE_ROWS <= MAX_ARCHIVE_FILES && this.#bytes < ARCHIVE_PAGE_BYTES;
  }

  /** Adds a slice of rows; returns how far it went, null if that was all. */
  addSlice(
    { sql }: Ledger,
    { at, after }: { at: Position; after: { path: string; born: number } },
  ): { path: string; born: number } | null {
    let last = after;
    let rows = 0;
    let bytes = 0;
    for (const row of rowsOf<FileRow>(sql, FILES, [at.gen, after.path, after.born, SLICE_ROWS])) {
      // A row may bring much: the others are left for the next slice.
      if (bytes > SLICE_BYTES) break;
      rows++;
      last = { path: row.path, born: row.born };
      const isLeftOut = row.born > at.seq || row.version === NO_VERSION;
      bytes += isLeftOut ? ROW_BYTES : this.#add(row, at.seq);
    }
    this.#bytes += bytes;
    return rows < SLICE_ROWS && bytes <= SLICE_BYTES ? null : last;
  }

  /** Returns about how many bytes of text that is. */
  #add(row: FileRow, head: number): number {
    const { path, born, died: diedAt, digest, size, attributes, kind, bytes } = row;
    const { bytesAt, renewed, version, unmarked } = row;
    if (kind === PLACEHOLDER) {
      this.files.push([path, born, born, EMPTY_DIGEST, 0, null, { deletion: true }]);
      return ROW_BYTES + path.length;
    }
    const died = diedAt !== null && diedAt <= head ? diedAt : null;
    const more: MoreOfFile = {
      ...(bytesAt !== null && { bytesAt }),
      ...(renewed !== null && { renewed }),
      ...(version !== null && { version }),
      ...(unmarked !== null && died !== null && { unmarked: true }),
    };
    const isPlain = Object.keys(more).length === 0;
    this.files.push([path, born, died, digest, size, attributes, isPlain ? null : more]);
    const length = ROW_BYTES + path.length + (attributes?.length ?? 0);
    const name = contentName({ digest, size });
    if (bytes === null || kindOf(path) === "dir" || this.contents.has(name)) return length;
    this.contents.set(name, { digest, size, bytes: new Uint8Array(bytes) });
    return length + (4 * bytes.byteLength) / 3;
  }
}

/** Rows one by one, so that no more of them are in memory than are used. */
function rowsOf<Row>(sql: Ledger["sql"], text: string, values: readonly (string | number)[]): Iterable<Row> {
  // The caller names the columns of its own SELECT; the platform types every row as a record of values.
  return sql.execute(text, values) as unknown as Iterable<Row>;
}
