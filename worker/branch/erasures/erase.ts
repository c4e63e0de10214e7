import { type ContentId, contentName } from "../../../protocol/content.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { Rowids } from "../contents/content-store.ts";
import type { Moment } from "../context.ts";
import type { AnswerOf, RequestOf } from "../contract/answers.ts";
import type { ErasedVersion, ErasureCalls, FileSpans, HeldByForks, Span } from "../contract/erasures.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { hearersOf } from "../outbox/erasure-store.ts";
import { forgetCommits } from "../retention/mark.ts";
import { protectionRefusal } from "../settings/settings.ts";
import { type BornAgain, NO_VERSION, PLACEHOLDER } from "../tree/file-store.ts";
import type { GenerationRow, Live } from "../tree/generation-store.ts";
import { moveHead } from "../write/commit.ts";
import { blockedAtHead, withoutConflicts } from "./in-the-way.ts";
import { readTo } from "./news.ts";

/*
 * Erasing versions of paths, for good. To S3 a version of a path is what one commit wrote there, or its deletion, and it is
 * named by that commit. In the rows:
 *
 *  - What a commit wrote is the row that was born at it. If the version became current again, because a later one was erased,
 *    there is one row more, which was born later and says in `version` which commit it is of. All of them go.
 *  - A deletion is the death of a row that nothing replaced. Once the version that came at a death is erased, that death is
 *    no version either: the row says so (`unmarked`). If the row itself is erased and its deletion is not, the deletion stays
 *    as a *placeholder*, a row that was born and died at once, so that no commit shows it.
 *
 * If what is erased was the newest version of its path, HEAD goes back to the version before, or to nothing. That is a commit,
 * and the row that is born keeps the name of its version. If something is in its way by now (a file where it needs a directory),
 * nothing comes back: the version stays in the history.
 *
 * The branch says which forks had the version in the commit that they were made from, and goes on only if the caller has
 * asked them: worker/erase.ts erases their copies first. Contents that nothing keeps any more go afterwards, in slices.
 *
 * Subscribers that have read a commit which had the path must hear that it is gone, although the row that told of its death is
 * not there any more. So until they have read so far, each birth and death of an erased row stays as a placeholder that is no
 * version (`version` 0): their feed tells of it as of a deletion (news.ts).
 *
 * All of one request is one transaction. Everybody else waits for it, so each statement takes all versions of the request: a
 * thousand statements would take longer than the rows that they write. The gate is closed during a large commit, so that no
 * row is half written.
 */

/** Of (?1 gen, ?2 paths at commits): the rows of these versions. */
const ROWS = `
  SELECT asked.value AS version, f.path AS path, f.born AS born, f.died AS died, f.kind AS kind,
    lower(hex(f.digest)) AS digest, f.size AS size
  FROM json_each(?2) AS asked
  CROSS JOIN files AS f ON f.gen = ?1 AND f.path = asked.key AND f.born = asked.value
  WHERE f.version IS NULL AND f.kind < ${PLACEHOLDER}
  UNION ALL
  SELECT asked.value, f.path, f.born, f.died, f.kind, lower(hex(f.digest)), f.size FROM json_each(?2) AS asked
  CROSS JOIN revived ON revived.gen = ?1 AND revived.version = asked.value AND revived.path = asked.key
  CROSS JOIN files AS f ON f.gen = ?1 AND f.path = revived.path AND f.born = revived.born
  WHERE f.kind < ${PLACEHOLDER}`;

/** Of the same: the rows that are at these paths at these commits. */
const THERE = `
  SELECT f.path AS path, f.born AS born, f.died AS died FROM json_each(?2) AS asked
  CROSS JOIN files AS f ON f.gen = ?1 AND f.path = asked.key AND f.born = (
    SELECT max(born) FROM files WHERE gen = ?1 AND path = asked.key AND born <= asked.value)
  WHERE f.died IS NULL OR f.died > asked.value`;

/** Of the same: the deletions that these versions are, each by the row that died or by its placeholder. */
const DELETIONS = `
  SELECT f.path AS path, f.born AS born, f.died AS died, f.kind = ${PLACEHOLDER} AS isPlaceholder
  FROM json_each(?2) AS asked
  CROSS JOIN files AS f INDEXED BY by_died ON f.gen = ?1 AND f.died = asked.value AND f.path = asked.key
  WHERE f.died IS NOT NULL AND f.unmarked IS NULL AND f.version IS NOT ${NO_VERSION}
    AND NOT EXISTS (
      SELECT 1 FROM files AS next
      WHERE next.gen = ?1 AND next.path = f.path AND next.born = f.died AND next.kind < ${PLACEHOLDER}
    )`;

