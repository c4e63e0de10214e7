import {
  belowFile,
  type CommitBefore,
  candidatesAbove,
  commitFault,
  FilesAbove,
  fileFault,
  type RowFault,
  tagFault,
} from "../../../../protocol/archive-rules.ts";
import type { ArchivedCommit, ArchivedFile, ArchivedTag } from "../../../../protocol/archives.ts";
import { contentName, parseContentName } from "../../../../protocol/content.ts";
import { comparePaths } from "../../../core/path-order.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { Import } from "../../archives/import-store.ts";
import type { ArchivedBytes, BadArchive, ImportedFile } from "../../contract/archives.ts";
import type { Lineage } from "../../contract/pipelines.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { attributesText } from "../../tree/attributes.ts";
import type { CommitRow } from "../../tree/commit-store.ts";
import { FILE_KINDS, kindOf, PLACEHOLDER } from "../../tree/file-store.ts";

/** A content of a page that the branch does not have. */
export interface LackedContent {
  readonly ok: false;
  readonly reason: "no-such-content";
  readonly path: string;
}

/** Of (?1 gen, ?2 JSON of numbers, ids, times, births, deaths, origins, numbers of authors, annotations and kinds). */
const COMMITS = `
  INSERT INTO commits (gen, seq, id, kind, createdAt, births, deaths, origin, author, annotation, elsewhere)
  SELECT ?1, value ->> 0, value ->> 1, value ->> 8, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    value ->> 7, 1
  FROM json_each(?2)`;

/**
 * Of (?1 JSON of generations and numbers): commits of generations that are over, and of imports that were given up, leave their ids to
 * those that come. Nobody can name them any more, and an id is of one commit. What they are called then comes after all ids.
 */
const LEAVE_IDS = `
  UPDATE commits SET id = '~' || id || '.' || gen, elsewhere = 1
  WHERE (gen, seq) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))`;

/** Of (?1 gen, ?2 JSON of names, ids and times). */
const TAGS = `
  INSERT INTO tags (gen, name, "commit", createdAt)
  SELECT ?1, value ->> 0, value ->> 1, value ->> 2 FROM json_each(?2)`;

/**
 * Of (?1 gen, ?2 JSON of paths, births, deaths, digests, sizes, attributes, when they were written again, versions, whether
 * their deaths are unmarked, kinds, and when their bytes were written).
 */
const FILES = `
  INSERT INTO files (gen, path, born, died, kind, digest, size, attributes, renewed, version, unmarked, bytesAt)
  SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 9, unhex(value ->> 3), value ->> 4, value ->> 5, value ->> 6,
    value ->> 7, value ->> 8, value ->> 10
  FROM json_each(?2)`;

/** Of (?1 gen, ?2 JSON of versions, paths and births). */
const REVIVED = `
  INSERT INTO revived (gen, version, path, born)
  SELECT ?1, value ->> 0, value ->> 1, value ->> 2 FROM json_each(?2)`;

/** Of (?1 gen, ?2 JSON of numbers): the first that is of no commit. */
const NO_COMMIT = `
  SELECT value AS seq FROM json_each(?2) AS asked
  WHERE NOT EXISTS (SELECT 1 FROM commits WHERE gen = ?1 AND seq = asked.value) LIMIT 1`;

/** Of (?1 gen, ?2 JSON of paths): those at which something is or was. */
const THERE = `
  SELECT value AS path FROM json_each(?2) AS asked
  WHERE EXISTS (SELECT 1 FROM files WHERE gen = ?1 AND path = asked.value)`;

/**
 * Of (?1 gen, ?2 JSON of files and of a life below each, its birth and its death): the first life during which the file is
 * there. Lives of one path do not overlap, so that only the last one that begins before that end can. A placeholder tells that
 * the file was there just before.
 */
const DURING = `
  SELECT asked.key AS place, above.path AS file, above.born AS born, above.died AS died
  FROM json_each(?2) AS asked
  CROSS JOIN files AS above ON above.gen = ?1 AND above.path = asked.value ->> 0 AND above.born = (
    SELECT max(born) FROM files WHERE gen = ?1 AND path = asked.value ->> 0 AND born < asked.value ->> 2)
  WHERE above.died IS NULL OR above.died > asked.value ->> 1
  LIMIT 1`;
/** Lives that one statement looks up. */
const LIVES = 1000;

