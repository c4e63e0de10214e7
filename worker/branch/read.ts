import { createHash } from "node:crypto";
import type { ContentId } from "../../protocol/content.ts";
import type { FileEntry } from "../../protocol/files.ts";
import type { CommitRow, Position } from "./commits.ts";
import type { FileList, ListEntry, ListFiles, Refused } from "./contract.ts";
import type { Head, Live } from "./generations.ts";
import type { Ledger } from "./ledger.ts";
import { type Page, type PageFile, type PageRequest, pageScope, readPage } from "./listing.ts";
import { openWalk } from "./walk.ts";

/** Paths of a fingerprint that are read before other calls get their turn. */
const FINGERPRINT_PAGE = 1000;

type NotThere = Refused<"no-such-branch" | "no-such-version">;

/** What a read is of: a commit of some generation, and that generation's HEAD. */
interface View {
  readonly ok: true;
  readonly position: Position;
  readonly commit: CommitRow | undefined;
  readonly head: Head;
  readonly modifiedAt: number;
}

/** One page of the tree at HEAD or at a commit. */
export function listFiles(
  ledger: Ledger,
  { commit, anyGeneration = false, modified = "branch", ...page }: ListFiles,
): FileList | NotThere {
  const view = viewOf(ledger, { commit, anyGeneration });
  if (!view.ok) return view;
  const found = listPage(ledger, { ...view, page });
  const { next } = found;
  const entries =
    modified === "file" ? timedEntries(ledger, { gen: view.position.gen, page: found }) : shownEntries(found);
  return { ok: true, entries, truncated: next !== null, next, modifiedAt: view.modifiedAt };
}

/** Files at a position, of any generation. A deletion has none. */
export function filesAt(
  ledger: Ledger,
  { position, page }: { position: Position; page: PageRequest },
): { files: FileEntry[]; next: string | null } {
  const view = positionView(ledger, position);
  if (!view) return { files: [], next: null };
  const { entries, next } = listPage(ledger, { ...view, page });
  const files = entries.flatMap((entry) => (entry.kind === "prefix" ? [] : [withoutBirth(entry)]));
  return { files, next };
}

/**
 * One digest over what is below a directory: SHA-256 over path, digest and size of each file and empty directory, in
 * path order, with the sum of the sizes. `pause` is awaited between pages.
 */
export async function fingerprint(
  ledger: Ledger,
  { position, path, pause }: { position: Position; path: string; pause: () => Promise<unknown> },
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
      page: { prefix, after, limit: FINGERPRINT_PAGE },
    });
    // Paths hold no control characters: no two lists of files make the same text.
    const text = page.files.map((file) => `${file.path}\0${file.digest}-${file.size}\n`).join("");
    hash.update(new TextEncoder().encode(text));
    for (const file of page.files) size += file.size;
    found ||= page.files.length > 0;
    after = page.next;
    if (after !== null) await pause();
  }
  return found ? { digest: hash.digest("hex"), size } : null;
}

function shownEntries({ entries }: Page): ListEntry[] {
  return entries.map((entry) => (entry.kind === "prefix" ? entry : withoutBirth(entry)));
}

/** With the times of the commits that wrote them. */
function timedEntries(ledger: Ledger, { gen, page }: { gen: number; page: Page }): ListEntry[] {
  const births = page.entries.flatMap((entry) => (entry.kind === "prefix" ? [] : [entry.born]));
  const stampOf = ledger.commits.stamps(gen, births);
  return page.entries.map((entry) => {
    if (entry.kind === "prefix") return entry;
    return { ...withoutBirth(entry), modifiedAt: stampOf(entry.born).createdAt };
  });
}

function withoutBirth({ kind, path, digest, size }: PageFile): FileEntry {
  return { kind, path, digest, size };
}

function listPage(
  ledger: Ledger,
  { position, commit, head, page }: Omit<View, "ok"> & { page: PageRequest },
): Page {
  const walk = openWalk(ledger.sql, { position, commit, head, ...pageScope(page) });
  return readPage(walk, page);
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
  if (commit?.kind !== "commit" || (!anyGeneration && commit.gen !== live?.gen)) {
    return { ok: false, reason: "no-such-version" };
  }
  return positionView(ledger, commit) ?? { ok: false, reason: "no-such-version" };
}

function headView({ gen, head }: Live): View {
  const position = { gen, seq: head.seq };
  const { id, modifiedAt: createdAt } = head;
  const commit = id === null ? undefined : { ...position, ...head, id, kind: "commit" as const, createdAt };
  return { ok: true, position, commit, head, modifiedAt: createdAt };
}

function positionView(ledger: Ledger, { gen, seq }: Position): View | undefined {
  const generation = ledger.exists ? ledger.generations.get(gen) : undefined;
  if (!generation) return undefined;
  const commit = ledger.commits.at({ gen, seq });
  const head = ledger.generations.headOf(generation);
  const modifiedAt = commit?.createdAt ?? generation.createdAt;
  return { ok: true, position: { gen, seq }, commit, head, modifiedAt };
}