/** Of (?1 gen, ?2 paths at commits): what died there is not to be taken for deleted. Found by what is asked, as the dead are many. */
const UNMARK = `
  UPDATE files SET unmarked = 1 WHERE gen = ?1 AND (path, born) IN (
    SELECT f.path, f.born FROM json_each(?2) AS asked
    CROSS JOIN files AS f INDEXED BY by_died
      ON f.gen = ?1 AND f.died IS NOT NULL AND f.died = asked.value AND f.path = asked.key
    WHERE f.kind < ${PLACEHOLDER})`;

/** Of (?1 gen, ?2 paths at births): the deletion of a row that is about to go stays as a placeholder. */
const KEEP_DELETIONS = `
  INSERT INTO files (gen, path, born, died, kind, digest, size, attributes)
  SELECT ?1, f.path, f.died, f.died, ${PLACEHOLDER}, x'', 0, NULL FROM json_each(?2) AS gone
  CROSS JOIN files AS f ON f.gen = ?1 AND f.path = gone.key AND f.born = gone.value
  WHERE f.died IS NOT NULL AND f.unmarked IS NULL
  ON CONFLICT DO NOTHING`;

/** Of (?1 gen, ?2 paths at commits): something happened there, which is no version. */
const LEAVE_PLACEHOLDERS = `
  INSERT INTO files (gen, path, born, died, kind, digest, size, attributes, version)
  SELECT ?1, key, value, value, ${PLACEHOLDER}, x'', 0, NULL, ${NO_VERSION} FROM json_each(?2)
  WHERE true ON CONFLICT DO NOTHING`;

/** Of (?1 gen, ?2 paths at births). */
const FORGET = `
  DELETE FROM files WHERE gen = ?1 AND (path, born) IN (SELECT key, value FROM json_each(?2))`;

/** Of (?1 gen, ?2 paths at commits): nothing was current again under these versions. */
const FORGET_REVIVED = `
  DELETE FROM revived WHERE gen = ?1 AND (path, version) IN (SELECT key, value FROM json_each(?2))`;

/**
 * Of (?1 gen, ?2 JSON of paths): the newest row of each that is a version, if what it wrote may be current again: not if that
 * is current, or if the newest version is a deletion.
 */
const NEWEST = `
  SELECT f.path AS path, f.born AS born, ifnull(f.version, f.born) AS version, f.kind AS kind,
    lower(hex(f.digest)) AS digest, f.size AS size
  FROM json_each(?2) AS asked
  CROSS JOIN files AS f ON f.gen = ?1 AND f.path = asked.value AND f.born = (
    SELECT born FROM files AS other
    WHERE other.gen = ?1 AND other.path = asked.value AND other.version IS NOT ${NO_VERSION}
    ORDER BY born DESC LIMIT 1
  )
  WHERE f.kind < ${PLACEHOLDER} AND f.died IS NOT NULL AND f.unmarked IS NOT NULL`;

/** Dead contents that the step removes itself. The alarm removes the others: they need not go with the answer. */
const REMOVED_CONTENTS = 20;

/** A row of files. A file keeps its content, an empty directory keeps nothing. */
interface Keeping extends ContentId {
  readonly kind: 0 | 1;
}

interface GoneRow extends Keeping {
  readonly path: string;
  /** The commit that its version is named by. */
  readonly version: number;
  readonly born: number;
  readonly died: number | null;
}

interface DeletionRow {
  readonly path: string;
  readonly born: number;
  readonly died: number;
  readonly isPlaceholder: 0 | 1;
}

type NewestRow = BornAgain & Keeping;

/** A version that was asked for. */
export interface Target extends PathAt {
  readonly id: string;
}

export type EraseStores = Pick<
  Ledger,
  | "sql"
  | "generations"
  | "commits"
  | "clock"
  | "files"
  | "contents"
  | "reads"
  | "roots"
  | "exports"
  | "forkHolds"
  | "erasures"
  | "erasedContents"
  | "subscribers"
  | "forks"
  | "horizons"
  | "claim"
  | "settings"
  | "outbox"
  | "imports"
  | "oweRewrite"
>;

/**
 * Erases the versions that their paths have, or says why none of them is. What is no version changes nothing. `rowids`: of
 * contents that they have, as far as they are known (rowids.ts).
 */