/** What has come of it goes, slice by slice (work/importer.ts). */
export function giveUpImport(
  _: Tx,
  { imports, uploads }: Ledger,
  { row: { uid, upload }, now }: { row: Import; now: number },
): void {
  imports.giveUp(uid);
  uploads.close(upload, now, { leaves: true });
}

/** Writes commits that come after those that are there. Returns how far the import is then. */
export function importCommits(
  _: Tx,
  { sql, commits, lineages }: Ledger,
  { row, page, now }: { row: Import; page: readonly ArchivedCommit[]; now: number },
): Import | BadArchive {
  const { gen, head, horizon } = row;
  let before: CommitBefore | undefined = commits.at({ gen, seq: row.seq });
  const ids = new Set<string>();
  const leaving: [gen: number, seq: number][] = [];
  const origins = new Set<string>();
  for (const [index, commit] of page.entries()) {
    const [seq, id, createdAt, births, deaths, origin] = commit;
    const fault = commitFault(commit, { before, head, horizon, now });
    if (fault) return badRow(`commits[${index}]`, fault);
    const other = commits.byId(id);
    if (ids.has(id) || other?.gen === gen)
      return badPage(`commits[${index}][1]`, `is the id of another commit, too: '${id}'`);
    if (origin !== null && (origins.has(origin) || commits.byOrigin(gen, origin) !== undefined))
      return badPage(`commits[${index}][5]`, `is the job of another commit, too: '${origin}'`);
    ids.add(id);
    if (other) leaving.push([other.gen, other.seq]);
    if (origin !== null) origins.add(origin);
    before = { seq, id, createdAt, births, deaths };
  }
  if (leaving.length > 0) sql.execute(LEAVE_IDS, [JSON.stringify(leaving)]);
  const rows = page.map(([seq, id, createdAt, births, deaths, origin, key, annotation, , isGone]) => {
    const author = key === null ? null : commits.authorOf(key);
    return [seq, id, createdAt, births, deaths, origin, author, annotation, isGone === 1 ? 2 : 0];
  });
  sql.execute(COMMITS, [gen, JSON.stringify(rows)]);
  for (const [seq, , , , , , , , lineage] of page) {
    if (lineage !== null) lineages.record({ gen, seq }, JSON.parse(lineage) as Lineage);
  }
  return { ...row, seq: before?.seq ?? 0, commits: row.commits + page.length };
}

function isKeptAt(commit: CommitRow | undefined, gen: number): boolean {
  return commit?.gen === gen && commit.kind === "commit";
}

/** Writes tags that come after those that are there. */
export function importTags(
  _: Tx,
  { sql, commits }: Ledger,
  { row, page, now }: { row: Import; page: readonly ArchivedTag[]; now: number },
): Import | BadArchive {
  let before = row.tag;
  for (const [index, tag] of page.entries()) {
    const [name, commit] = tag;
    const fault = tagFault(tag, { before, now });
    if (fault) return badRow(`tags[${index}]`, fault);
    if (!isKeptAt(commits.byId(commit), row.gen))
      return badPage(`tags[${index}][1]`, `names a commit that is not there: '${commit}'`);
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
  { sql, contents, uploads }: Ledger,
  {
    row,
    files,
    bytes,
    now,
  }: { row: Import; files: readonly ImportedFile[]; bytes: readonly ArchivedBytes[]; now: number },
): Import | BadArchive | LackedContent {
  const { gen } = row;
  const fault = badFile(sql, { row, files, now }) ?? missingCommit(sql, { row, files });
  if (fault) return fault;
  const refs = new Map<string, number>();
  for (const file of files) {
    if (!hasContent(file)) continue;
    const name = contentName(file);
    refs.set(name, (refs.get(name) ?? 0) + 1);
  }
  // What no row of the page names would be kept by nothing.
  const brought = bytes.filter((content) => refs.has(contentName(content)));
  contents.bring(brought, gen);
  const lacking = contents.firstLacking([...refs.keys()], gen);
  if (lacking !== undefined) {
    const file = files.find((each) => hasContent(each) && contentName(each) === lacking);
    // The contents that came must not stay without anybody who keeps them.
    throw new UndoneError({ ok: false, reason: "no-such-content", path: file?.path ?? "" });
  }
  contents.keepMany([...refs], { gen, named: 1 });
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
    more?.deletion ? PLACEHOLDER : FILE_KINDS.indexOf(kindOf(path)),
    more?.bytesAt ?? null,
  ]);
  sql.execute(FILES, [gen, JSON.stringify(rows)]);
  const conflict = conflictFault(sql, { row, files });
  if (conflict) throw new UndoneError(conflict);
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

