import type { ArchivedCommit, ArchivedTag } from "../../../../protocol/archives.ts";
import { contentName, parseContentName } from "../../../../protocol/content.ts";
import { pathFault } from "../../../../protocol/paths.ts";
import { comparePaths } from "../../../core/path-order.ts";
import type { Tx } from "../../../sqlite/transaction.ts";
import type { ArchivedBytes, ImportedFile, Lineage } from "../../contract.ts";
import { HOLLOW } from "../../erasures/erase.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { attributesText } from "../../tree/attributes.ts";
import type { CommitRow } from "../../tree/commit-store.ts";
import { EMPTY_DIGEST, FILE_KINDS, kindOf } from "../../tree/file-store.ts";
import { INLINE_KIND } from "../../tree/stored-body.ts";
import type { Import } from "./import-store.ts";

/** What is wrong with a page of an archive: nothing of it was written. */
export interface PageFault {
  readonly ok: false;
  readonly reason: "bad-archive";
  /** Which row, such as `files[3]`. */
  readonly path: string;
  readonly message: string;
}

/** A content of a page that the branch does not have. */
export interface LackedContent {
  readonly ok: false;
  readonly reason: "no-such-content";
  readonly path: string;
}

/** Of (?1 gen, ?2 JSON of numbers, ids, times, births, deaths, origins, numbers of authors, notes and kinds). */
const COMMITS = `
  INSERT INTO commits (gen, seq, id, kind, created_at, births, deaths, origin, author, note)
  SELECT ?1, value ->> 0, value ->> 1, value ->> 8, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    value ->> 7
  FROM json_each(?2)`;

/**
 * Of (?1 gen, ?2 JSON of ids): commits of generations that are over, and of imports that were given up, leave their ids to
 * those that come. Nobody can name them any more, and an id is of one commit. What they are called then comes after all ids.
 */
const LEAVE_IDS = `
  UPDATE commits SET id = '~' || id || '.' || gen
  WHERE id IN (SELECT value FROM json_each(?2)) AND gen <> ?1`;

/** Of (?1 gen, ?2 JSON of names, ids and times). */
const TAGS = `
  INSERT INTO tags (gen, name, commit_id, created_at)
  SELECT ?1, value ->> 0, value ->> 1, value ->> 2 FROM json_each(?2)`;

/** Of (?1 gen, ?2 JSON of digests, sizes and hex digits): contents that the page brings, kept by nothing yet. */
const CONTENTS = `
  INSERT INTO contents (digest, size, gen, refs, kind, body, named)
  SELECT unhex(value ->> 0), value ->> 1, ?1, 0, ${INLINE_KIND}, unhex(value ->> 2), 1 FROM json_each(?2) WHERE true
  ON CONFLICT DO NOTHING`;

/**
 * Of (?1 gen, ?2 JSON of paths, births, deaths, digests, sizes, attributes, when they were written again, versions, whether
 * their deaths are unmarked, and kinds).
 */
const FILES = `
  INSERT INTO files (gen, path, born, died, kind, digest, size, attributes, renewed, version, unmarked)
  SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 9, unhex(value ->> 3), value ->> 4, value ->> 5, value ->> 6,
    value ->> 7, value ->> 8
  FROM json_each(?2)`;

/** Of (?1 gen, ?2 JSON of versions, paths and births). */
const REVIVED = `
  INSERT INTO revived (gen, version, path, born)
  SELECT ?1, value ->> 0, value ->> 1, value ->> 2 FROM json_each(?2)`;

/** Of (?1 gen, ?2 JSON of names): the first of these contents that is not there. */
const LACKED = `
  SELECT value AS name FROM json_each(?2) AS asked WHERE NOT EXISTS (
    SELECT 1 FROM contents WHERE digest = unhex(substr(asked.value, 1, 64))
      AND size = CAST(substr(asked.value, 66) AS INTEGER) AND gen = ?1) LIMIT 1`;

/** Of (?1 gen, ?2 JSON of numbers): the first that is of no commit. */
const NO_COMMIT = `
  SELECT value AS seq FROM json_each(?2) AS asked
  WHERE NOT EXISTS (SELECT 1 FROM commits WHERE gen = ?1 AND seq = asked.value) LIMIT 1`;

type CommitStores = Pick<Ledger, "sql" | "commits" | "lineages">;

