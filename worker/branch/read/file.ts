import type { Life } from "../../blobs/content.ts";
import { contentOf } from "../contents/content-store.ts";
import { NOTHING, readBody } from "../contents/stored-body.ts";
import type { Refused } from "../contract/answers.ts";
import type { DeletionRead, FileRead, ReadAnswer, ReadFile, Unchanged } from "../contract/files.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { isKept } from "../retention/kept.ts";
import { isPublic, modifiedOf } from "../settings/settings.ts";
import { readAttributes } from "../tree/attributes.ts";
import type { CommitRow, Position } from "../tree/commit-store.ts";
import { kindOf } from "../tree/file-store.ts";
import type { Live } from "../tree/generation-store.ts";
import { newestAnswer } from "../tree/read-cache.ts";
import { openCommitTime, readStaged } from "./overlay.ts";
import { findView, noView } from "./views.ts";

type NotFound = Refused<
  "no-such-branch" | "no-such-version" | "no-such-file" | "no-such-open-commit" | "not-public"
>;

/** A row of `files` with what it refers to. */
interface WholeRow {
  readonly died: number | null;
  readonly digest: string;
  readonly size: number;
  readonly attributes: string | null;
  /** Of the commit that wrote it. */
  readonly id: string;
  readonly createdAt: number;
  /** As in FileState. */
  readonly bytesAt: number | null;
  /** When it was last written again as it was; null or absent: it was not, or that is of no matter. */
  readonly renewed?: number | null;
  /** Null for an empty directory. */
  readonly contentKind: number | null;
  readonly body: ArrayBuffer | string | null;
  readonly life: Life;
}

/**
 * Of (?1 gen, ?2 path, ?3 seq, ?4 id, ?5 time): the version that the commit ?3 wrote. It is one row, or one that was born at
 * the commit and another that an erasure made current again.
 */
const VERSION = `
  SELECT died, lower(hex(there.digest)) AS digest, there.size AS size, attributes, ?4 AS id, ?5 AS createdAt,
    there.bytesAt AS bytesAt, contents.kind AS contentKind, body, life
  FROM (
    SELECT born FROM files WHERE gen = ?1 AND path = ?2 AND born = ?3 AND version IS NULL AND kind < 2
    UNION ALL
    SELECT born FROM revived WHERE gen = ?1 AND version = ?3 AND path = ?2
  ) AS found
  CROSS JOIN files AS there ON there.gen = ?1 AND there.path = ?2 AND there.born = found.born
  LEFT JOIN ${contentOf("there")}
  LIMIT 1`;

/** Selects rows of files `from` somewhere, which are called `row` there, with their commits and contents. */
const whole = (row: string, from: string): string => `
  SELECT died, lower(hex(${row}.digest)) AS digest, ${row}.size AS size, attributes, id,
    createdAt, bytesAt, renewed, contents.kind AS contentKind, body, life
  FROM ${from} CROSS JOIN commits ON commits.gen = ${row}.gen AND commits.seq = ifnull(${row}.version, ${row}.born)
  LEFT JOIN ${contentOf(row)}`;

/** Of (?1 gen, ?2 path). */
const AT_HEAD = `
  ${whole("files", "files INDEXED BY head")} WHERE files.gen = ?1 AND path = ?2 AND died IS +NULL`;

/** Of (?1 gen, ?2 path, ?3 seq): the last row that was born by then, whether it was dead or not. */
const AT_COMMIT = whole(
  "found",
  `(
    SELECT gen, born, died, version, bytesAt, renewed, digest, size, attributes FROM files
    WHERE gen = ?1 AND path = ?2 AND born <= ?3 ORDER BY born DESC LIMIT 1
  ) AS found`,
);