/** Undoes the transaction of a page, of which something was written when it turned out to be at fault. */
export class UndoneError extends Error {
  readonly fault: BadArchive | LackedContent;

  constructor(fault: BadArchive | LackedContent) {
    super(`the page of an import is refused: ${fault.reason}`);
    this.fault = fault;
  }
}

/** Whether a row keeps a content: directories and deletions have none. */
function hasContent({ path, more }: Pick<ImportedFile, "path" | "more">): boolean {
  return kindOf(path) === "file" && !more?.deletion;
}

function badFile(
  sql: Ledger["sql"],
  { row: { gen, head, place }, files, now }: { row: Import; files: readonly ImportedFile[]; now: number },
): BadArchive | undefined {
  const last = sql.first<{ died: number | null }>`
    SELECT died FROM files WHERE gen = ${gen} AND path = ${place.path} AND born = ${place.born}`;
  let before: Pick<ImportedFile, "path" | "born" | "died"> = { ...place, died: last?.died ?? null };
  for (const [index, file] of files.entries()) {
    const { path, born, died, digest, size, attributes, more } = file;
    const archived: ArchivedFile = [path, born, died, digest, size, null, more];
    const order = comparePaths(path, before.path);
    const fault = fileFault(archived, { before, order, head, now, attributes });
    if (fault) return badRow(`files[${index}]`, fault);
    before = file;
  }
  return undefined;
}

/**
 * What is below a file while that is there. The rows of the page are written already. Files above them came before in the order
 * of paths: of earlier pages those are looked up that the page's first path may be below.
 */
function conflictFault(
  sql: Ledger["sql"],
  { row: { gen, place }, files }: { row: Import; files: readonly ImportedFile[] },
): BadArchive | undefined {
  const candidates = JSON.stringify(candidatesAbove(place.path));
  const earlier = sql.query<{ path: string }>(THERE, [gen, candidates]);
  const above = new FilesAbove(earlier.map(({ path }) => path));
  let lives: (readonly [file: string, born: number, died: number, index: number])[] = [];
  const look = (): BadArchive | undefined => {
    const [found] = sql.query<Pick<ImportedFile, "born" | "died"> & { place: number; file: string }>(DURING, [
      gen,
      JSON.stringify(lives),
    ]);
    const [, , , index = 0] = (found && lives[found.place]) ?? [];
    lives = [];
    return found && badRow(`files[${index}]`, belowFile(files[index]?.path ?? "", found));
  };
  for (const [index, { path, born, died }] of files.entries()) {
    for (const file of above.next(path)) {
      lives.push([file, born, died ?? Number.MAX_SAFE_INTEGER, index]);
      if (lives.length < LIVES) continue;
      const fault = look();
      if (fault) return fault;
    }
  }
  return look();
}

/** Readers look up the commits that rows came and went with. */
function missingCommit(
  sql: Ledger["sql"],
  { row: { gen }, files }: { row: Import; files: readonly ImportedFile[] },
): BadArchive | undefined {
  const seqs = new Set(files.flatMap(({ born, died, more }) => [born, died ?? born, more?.version ?? born]));
  const [missing] = sql.query<{ seq: number }>(NO_COMMIT, [gen, JSON.stringify([...seqs])]);
  if (!missing) return undefined;
  const index = files.findIndex(
    ({ born, died, more }) => born === missing.seq || died === missing.seq || more?.version === missing.seq,
  );
  return badPage(`files[${index}]`, `came or went with a commit that is not there: ${missing.seq}`);
}

function badRow(row: string, { part, message }: RowFault): BadArchive {
  return badPage(`${row}${part}`, message);
}

function badPage(path: string, message: string): BadArchive {
  return { ok: false, reason: "bad-archive", path, message };
}

/** Rows of files that one slice goes through: some milliseconds. */
const ROWS = 5000;

/**
 * Of (?1 gen, ?2 seq, ?3 path, ?4 limit): rows of files behind a place, counted by the commit that they were born at. Placeholders
 * are no births.
 */