/** Writes commits that come after those that are there. Returns how far the import is then. */
export function importCommits(
  _: Tx,
  { sql, commits, lineages }: CommitStores,
  { row, page, latest }: { row: Import; page: readonly ArchivedCommit[]; latest: number },
): Import | PageFault {
  const { gen, head, floor } = row;
  let before = whereItStands(commits, row);
  const ids = new Set<string>();
  const origins = new Set<string>();
  for (const [index, commit] of page.entries()) {
    const [seq, id, createdAt, births, deaths, origin] = commit;
    const fault = orderFault(commit, { before, head, floor, latest }) ?? textFault(commit);
    const isTwice =
      ids.has(id) ||
      (origin !== null && (origins.has(origin) || commits.byOrigin(gen, origin) !== undefined));
    if (fault !== undefined || isTwice) {
      return badPage(`commits[${index}]`, fault ?? "has the id, or the job, of another one");
    }
    ids.add(id);
    if (origin !== null) origins.add(origin);
    before = { seq, createdAt, births, deaths };
  }
  const twice = [...ids].find((id) => commits.byId(id)?.gen === gen);
  if (twice) return { ok: false, reason: "bad-archive", path: "commits", message: `${twice} is there twice` };
  sql.execute(LEAVE_IDS, [gen, JSON.stringify([...ids])]);
  const rows = page.map(([seq, id, createdAt, births, deaths, origin, key, said, , isGone]) => {
    const author = key === null ? null : commits.authorOf(key);
    return [seq, id, createdAt, births, deaths, origin, author, said, isGone === 1 ? 2 : 0];
  });
  sql.execute(COMMITS, [gen, JSON.stringify(rows)]);
  for (const [seq, , , , , , , , lineage] of page) {
    if (lineage !== null) lineages.note({ gen, seq }, JSON.parse(lineage) as Lineage);
  }
  return { ...row, seq: before.seq, commits: row.commits + page.length };
}

function isKeptAt(commit: CommitRow | undefined, gen: number): boolean {
  return commit?.gen === gen && commit.kind === "commit";
}

/** The last commit that came. */
type Standing = Pick<CommitRow, "seq" | "createdAt" | "births" | "deaths">;

function whereItStands(commits: Ledger["commits"], { gen, seq }: Import): Standing {
  const { createdAt = 0, births = 0, deaths = 0 } = commits.at({ gen, seq }) ?? {};
  return { seq, createdAt, births, deaths };
}

function orderFault(
  [seq, , createdAt, births, deaths, , , , , isGone]: ArchivedCommit,
  { before, head, floor, latest }: { before: Standing; head: number; floor: number; latest: number },
): string | undefined {
  if (seq <= before.seq || seq > head) return `must come after ${before.seq} and not after ${head}`;
  // From the floor on all of them are kept: whoever looks for one of a time relies on that.
  if (seq > Math.max(floor, 1) && seq !== before.seq + 1) return `must be ${before.seq + 1}`;
  if (isGone === 1 && seq >= floor) return "is kept, and is said to be gone";
  if (createdAt < before.createdAt) return "has a time before that of the commit before it";
  if (createdAt > latest) return "has a time that is still to come";
  return births < before.births || deaths < before.deaths
    ? "has fewer rows than the commit before it"
    : undefined;
}

function textFault([, , , , , , , said, lineage]: ArchivedCommit): string | undefined {
  return isObject(said) && isObject(lineage) ? undefined : "has a note or a lineage that can't be read";
}

/** Writes tags that come after those that are there. */
export function importTags(
  _: Tx,
  { sql, commits }: Pick<Ledger, "sql" | "commits">,
  { row, page }: { row: Import; page: readonly ArchivedTag[] },
): Import | PageFault {
  let before = row.tag;
  for (const [index, [name, commit]] of page.entries()) {
    const fault =
      name <= before
        ? `must come after '${before}'`
        : !isKeptAt(commits.byId(commit), row.gen)
          ? "names a commit that is not there"
          : undefined;
    if (fault !== undefined) return badPage(`tags[${index}]`, fault);
    before = name;
  }
  sql.execute(TAGS, [row.gen, JSON.stringify(page)]);
  return { ...row, tag: before, tags: row.tags + page.length };
}

/**
 * Writes rows of files that come after those that are there, and the small contents that come with them. The upload lets go
 * of the contents that rows now keep, so that it never holds more than those of a page.
 */
export function importFiles(
  _: Tx,
  { sql, contents, uploads }: Pick<Ledger, "sql" | "contents" | "uploads">,
  { row, files, bytes }: { row: Import; files: readonly ImportedFile[]; bytes: readonly ArchivedBytes[] },
): Import | PageFault | LackedContent {
  const { gen } = row;
  const fault = fileFault(sql, { row, files }) ?? commitFault(sql, { row, files });
  if (fault) return fault;
  const refs = new Map<string, number>();
  for (const file of files) {
    if (!hasContent(file)) continue;
    const name = contentName(file);
    refs.set(name, (refs.get(name) ?? 0) + 1);
  }
  // What no row of the page names would be kept by nothing.
  const brought = bytes.filter((content) => refs.has(contentName(content)));
  sql.execute(CONTENTS, [
    gen,
    JSON.stringify(brought.map(({ digest, size, bytes }) => [digest, size, hexOf(bytes)])),
  ]);
  const [lacked] = sql.query<{ name: string }>(LACKED, [gen, JSON.stringify([...refs.keys()])]);
  if (lacked) {
    const file = files.find((each) => hasContent(each) && contentName(each) === lacked.name);
    // The contents that came must not stay without anybody who keeps them: the transaction is undone.
    throw new LackedContentError(file?.path ?? "");
  }
  contents.keepMany([...refs], gen);
  const rows = files.map(({ path, born, died, digest, size, attributes, more }) => [
    path,
    born,
    died,
    more?.deletion ? "" : digest,
    size,
    attributesText(attributes),
    more?.renewed ?? null,
    more?.version ?? null,
    more?.unmarked ? 1 : null,
    more?.deletion ? HOLLOW : FILE_KINDS.indexOf(kindOf(path)),
  ]);
  sql.execute(FILES, [gen, JSON.stringify(rows)]);
  const revived = files.flatMap(({ path, born, more }) =>
    more?.version ? [[more.version, path, born]] : [],
  );
  if (revived.length > 0) sql.execute(REVIVED, [gen, JSON.stringify(revived)]);
  for (const name of refs.keys()) {
    const content = parseContentName(name);
    if (content) uploads.letGo({ id: row.upload, gen }, content);
  }
  const last = files.at(-1);
  const place = last ? { path: last.path, born: last.born } : row.place;
  return { ...row, place, files: row.files + files.length };
}