/** One file at HEAD, in a view, or at a commit of the live generation. */
export function readFile(
  ledger: Ledger,
  { path, commit, openCommit, publicOnly = false, have, ...asked }: ReadFile,
): ReadAnswer | Unchanged {
  if (publicOnly && !isPublic(ledger)) return { ok: false, reason: "not-public" };
  const modified = modifiedOf(ledger, asked);
  if (openCommit !== undefined)
    return readView(ledger, { path, view: openCommit, modified, publicOnly, have });
  const { live } = ledger;
  if (!live) return { ok: false, reason: "no-such-branch" };
  if (commit !== undefined) return readAt(ledger, { path, commit, modified, gen: live.gen, have });
  const record = ledger.recordOf(live);
  const stamp = have === undefined ? undefined : newestStamp(ledger, live);
  const at = have !== undefined && { at: { gen: live.gen, seq: live.head.seq } };
  const stamped = stamp !== undefined && { stamp, ...(ledger.settings.of(live.gen).nearReads && NEAR) };
  if (stamped && hasNewest(ledger, { path, live, have })) {
    const time = modified === "branch" && { modifiedAt: record.modifiedAt };
    return { ok: true, unchanged: true, ...stamped, ...at, ...time };
  }
  const read = readPresent(ledger, { path, live });
  if (ledger.mayShare()) ledger.reads.publish(record, path);
  const answer = newestAnswer(record, read, asked.modified);
  return { ...answer, ...(answer.ok && stamped), ...at };
}

const NEAR = { near: true } as const;

/*
 * Whoever keeps what a read answered asks with its stamp next time, and hears in a few bytes that it is still so. A stamp has
 * the generation, the newest commit when it was read, and a counter of all that changes rows otherwise (tree/read-cache.ts). If
 * the counter is the same, the file of a path at HEAD is the same if it was born by that commit, and that of a commit always.
 */

/** The stamp of what is read of a commit now. */
function stampOf({ reads }: Ledger, { gen, seq }: Position): string {
  return `${stampsSince(reads.counter, gen)}${seq}`;
}

/** The commit that a stamp is of; undefined if more may have changed since than commits say. */
function stampedAt({ reads }: Ledger, { have, gen }: Stamp & { gen: number }): number | undefined {
  const since = stampsSince(reads.counter, gen);
  return have?.startsWith(since) ? Number(have.slice(since.length)) : undefined;
}

function stampsSince(counter: string, gen: number): string {
  return `${counter}:${gen}:`;
}

type Stamp = { readonly have: ReadFile["have"] };

/** The stamp of what is read at HEAD now. There is none while a large commit is applied, whose rows are there before it is. */
function newestStamp(ledger: Ledger, { gen, head: { seq } }: Live): string | undefined {
  return ledger.applying.get() === null ? stampOf(ledger, { gen, seq }) : undefined;
}

/** Whether a stamp is of what is at a path at HEAD. */
function hasNewest(
  ledger: Ledger,
  { path, live: { gen, head }, have }: Stamp & { path: string; live: Live },
): boolean {
  const seq = stampedAt(ledger, { have, gen });
  return seq !== undefined && (seq === head.seq || ledger.files.isBornBy({ gen, seq }, path));
}

interface ReadView extends Stamp {
  readonly path: string;
  readonly view: string;
  readonly modified: NonNullable<ReadFile["modified"]>;
  readonly publicOnly: boolean;
}

/** HEAD as it would be if the open commit were finished now, or a commit. */
function readView(
  ledger: Ledger,
  { path, view, modified, publicOnly, have }: ReadView,
): FileRead | Unchanged | NotFound {
  const found = findView(ledger, { view, publicOnly });
  if (found === undefined) return noView(ledger, view);
  const { live, openCommit, commit } = found;
  // A tag may come to name another commit.
  if (commit) return readKept(ledger, { path, commit, modified, have, isLasting: commit.id === view });
  const staged = readStaged(ledger, { live, openCommit, path });
  const read = staged === undefined ? readPresent(ledger, { path, live }) : staged;
  if (!read) return { ok: false, reason: "no-such-file" };
  return modified === "file" ? read : { ...read, modifiedAt: openCommitTime(live, openCommit) };
}

/** One file at HEAD, with the time when it was last written. */
function readPresent(ledger: Ledger, { path, live }: { path: string; live: Live }): FileRead | undefined {
  const { gen, head } = live;
  const cached = ledger.reads.get(gen, path);
  if (cached) return cached;
  if (!ledger.applying.writesTo(gen)) return readHead(ledger, { path, live });
  const row = rowAt(ledger, { path, gen, seq: head.seq });
  return row && presentRead(path, row);
}

function readHead(
  { sql, reads }: Ledger,
  { path, live: { gen } }: { path: string; live: Live },
): FileRead | undefined {
  const [row] = sql.query<WholeRow>(AT_HEAD, [gen, path]);
  const read = row && presentRead(path, row);
  reads.set(gen, { path, read: read ?? null, bytes: row ? bytesOf(row) : 0 });
  return read;
}