const BORN = `
  SELECT seq, count(*) AS seen, max(path) AS path, sum(kind < 2) AS rows, sum(kind < 2 AND died IS NULL) AS alive FROM (
    SELECT born AS seq, path, kind, died FROM files INDEXED BY by_born
    WHERE gen = ?1 AND (born, path) > (?2, ?3) ORDER BY born, path LIMIT ?4
  ) GROUP BY seq ORDER BY seq`;

/** The same, by the commit that they died at. */
const DIED = `
  SELECT seq, count(*) AS seen, max(path) AS path, count(*) AS rows, 0 AS alive FROM (
    SELECT died AS seq, path FROM files INDEXED BY by_died
    WHERE gen = ?1 AND died IS NOT NULL AND (died, path) > (?2, ?3) ORDER BY died, path LIMIT ?4
  ) GROUP BY seq ORDER BY seq`;

/** Of (?1 gen, ?2 JSON of numbers): what these commits say that was born and died at them. Commits that are gone leave none behind. */
const SAID = `
  SELECT seq, births - ifnull((
      SELECT births FROM commits AS before WHERE before.gen = ?1 AND before.seq < said.seq ORDER BY before.seq DESC LIMIT 1
    ), 0) AS births,
    deaths - ifnull((
      SELECT deaths FROM commits AS before WHERE before.gen = ?1 AND before.seq < said.seq ORDER BY before.seq DESC LIMIT 1
    ), 0) AS deaths
  FROM commits AS said WHERE gen = ?1 AND seq IN (SELECT value FROM json_each(?2))`;

interface Counted {
  readonly seq: number;
  readonly seen: number;
  readonly path: string;
  readonly rows: number;
  readonly alive: number;
}

interface Counting {
  readonly row: Pick<Import, "gen" | "head">;
  /** Lets others in between two slices. */
  readonly turn: () => Promise<unknown>;
}

/**
 * Why the rows of files that came are not those that the commits count. Readers choose by these counts how they find a tree, so
 * wrong ones would show another one, or have a call look through all rows. What was erased, or given back, is missing among the
 * rows: a commit has as many as it says at most, and of the newest all are there.
 */
export async function countsFault(ledger: Ledger, counting: Counting): Promise<BadArchive | undefined> {
  const born = await countBy(ledger, { ...counting, text: BORN, what: "births" });
  if (born.fault) return born.fault;
  const died = await countBy(ledger, { ...counting, text: DIED, what: "deaths" });
  if (died.fault) return died.fault;
  const { gen, head } = counting.row;
  const { births = 0, deaths = 0 } = ledger.commits.at({ gen, seq: head }) ?? {};
  if (births - deaths === born.alive) return undefined;
  return misfit(
    `say that ${births - deaths} files and empty directories are there at commit ${head}, and it has ${born.alive}`,
  );
}

async function countBy(
  { sql }: Ledger,
  { row: { gen }, turn, text, what }: Counting & { text: string; what: "births" | "deaths" },
): Promise<{ readonly fault: BadArchive | undefined; readonly alive: number }> {
  let alive = 0;
  /** Of the last commit that was counted, which the next slice may have more of. */
  let last = { seq: 0, rows: 0 };
  for (let at = { seq: 0, path: "" }, isThrough = false; !isThrough; ) {
    const counted = sql.query<Counted>(text, [gen, at.seq, at.path, ROWS]);
    const seqs = JSON.stringify(counted.map(({ seq }) => seq));
    const said = new Map(
      sql
        .query<{ seq: number; births: number; deaths: number }>(SAID, [gen, seqs])
        .map((commit) => [commit.seq, commit[what]]),
    );
    for (const { seq, rows, alive: living } of counted) {
      const together = seq === last.seq ? last.rows + rows : rows;
      last = { seq, rows: together };
      alive += living;
      if (together > (said.get(seq) ?? 0)) {
        const did = what === "births" ? "came" : "went";
        return { alive, fault: misfit(`say that ${said.get(seq)} ${did} with commit ${seq}, and more did`) };
      }
    }
    const end = counted.at(-1);
    isThrough = end === undefined || counted.reduce((sum, { seen }) => sum + seen, 0) < ROWS;
    if (end && !isThrough) {
      at = { seq: end.seq, path: end.path };
      await turn();
    }
  }
  return { fault: undefined, alive };
}

function misfit(message: string): BadArchive {
  return { ok: false, reason: "bad-archive", path: "commits", message };
}