export function eraseVersions(
  tx: Tx,
  ledger: EraseStores,
  { request, rowids, moment }: { request: RequestOf<ErasureCalls["erase"]>; rowids: Rowids; moment: Moment },
): AnswerOf<ErasureCalls["erase"]> {
  const found = generationOf(ledger, request.uid);
  if (!found) return { ok: false, reason: "no-such-branch" };
  const { live } = found;
  const refusal = live && protectionRefusal(tx, ledger, { gen: live.gen, key: request.annotation?.key });
  if (refusal) return refusal;
  const { gen } = found.generation;
  const named = targetsOf(ledger, { gen, head: ledger.generations.headOf(found.generation).seq, request });
  const rows = ledger.sql.query<GoneRow>(ROWS, [gen, pathsAt(named)]);
  const targets = request.withDeletions ? withDeletions(ledger, { gen, targets: named, rows }) : named;
  const deletions = deletionsOf(ledger, { gen, targets, rows });
  const modifiedAt = ledger.generations.headOf(found.generation).modifiedAt;
  const nothing = { ok: true, commit: null, modifiedAt, erased: [], readers: [] } as const;
  if (rows.length === 0 && deletions.length === 0) return nothing;
  const held = heldByForks(ledger, { gen, rows, request });
  if (held) return held;
  const read = readTo(ledger, gen);
  eraseDeletions(tx, ledger, { gen, deletions, read });
  eraseRows(tx, ledger, { gen, rows, read });
  // What they have read has what is erased, and what they read next has not.
  ledger.exports.endAll(gen);
  const wasCurrent = rows.filter(({ died }) => died === null);
  const commit = live
    ? goBack(tx, ledger, { live, wasCurrent, deletions, read, moment, annotation: request.annotation })
    : { commit: null, modifiedAt, seq: null, back: [] };
  holdOnLoan(tx, ledger, { gen, rows, request, now: moment.now });
  const kept = new Set([...commit.back, ...rows].filter(keeps).map(contentName));
  const contents = ledger.contents.rowids(kept, { gen, known: rowids });
  const dead = ledger.contents.changeRefs(refsOf({ born: commit.back, gone: rows, contents }));
  // Of commits that are kept no more, only what versions name is left.
  const ends = rows.flatMap(({ born, died }) => [born, died ?? born]);
  forgetCommits(tx, ledger, { gen, seqs: new Set([...targets.map(({ seq }) => seq), ...ends]) });
  const erased = shown({ gen, targets, rows, deletions, contents, dead, head: commit.seq });
  tellReaders(tx, ledger, { gen, rows, head: commit.seq, now: moment.now });
  tellNodes(tx, ledger, { rows, now: moment.now });
  ledger.contents.removeReleased(moment.now, REMOVED_CONTENTS);
  // Where the making of the branch was is a name, too.
  ledger.forks.forgetPlace(found.generation.uid);
  ledger.imports.forgetPlace(found.generation.uid);
  ledger.oweRewrite(tx, moment.now);
  const readers = ledger.subscribers.all();
  return { ok: true, commit: commit.commit, modifiedAt: commit.modifiedAt, erased, readers };
}

/** The commits of the live generation that have what these commits have at these paths. */
export function spansOfFiles(
  ledger: Pick<Ledger, "sql" | "generations" | "commits">,
  request: Pick<RequestOf<ErasureCalls["erase"]>, "versions">,
): FileSpans[] {
  const live = ledger.generations.live();
  if (!live) return [];
  const { gen } = live;
  const targets = targetsOf(ledger, { gen, head: live.head.seq, request });
  return ledger.sql
    .query<Pick<GoneRow, "path" | "born" | "died">>(THERE, [gen, pathsAt(targets)])
    .map(({ path, born, died }) => ({
      ...{ path, generation: gen },
      spans: [{ born, died: died ?? Number.MAX_SAFE_INTEGER }],
    }));
}

/** Whether a generation has any version of a path, deletions included. */
export function hasVersion({ sql }: Pick<Ledger, "sql">, gen: number, path: string): boolean {
  return sql.has`
    SELECT 1 FROM files WHERE gen = ${gen} AND path = ${path} AND version IS NOT ${NO_VERSION} LIMIT 1`;
}

/** The life of the branch that is asked for, and the same if it is the present one. */
export function generationOf(
  { generations }: Pick<Ledger, "generations">,
  uid: string | undefined,
): { generation: GenerationRow; live: Live | undefined } | undefined {
  const live = generations.live() ?? undefined;
  if (uid === undefined || uid === live?.uid) return live && { generation: live, live };
  const generation = generations.byUid(uid);
  return generation && { generation, live: undefined };
}

