import type { Life } from "../../blobs/content.ts";
import type { FileRead, ReadFile, Refused } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { isPublic } from "../lifecycle/settings.ts";
import { openCommitTime, readStaged } from "../open-commits/overlay.ts";
import { readAttributes } from "../tree/attributes.ts";
import type { CommitRow } from "../tree/commit-store.ts";
import { kindOf } from "../tree/file-store.ts";
import type { Live } from "../tree/generation-store.ts";
import type { CachedRead } from "../tree/read-cache.ts";
import { NOTHING, readBody } from "../tree/stored-body.ts";
import { findView, type ViewStores } from "./views.ts";

type NotFound = Refused<
  "no-such-branch" | "no-such-version" | "no-such-file" | "no-such-open-commit" | "not-public"
>;

type FileStores = ViewStores &
  Pick<Ledger, "live" | "settings" | "sql" | "reads" | "applying" | "staged" | "contents">;

/** A row of `files` with what it refers to. */
interface WholeRow {
  readonly died: number | null;
  readonly digest: string;
  readonly size: number;
  readonly attributes: string | null;
  /** Of the commit that wrote it. */
  readonly id: string;
  readonly createdAt: number;
  /** Null for an empty directory. */
  readonly contentKind: number | null;
  readonly body: ArrayBuffer | string | null;
  readonly life: Life;
}

/** One file at HEAD, in a view, or at a commit of the live generation. */
export function readFile(
  ledger: FileStores,
  { path, commit, openCommit, modified = "branch", publicOnly = false }: ReadFile,
): FileRead | NotFound {
  if (publicOnly && !isPublic(ledger)) return { ok: false, reason: "not-public" };
  if (openCommit !== undefined) return readView(ledger, { path, view: openCommit, modified, publicOnly });
  const { live } = ledger;
  if (!live) return { ok: false, reason: "no-such-branch" };
  if (commit !== undefined) return readAt(ledger, { path, commit, modified, gen: live.gen });
  const read = readPresent(ledger, { path, live });
  if (!read) return { ok: false, reason: "no-such-file" };
  return modified === "file" ? read : { ...read, modifiedAt: live.head.modifiedAt };
}

interface ReadView {
  readonly path: string;
  readonly view: string;
  readonly modified: NonNullable<ReadFile["modified"]>;
  readonly publicOnly: boolean;
}

/** HEAD as it would be if the open commit were finished now, or a commit. */
function readView(ledger: FileStores, { path, view, modified, publicOnly }: ReadView): FileRead | NotFound {
  const found = findView(ledger, { view, publicOnly });
  if (found === undefined) return { ok: false, reason: "no-such-open-commit" };
  const { live, openCommit, commit } = found;
  if (commit) return readCommit(ledger, { path, commit, modified });
  const staged = readStaged(ledger, { live, openCommit, path });
  const read = staged === undefined ? readPresent(ledger, { path, live }) : staged;
  if (!read) return { ok: false, reason: "no-such-file" };
  return modified === "file" ? read : { ...read, modifiedAt: openCommitTime(live, openCommit) };
}

/** One file at HEAD, with the time of the commit that wrote it. */
function readPresent(ledger: FileStores, { path, live }: { path: string; live: Live }): FileRead | undefined {
  const { gen, head } = live;
  const cached = ledger.reads.get(gen, path);
  if (cached) return cached;
  if (!ledger.applying.writesTo(gen)) return readHead(ledger, { path, live });
  const row = rowAt(ledger, { path, gen, seq: head.seq });
  return row && wholeRead(path, row);
}

function readHead(
  { sql, reads }: FileStores,
  { path, live: { gen } }: { path: string; live: Live },
): FileRead | undefined {
  const row = sql.first<WholeRow>`
    SELECT died, lower(hex(files.digest)) AS digest, files.size AS size, attributes, id,
      created_at AS createdAt, contents.kind AS contentKind, body, life
    FROM files INDEXED BY head
    CROSS JOIN commits ON commits.gen = files.gen AND commits.seq = files.born
    LEFT JOIN contents
      ON contents.digest = files.digest AND contents.size = files.size AND contents.gen = files.gen
    WHERE files.gen = ${gen} AND path = ${path} AND died IS NULL`;
  if (!row) return undefined;
  const read = wholeRead(path, row);
  if (isSmall(read)) {
    reads.set(gen, { path, read, bytes: read.size + (row.attributes?.length ?? 0) });
  }
  return read;
}

function readAt(
  ledger: FileStores,
  {
    path,
    commit: id,
    modified,
    gen,
  }: Required<Pick<ReadFile, "path" | "commit" | "modified">> & { gen: number },
): FileRead | NotFound {
  const commit = ledger.commits.byId(id);
  if (commit?.kind !== "commit" || commit.gen !== gen) return { ok: false, reason: "no-such-version" };
  return readCommit(ledger, { path, commit, modified });
}

function readCommit(
  ledger: FileStores,
  { path, commit, modified }: Pick<ReadView, "path" | "modified"> & { readonly commit: CommitRow },
): FileRead | NotFound {
  const row = rowAt(ledger, { path, gen: commit.gen, seq: commit.seq });
  if (!row) return { ok: false, reason: "no-such-file" };
  const read = wholeRead(path, row);
  return { ...read, commit: commit.id, modifiedAt: modified === "file" ? read.modifiedAt : commit.createdAt };
}

/** What was at a path at a commit. */
function rowAt(
  { sql }: Pick<Ledger, "sql">,
  { path, gen, seq }: { path: string; gen: number; seq: number },
): WholeRow | undefined {
  const row = sql.first<WholeRow>`
    SELECT died, lower(hex(found.digest)) AS digest, found.size AS size, attributes, id,
      created_at AS createdAt, contents.kind AS contentKind, body, life
    FROM (
      SELECT gen, born, died, digest, size, attributes FROM files
      WHERE gen = ${gen} AND path = ${path} AND born <= ${seq} ORDER BY born DESC LIMIT 1
    ) AS found
    CROSS JOIN commits ON commits.gen = found.gen AND commits.seq = found.born
    LEFT JOIN contents
      ON contents.digest = found.digest AND contents.size = found.size AND contents.gen = found.gen`;
  return row && (row.died === null || row.died > seq) ? row : undefined;
}

function wholeRead(path: string, row: WholeRow): FileRead {
  const { digest, size, id, createdAt, contentKind, body, life } = row;
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
    modifiedAt: createdAt,
    commit: id,
  };
}

function isSmall(read: FileRead): read is CachedRead {
  return read.body.kind === "inline";
}