function readAt(
  ledger: Ledger,
  {
    path,
    commit: id,
    modified,
    gen,
    have,
  }: Required<Pick<ReadFile, "path" | "commit" | "modified">> & Stamp & { gen: number },
): FileRead | Unchanged | DeletionRead | NotFound {
  const commit = ledger.commits.byId(id);
  if (commit?.gen !== gen) return { ok: false, reason: "no-such-version" };
  if (isKept(ledger, commit)) {
    const read = readKept(ledger, { path, commit, modified, have, isLasting: true });
    if (read.ok) return read;
  }
  // Lists of versions have a deletion, too, as long as its row is there, whatever became of the commit.
  if (ledger.files.isDeletion(commit, path)) {
    return { ok: false, reason: "is-deletion", commit: commit.id, deletedAt: commit.createdAt };
  }
  return readVersion(ledger, { path, commit, modified });
}

/**
 * The version of a path that a commit wrote, if the row is still there: lists of versions name it by this commit, also
 * when nothing else of the commit is kept.
 */
function readVersion(
  { sql }: Ledger,
  {
    path,
    commit: { gen, seq, id, createdAt },
    modified,
  }: Pick<ReadView, "path" | "modified"> & { readonly commit: CommitRow },
): FileRead | NotFound {
  const [row] = sql.query<WholeRow>(VERSION, [gen, path, seq, id, createdAt]);
  if (!row) return { ok: false, reason: "no-such-version" };
  const read = wholeRead(path, row);
  return modified === "file" ? read : { ...read, modifiedAt: createdAt };
}

/** What was at a path at a commit that is kept. */
function readKept(
  ledger: Ledger,
  { have, isLasting, ...asked }: Parameters<typeof readCommit>[1] & Stamp & { isLasting: boolean },
): FileRead | Unchanged | NotFound {
  const { gen, seq } = asked.commit;
  const stamped = have !== undefined && {
    stamp: stampOf(ledger, { gen, seq }),
    ...(isLasting && { lasting: true as const }),
  };
  if (stamped && stampedAt(ledger, { have, gen }) === seq) return { ok: true, unchanged: true, ...stamped };
  const read = readCommit(ledger, asked);
  return read.ok ? { ...read, ...stamped } : read;
}

function readCommit(
  ledger: Ledger,
  { path, commit, modified }: Pick<ReadView, "path" | "modified"> & { readonly commit: CommitRow },
): FileRead | NotFound {
  const row = rowAt(ledger, { path, gen: commit.gen, seq: commit.seq });
  if (!row) return { ok: false, reason: "no-such-file" };
  const read = wholeRead(path, row);
  return { ...read, commit: commit.id, modifiedAt: modified === "file" ? read.modifiedAt : commit.createdAt };
}

/** What was at a path at a commit. */
function rowAt(
  { sql }: Ledger,
  { path, gen, seq }: { path: string; gen: number; seq: number },
): WholeRow | undefined {
  const [row] = sql.query<WholeRow>(AT_COMMIT, [gen, path, seq]);
  return row && (row.died === null || row.died > seq) ? row : undefined;
}

/** What is large in a row. */
function bytesOf({ body, attributes }: WholeRow): number {
  return (typeof body === "string" ? body.length : (body?.byteLength ?? 0)) + (attributes?.length ?? 0);
}

/** What is at HEAD. The commit that wrote it may be older than the last write, which made none. */
function presentRead(path: string, row: WholeRow): FileRead {
  const read = wholeRead(path, row);
  return { ...read, modifiedAt: Math.max(read.modifiedAt, row.renewed ?? 0) };
}

function wholeRead(path: string, row: WholeRow): FileRead {
  const { digest, size, id, createdAt, bytesAt, contentKind, body, life } = row;
  const kind = kindOf(path);
  if (kind === "file" && (contentKind === null || body === null)) {
    throw new Error(`the content ${digest}-${size} of a file is not in the branch`);
  }
  return {
    ok: true,
    kind,
    digest,
    size,
    attributes: readAttributes(row.attributes),
    body: contentKind === null || body === null ? NOTHING : readBody({ kind: contentKind, body }),
    life,
    modifiedAt: bytesAt ?? createdAt,
    commit: id,
  };
}