/** The versions that a request names by commits of the branch, each once. */
export function targetsOf(
  { commits }: Pick<Ledger, "commits">,
  {
    gen,
    head,
    request,
  }: { gen: number; head: number; request: Pick<RequestOf<ErasureCalls["erase"]>, "versions"> },
): Target[] {
  const named = commits.numbersOf(
    gen,
    request.versions.map(({ version }) => version),
  );
  const distinct = new Map<string, Target>();
  for (const { path, version: id } of request.versions) {
    const { seq = 0, kind = "deletion" } = named.get(id) ?? {};
    if (kind !== "deletion" && seq <= head) distinct.set(nameAt(path, seq), { path, id, seq });
  }
  return [...distinct.values()];
}

/** Besides what is named, the deletions of the rows that go. */
function withDeletions(
  { sql, commits }: Pick<Ledger, "sql" | "commits">,
  { gen, targets, rows }: { gen: number; targets: readonly Target[]; rows: readonly GoneRow[] },
): Target[] {
  const deaths = rows.flatMap(({ path, died }) => (died === null ? [] : [{ path, seq: died }]));
  const named = new Set(targets.map(({ path, seq }) => nameAt(path, seq)));
  const others = sql
    .query<DeletionRow>(DELETIONS, [gen, pathsAt(deaths)])
    .filter(({ path, died }) => !named.has(nameAt(path, died)));
  const seqs = others.map(({ died }) => died);
  const stampOf = commits.stamps(gen, seqs);
  return [...targets, ...others.map(({ path, died }) => ({ path, id: stampOf(died).id, seq: died }))];
}

/** A commit deleted a path or wrote it: what wrote is no deletion. */
function deletionsOf(
  { sql }: Pick<Ledger, "sql">,
  { gen, targets, rows }: { gen: number; targets: readonly Target[]; rows: readonly GoneRow[] },
): DeletionRow[] {
  const written = new Set(rows.map(({ path, version }) => nameAt(path, version)));
  const others = targets.filter(({ path, seq }) => !written.has(nameAt(path, seq)));
  return others.length === 0 ? [] : sql.query<DeletionRow>(DELETIONS, [gen, pathsAt(others)]);
}

export interface PathAt {
  readonly path: string;
  readonly seq: number;
}

/**
 * Paths at commits as a parameter: JSON of one object, in which a path may be a name several times. SQLite has each pair at
 * once that way, and would read a list of pairs twice.
 */
export function pathsAt(pairs: readonly PathAt[]): string {
  return `{${pairs.map(({ path, seq }) => `${JSON.stringify(path)}:${seq}`).join()}}`;
}

function nameAt(path: string, seq: number): string {
  return `${seq}/${path}`;
}

/**
 * The forks whose first commit had one of the rows, but for those that the caller has asked, and that gave back nothing since:
 * what a fork answered that it has, it may have given back by now, and a hold would stay for nothing.
 */
function heldByForks(
  { roots }: Pick<Ledger, "roots">,
  {
    gen,
    rows,
    request,
  }: { gen: number; rows: readonly GoneRow[]; request: RequestOf<ErasureCalls["erase"]> },
): HeldByForks | undefined {
  const cleared = new Map(request.forks?.map(({ fork, number = Infinity }) => [fork, number]));
  const forks = roots.standing(gen).flatMap(({ fork, bucket, seq, given }) => {
    const isCleared = (cleared.get(fork) ?? -1) >= given;
    const had = isCleared ? [] : rows.filter((row) => isAt(row, seq));
    const paths = [...new Set(had.map(({ path }) => path))];
    const contents = had.map(({ digest, size }) => ({ digest, size }));
    return had.length === 0 ? [] : [{ fork, bucket, paths, contents, given }];
  });
  return forks.length === 0 ? undefined : { ok: false, reason: "held-by-forks", forks };
}

function isAt({ born, died }: Pick<GoneRow, "born" | "died">, seq: number): boolean {
  return born <= seq && (died === null || died > seq);
}

