import { createHash } from "node:crypto";
import type { ContentId } from "../../../protocol/content.ts";
import type { FileEntry } from "../../../protocol/files.ts";
import type { Refused } from "../contract/answers.ts";
import type { FileList, ListEntry, ListFiles } from "../contract/files.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { OpenCommit } from "../open-commits/open-commit-store.ts";
import { isKept, mustBeReadable } from "../retention/kept.ts";
import { isPublic, modifiedOf } from "../settings/settings.ts";
import type { CommitRow, Position } from "../tree/commit-store.ts";
import type { Head, Live } from "../tree/generation-store.ts";
import { type Page, type PageFile, type PageRequest, pageScope, readPage } from "./listing.ts";
import { openCommitTime, overlaid } from "./overlay.ts";
import { findView, noView } from "./views.ts";
import { openWalk, type Walk } from "./walk.ts";

/** Paths of a fingerprint that are read before other calls get their turn. */
const FINGERPRINT_PAGE = 1000;
/** Rows that are fetched at first if common prefixes are folded row by row. */
const FOLDED_ROWS = 2;

type NotThere = Refused<"no-such-branch" | "no-such-version" | "no-such-open-commit">;

/** What a read is of: a commit of some generation, and that generation's HEAD. */
interface View {
  readonly ok: true;
  readonly position: Position;
  readonly commit: CommitRow | undefined;
  readonly head: Head;
  readonly modifiedAt: number;
  /** Whether it is HEAD, be it below an open commit: its files have the times of their last writes. */
  readonly isHead: boolean;
  /** The open commit that is laid over it. */
  readonly openCommit?: OpenCommit;
}

/** One page of the tree at HEAD, in an open commit, or at a commit. */
export function listFiles(
  ledger: Ledger,
  {
    openCommit,
    commit,
    anyGeneration = false,
    modified: asked,
    ownTimes = false,
    publicOnly = false,
    ...page
  }: ListFiles,
): FileList | NotThere | Refused<"not-public"> {
  const modified = modifiedOf(ledger, asked ? { modified: asked } : {});
  if (publicOnly && !isPublic(ledger)) return { ok: false, reason: "not-public" };
  const view =
    openCommit === undefined
      ? viewOf(ledger, { commit, anyGeneration })
      : namedView(ledger, { view: openCommit, publicOnly });
  if (!view.ok) return view;
  const found = readPage(walkOf(ledger, { view, page }), page);
  const { next } = found;
  const isTimed = ownTimes || modified === "file";
  const entries = isTimed ? timedEntries(ledger, { view, page: found }) : shownEntries(found);
  const list: FileList = { ok: true, entries, truncated: next !== null, next, modifiedAt: view.modifiedAt };
  const isNewest = view.isHead && !view.openCommit;
  // Others ask without their own times.
  if (isNewest && !ownTimes)
    ledger.sharePage({ of: "files", ...page, ...(asked && { modified: asked }) }, list);
  return list;
}

/**
 * Files at a position of any generation; with `since`, only those that were written after it. At a deletion there are
 * none. Throws if the position is kept no more: a tree that lacks rows would pass for one that has none.
 */
export function filesAt(
  ledger: Ledger,
  { position, since, page }: { position: Position; since: Position | undefined; page: PageRequest },
): { files: FileEntry[]; next: string | null } {
  if (ledger.exists) mustBeReadable(ledger, position);
  const view = positionView(ledger, position);
  if (!view || (since && since.gen > position.gen)) return { files: [], next: null };
  // A later generation begins with nothing.
  const within = since?.gen === position.gen ? since : undefined;
  const births = within && (ledger.commits.at(within)?.births ?? 0);
  const written = within && { seq: within.seq, births: births ?? 0 };
  const { entries, next } = readPage(walkOf(ledger, { view, page, since: written }), page);
  const files = entries.flatMap((entry) => (entry.kind === "prefix" ? [] : [withoutVersion(entry)]));
  return { files, next };
}

interface FingerprintRequest {
  readonly position: Position;
  /** As in filesAt. */
  readonly since: Position | undefined;
  readonly path: string;
  readonly turn: () => Promise<unknown>;
}

/**
 * One digest over what is below a directory: SHA-256 over path, digest and size of each file and empty directory, in
 * path order, with the sum of the sizes. `turn` is awaited between pages.
 */