/** Undoes a transaction that found out too late that a content is not there. */
export class LackedContentError extends Error {
  readonly path: string;

  constructor(path: string) {
    super(`the content of '${path}' is not there`);
    this.path = path;
  }
}

/** Whether a row keeps a content: directories and deletions have none. */
function hasContent({ path, more }: Pick<ImportedFile, "path" | "more">): boolean {
  return kindOf(path) === "file" && !more?.deletion;
}

type PlacedRow = Pick<ImportedFile, "path" | "born" | "died">;

function fileFault(
  sql: Ledger["sql"],
  { row: { gen, head, place }, files }: { row: Import; files: readonly ImportedFile[] },
): PageFault | undefined {
  const last = sql.first<{ died: number | null }>`
    SELECT died FROM files WHERE gen = ${gen} AND path = ${place.path} AND born = ${place.born}`;
  let before: PlacedRow = { ...place, died: last?.died ?? null };
  for (const [index, file] of files.entries()) {
    const fault = placeFault(file, before) ?? lifeFault(file, head) ?? contentFault(file);
    if (fault !== undefined) return badPage(`files[${index}]`, `'${file.path}' ${fault}`);
    const parts = partsFault(file);
    if (parts !== undefined) return badPage(`files[${index}][5].parts.sizes`, parts);
    before = file;
  }
  return undefined;
}

function placeFault({ path, born }: PlacedRow, before: PlacedRow): string | undefined {
  const order = comparePaths(path, before.path);
  if (order < 0 || (order === 0 && born <= before.born)) return `must come after '${before.path}'`;
  const isOver = order > 0 || (before.died !== null && before.died <= born);
  return isOver ? undefined : "is written while something else is there";
}

function lifeFault({ born, died, more }: ImportedFile, head: number): string | undefined {
  const isOver = died !== null && died <= head && (more?.deletion ? died === born : died > born);
  const isThere = died === null && born <= head && !more?.deletion;
  if (!isOver && !isThere) return "comes or goes with no commit";
  if (more?.version !== undefined && (more.deletion || more.version >= born))
    return "has the name of a version that is not before it";
  return more?.unmarked && (died === null || more.deletion) ? "has an end that is none" : undefined;
}

function contentFault({ path, digest, size, more }: ImportedFile): string | undefined {
  const isFit = hasContent({ path, more }) || (digest === EMPTY_DIGEST && size === 0);
  return pathFault(path) === undefined && isFit ? undefined : "can't be stored";
}

/** A read of a part takes its place from these sizes: wrong ones would end behind the file, or leave some of it out. */
function partsFault({ path, size, attributes: { parts } }: ImportedFile): string | undefined {
  if (!parts) return undefined;
  const together = parts.sizes.reduce((sum, [each, count]) => sum + BigInt(each) * BigInt(count), 0n);
  if (together === BigInt(size)) return undefined;
  return `must add up to the file's size: the parts of '${path}' have ${together} bytes together, and the file has ${size}. The archive was altered or is damaged: export the repo again, or import an archive that is as it was written.`;
}

/** Readers look up the commits that rows came and went with. */
function commitFault(
  sql: Ledger["sql"],
  { row: { gen }, files }: { row: Import; files: readonly ImportedFile[] },
): PageFault | undefined {
  const seqs = new Set(files.flatMap(({ born, died, more }) => [born, died ?? born, more?.version ?? born]));
  const [missing] = sql.query<{ seq: number }>(NO_COMMIT, [gen, JSON.stringify([...seqs])]);
  if (!missing) return undefined;
  return badPage("files", `commit ${missing.seq} is not there`);
}

/** Whether a text is absent, or the JSON of an object. */
function isObject(text: string | null): boolean {
  if (text === null) return true;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

function badPage(path: string, message: string): PageFault {
  return { ok: false, reason: "bad-archive", path, message };
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** For a page's worth of bytes, of which there are too many to make a list of. */
function hexOf(bytes: Uint8Array): string {
  let hex = "";
  for (const byte of bytes) hex += HEX[byte];
  return hex;
}