function eraseDeletions(
  _: Tx,
  { sql }: Pick<Ledger, "sql">,
  { gen, deletions, read }: { gen: number; deletions: readonly DeletionRow[]; read: number },
): void {
  if (deletions.length === 0) return;
  sql.execute(UNMARK, [gen, pathsAt(deletions.map(({ path, died }) => ({ path, seq: died })))]);
  const placeholders = deletions.flatMap(({ isPlaceholder, path, born }) =>
    isPlaceholder ? [{ path, seq: born }] : [],
  );
  if (placeholders.length === 0) return;
  sql.execute(FORGET, [gen, pathsAt(placeholders)]);
  // What died there tells readers of it, unless it was erased.
  tellFeed(sql, { gen, at: placeholders, read });
}

function eraseRows(
  _: Tx,
  { sql, reads }: Pick<Ledger, "sql" | "reads">,
  { gen, rows, read }: { gen: number; rows: readonly GoneRow[]; read: number },
): void {
  if (rows.length === 0) return;
  const births = rows.map(({ path, born }) => ({ path, seq: born }));
  const dead = rows.flatMap(({ path, born, died }) => (died === null ? [] : [{ path, born, died }]));
  const again = rows.flatMap(({ path, version, born }) => (version === born ? [] : [{ path, seq: version }]));
  for (const { path } of rows) reads.drop(path);
  // First what came before: a row that goes too, and was replaced, leaves no deletion behind.
  sql.execute(UNMARK, [gen, pathsAt(births)]);
  if (dead.length > 0) {
    sql.execute(KEEP_DELETIONS, [gen, pathsAt(dead.map(({ path, born }) => ({ path, seq: born })))]);
  }
  sql.execute(FORGET, [gen, pathsAt(births)]);
  if (again.length > 0) sql.execute(FORGET_REVIVED, [gen, pathsAt(again)]);
  const deaths = dead.map(({ path, died }) => ({ path, seq: died }));
  tellFeed(sql, { gen, at: [...births, ...deaths], read });
}

/** Leaves word for the feed that something happened to these paths at these commits, if anybody is yet to read so far. */
function tellFeed(
  sql: Ledger["sql"],
  { gen, at, read }: { gen: number; at: readonly PathAt[]; read: number },
): void {
  const unread = at.filter(({ seq }) => seq > read);
  if (unread.length > 0) sql.execute(LEAVE_PLACEHOLDERS, [gen, pathsAt(unread)]);
}

interface GoingBack {
  readonly live: Live;
  readonly wasCurrent: readonly GoneRow[];
  readonly deletions: readonly DeletionRow[];
  /** The commit that all subscribers have read to. */
  readonly read: number;
  readonly moment: Moment;
  readonly annotation: RequestOf<ErasureCalls["erase"]>["annotation"];
}

interface WentBack {
  readonly commit: string | null;
  readonly modifiedAt: number;
  /** Of that commit. */
  readonly seq: number | null;
  /** The versions that are current again. Nothing counts yet that they keep their contents. */
  readonly back: readonly NewestRow[];
}

/** Where the newest version of a path was erased, HEAD goes back to the one before, in one commit. */
function goBack(
  tx: Tx,
  ledger: EraseStores,
  { live, wasCurrent, deletions, read, moment, annotation }: GoingBack,
): WentBack {
  const { gen } = live;
  const seq = live.head.seq + 1;
  // Nothing else at HEAD can be in the way of what was there just now.
  const there = new Set(wasCurrent.map(({ path }) => path));
  const paths = new Set([...there, ...deletions.map(({ path }) => path)]);
  const newest = ledger.sql.query<NewestRow>(NEWEST, [gen, JSON.stringify([...paths].sort())]);
  const coming = newest.flatMap(({ path }) => (there.has(path) ? [] : [path]));
  const blocked = blockedAtHead(tx, ledger, { gen, paths: coming });
  const back = withoutConflicts(newest.filter(({ path }) => !blocked.has(path)));
  ledger.files.bearAgain(back, { gen, seq });
  const deaths = wasCurrent.length;
  if (back.length + deaths === 0) return { commit: null, modifiedAt: live.head.modifiedAt, seq: null, back };
  const returned = new Set(back.map(({ path }) => path));
  const gone = wasCurrent.filter(({ path }) => !returned.has(path)).map(({ path }) => ({ path, seq }));
  tellFeed(ledger.sql, { gen, at: gone, read });
  const { commit, modifiedAt } = moveHead(tx, ledger, {
    live,
    births: back.length,
    deaths,
    moment,
    annotation,
  });
  return { commit, modifiedAt, seq, back };
}