export async function fingerprint(
  ledger: Ledger,
  { position, since, path, turn }: FingerprintRequest,
): Promise<ContentId | null> {
  const hash = createHash("sha256");
  const prefix = path === "" ? "" : `${path}/`;
  let size = 0;
  let after: string | null = "";
  let found = false;
  while (after !== null) {
    // Each page is read anew: HEAD may have moved on, and then the position is the past.
    const page: ReturnType<typeof filesAt> = filesAt(ledger, {
      position,
      since,
      page: { prefix, after, limit: FINGERPRINT_PAGE },
    });
    // Paths hold no control characters: no two lists of files make the same text.
    const text = page.files.map((file) => `${file.path}\0${file.digest}-${file.size}\n`).join("");
    hash.update(new TextEncoder().encode(text));
    for (const file of page.files) size += file.size;
    found ||= page.files.length > 0;
    after = page.next;
    if (after !== null) await turn();
  }
  return found ? { digest: hash.digest("hex"), size } : null;
}

function shownEntries({ entries }: Page): ListEntry[] {
  return entries.map((entry) => (entry.kind === "prefix" ? entry : withoutVersion(entry)));
}

/**
 * With the times of the commits that wrote them, at HEAD of their last writes, which may have made none; what no commit wrote
 * yet has that of its open commit. Tags alone change none of these times.
 */
function timedEntries(ledger: Ledger, { view, page }: { view: View; page: Page }): ListEntry[] {
  const written = page.entries.flatMap((entry) =>
    entry.kind === "prefix" || !entry.version ? [] : [entry.version],
  );
  const stampOf = ledger.commits.stamps(view.position.gen, written);
  return page.entries.map((entry) => {
    if (entry.kind === "prefix") return entry;
    const bytesAt = entry.bytesAt ?? (entry.version ? stampOf(entry.version).createdAt : view.modifiedAt);
    const renewed = view.isHead ? (entry.renewed ?? 0) : 0;
    return { ...withoutVersion(entry), modifiedAt: Math.max(bytesAt, renewed) };
  });
}

function withoutVersion({ kind, path, digest, size }: PageFile): FileEntry {
  return { kind, path, digest, size };
}

interface WalkRequest {
  readonly view: View;
  readonly page: PageRequest;
  readonly since?: { readonly seq: number; readonly births: number } | undefined;
}

function walkOf(ledger: Ledger, { view, page, since }: WalkRequest): Walk {
  const { position, commit, head, openCommit } = view;
  const scope = pageScope(page);
  const isNextWritten = ledger.applying.writesTo(position.gen);
  const options = { position, commit, head, isNextWritten, since, ...scope };
  if (!openCommit) return openWalk(ledger.sql, options);
  // Of a folder the first path may be staged to go: none may be left out.
  const rows = page.delimiter ? FOLDED_ROWS : scope.rows;
  const tree = openWalk(ledger.sql, { ...options, foldBelow: undefined, rows });
  return overlaid(ledger, { tree, openCommit, range: scope.range, rows });
}

/** HEAD of the live generation, or a commit of it; with `anyGeneration`, of whichever generation has it. */
function viewOf(
  ledger: Ledger,
  { commit: id, anyGeneration }: { commit: string | undefined; anyGeneration: boolean },
): View | NotThere {
  const { live } = ledger;
  if (!live && (!ledger.exists || id === undefined || !anyGeneration)) {
    return { ok: false, reason: "no-such-branch" };
  }
  if (id === undefined && live) return headView(live);
  const commit = id === undefined ? undefined : ledger.commits.byId(id);
  if (!commit || !isKept(ledger, commit) || (!anyGeneration && commit.gen !== live?.gen)) {
    return { ok: false, reason: "no-such-version" };
  }
  return positionView(ledger, commit) ?? { ok: false, reason: "no-such-version" };
}

function namedView(ledger: Ledger, named: { view: string; publicOnly: boolean }): View | NotThere {
  const found = findView(ledger, named);
  if (found === undefined) return noView(ledger, named.view);
  const { live, openCommit, commit } = found;
  if (openCommit) return { ...headView(live), openCommit, modifiedAt: openCommitTime(live, openCommit) };
  const { gen, seq, createdAt } = commit;
  const isHead = false;
  return { ok: true, position: { gen, seq }, commit, head: live.head, modifiedAt: createdAt, isHead };
}

function headView({ gen, head }: Live): View {
  const position = { gen, seq: head.seq };
  const { id, modifiedAt: createdAt } = head;
  const commit = id === null ? undefined : { ...position, ...head, id, kind: "commit" as const, createdAt };
  return { ok: true, position, commit, head, modifiedAt: createdAt, isHead: true };
}

function positionView(ledger: Ledger, { gen, seq }: Position): View | undefined {
  const generation = ledger.exists ? ledger.generations.get(gen) : undefined;
  if (!generation) return undefined;
  const commit = ledger.commits.at({ gen, seq });
  const head = ledger.generations.headOf(generation);
  const modifiedAt = commit?.createdAt ?? generation.createdAt;
  return { ok: true, position: { gen, seq }, commit, head, modifiedAt, isHead: false };
}
