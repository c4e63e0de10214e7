import { createHash } from "node:crypto";
import type { ContentId } from "../../protocol/content.ts";
import type { FileEntry } from "../../protocol/files.ts";
import type { CommitRow, Position } from "./commits.ts";
import type { FileList, FileRead, ListFiles, ReadFile, Refused } from "./contract.ts";
import { kindOf } from "./files.ts";
import type { Head, Live } from "./generations.ts";
import type { Ledger } from "./ledger.ts";
import { type Page, type PageRequest, pageScope, readPage } from "./listing.ts";
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

/** One file at HEAD or at a commit of the live generation. */
export function readFile(
  ledger: Ledger,
  { path, commit }: ReadFile,
): FileRead | NotThere | Refused<"no-such-file"> {
  const view = viewOf(ledger, { commit, anyGeneration: false });
  if (!view.ok) return view;
  const { gen, seq } = view.position;
  const file = commit === undefined ? ledger.files.head(gen, path) : ledger.files.at(path, { gen, seq });
  if (!file || !view.commit) return { ok: false, reason: "no-such-file" };
  const { digest, size, attributes } = file;
  const kind = kindOf(path);
  const body = kind === "file" ? ledger.contents.body({ digest, size }) : NOTHING;
  if (!body) throw new Error(`the content ${digest}-${size} of a file is not in the branch`);
  const stored = attributes === null ? {} : JSON.parse(attributes);
  const { modifiedAt } = view;
  return { ok: true, kind, digest, size, attributes: stored, body, modifiedAt, commit: view.commit.id };
}

const NOTHING = { kind: "inline", bytes: new Uint8Array(0) } as const;

/** One page of the tree at HEAD or at a commit. */
export function listFiles(
  ledger: Ledger,
  { commit, anyGeneration = false, ...page }: ListFiles,
): FileList | NotThere {
  const view = viewOf(ledger, { commit, anyGeneration });
  if (!view.ok) return view;
  const { entries, next } = listPage(ledger, { ...view, page });
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
  return { files: entries.filter((entry) => entry.kind !== "prefix"), next };
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
  const live = ledger.exists ? ledger.generations.live() : null;
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