/** What forks still have of bytes that they have on loan from this branch stays, until the fork is gone. */
function holdOnLoan(
  _: Tx,
  { forkHolds, roots }: Pick<Ledger, "forkHolds" | "roots">,
  {
    gen,
    rows,
    request,
    now,
  }: { gen: number; rows: readonly GoneRow[]; request: RequestOf<ErasureCalls["erase"]>; now: number },
): void {
  const erased = new Set(rows.map(contentName));
  for (const { fork, has, number = Infinity } of request.forks ?? []) {
    const contents = has.filter((content) => erased.has(contentName(content)));
    const root = roots.find(fork);
    // The fork may be gone since it answered, or have given back what it had: a hold would stay for nothing.
    if (!root || root.goneAt !== null || number < root.given) continue;
    if (contents.length > 0) forkHolds.add(fork, { gen, contents, now });
  }
}

function keeps({ kind }: Keeping): boolean {
  return kind === 0;
}

/** How many more rows keep each content, or less, by its rowid. */
function refsOf({
  born,
  gone,
  contents,
}: Readonly<Record<"born" | "gone", readonly Keeping[]>> & { readonly contents: Rowids }): ReadonlyMap<
  number,
  number
> {
  const refs = new Map<number, number>();
  const add = (rows: readonly Keeping[], by: 1 | -1) => {
    for (const row of rows) {
      const content = keeps(row) ? contents.get(contentName(row)) : undefined;
      if (content !== undefined) refs.set(content, (refs.get(content) ?? 0) + by);
    }
  };
  add(born, 1);
  add(gone, -1);
  return refs;
}

interface Shown {
  readonly gen: number;
  readonly targets: readonly Target[];
  readonly rows: readonly GoneRow[];
  readonly deletions: readonly DeletionRow[];
  readonly contents: Rowids;
  /** Contents that nothing keeps any more, by their rowids. */
  readonly dead: ReadonlySet<number>;
  /** The commit that HEAD went back with. */
  readonly head: number | null;
}

function shown({ gen, targets, rows, deletions, contents, dead, head }: Shown): ErasedVersion[] {
  const written = new Map<string, { readonly row: GoneRow; readonly spans: Span[] }>();
  for (const row of rows) {
    const { path, version, born, died } = row;
    const name = nameAt(path, version);
    const span = { born, died: died ?? head ?? Number.MAX_SAFE_INTEGER };
    written.set(name, { row, spans: [...(written.get(name)?.spans ?? []), span] });
  }
  const deleted = new Set(deletions.map(({ path, died }) => nameAt(path, died)));
  return targets.flatMap(({ path, id, seq }): ErasedVersion[] => {
    const name = nameAt(path, seq);
    const version = written.get(name);
    if (version) {
      const { row, spans } = version;
      const { digest, size } = row;
      const content = keeps(row) ? contents.get(contentName(row)) : undefined;
      const stays = content !== undefined && !dead.has(content);
      return [{ kind: "version", path, version: id, digest, size, stays, generation: gen, spans }];
    }
    return deleted.has(name) ? [{ kind: "deletion", path, version: id }] : [];
  });
}

/**
 * Pipelines that read the branch, and the one whose output it is, are to look for jobs and results that have what was erased.
 * A commit wakes them by itself.
 */
function tellReaders(
  _: Tx,
  { erasures, subscribers, claim, outbox }: Pick<Ledger, "erasures" | "subscribers" | "claim" | "outbox">,
  { gen, rows, head, now }: { gen: number; rows: readonly GoneRow[]; head: number | null; now: number },
): void {
  const heard = hearersOf({ subscribers, claim });
  if (heard.length === 0 || rows.length === 0) return;
  const told = rows.map(({ path, version, born, died, digest, size }) => ({
    ...{ path, version, born, digest, size },
    // It was current until the commit that was made just now, or to the end of its generation.
    died: died ?? head ?? Number.MAX_SAFE_INTEGER,
  }));
  erasures.add(told, gen);
  outbox.ring(heard, { event: `erased.${erasures.newest}`, now });
}

/**
 * Nodes are to take the bytes out of their caches, whatever else has them: who may still read them fetches them again. Empty
 * contents have none.
 */
function tellNodes(
  _: Tx,
  { erasedContents, outbox }: Pick<Ledger, "erasedContents" | "outbox">,
  { rows, now }: { rows: readonly GoneRow[]; now: number },
): void {
  const names = new Set(rows.filter((row) => keeps(row) && row.size > 0).map(contentName));
  if (names.size === 0) return;
  outbox.mark("erased", { event: `erased.${erasedContents.add([...names])}`, due: now });
}
