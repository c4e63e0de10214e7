import { createHash, type Hash } from "node:crypto";
import { z } from "zod";
import { ArchiveCounts } from "../../protocol/archives.ts";

/*
 * An archive of a repo: a tar file that any tar reads.
 *
 *   archive.json                        what it is
 *   branches/<branch>/branch.json       of each branch: its head, and what it is set to
 *   branches/<branch>/commits-000001.json …, then tags-… and files-…
 *   contents/<digest>-<size>            the bytes of files, each once, before the page that names it
 *   end.json                            how much there is of each branch, and a digest over all that is no content
 *
 * A page of files has small contents in it. Where the others are, it says by their offsets in the archive, so that no
 * reader needs a list of all of them. A content's name is its tree hash and its size: that is its check.
 */

export const FORMAT = "sluice-repo";
export const FORMAT_VERSION = 1;

export const FIRST_ENTRY = "archive.json";
export const LAST_ENTRY = "end.json";
export const CONTENTS = "contents/";

/** The entry of a page. */
export function pageName(branch: string, kind: PageKind, number: number): string {
  return `branches/${branch}/${kind}-${String(number).padStart(6, "0")}.json`;
}
export type PageKind = "commits" | "tags" | "files";

/** The entry of a branch's head. */
export function branchEntry(branch: string): string {
  return `branches/${branch}/branch.json`;
}

/** The branch and the kind of an entry; undefined if it is of no branch. */
export function entryOf(
  name: string,
): { readonly branch: string; readonly kind: PageKind | "branch" } | undefined {
  const [, branch, page] = /^branches\/([^/]+)\/(?:branch|(commits|tags|files)-\d+)\.json$/.exec(name) ?? [];
  return branch === undefined ? undefined : { branch, kind: (page as PageKind | undefined) ?? "branch" };
}

export const ArchiveHead = z.object({
  format: z.literal(FORMAT),
  version: z.literal(FORMAT_VERSION),
  repo: z.string(),
  branches: z.array(z.string()),
});

export const ArchiveEnd = z.object({
  /** SHA-256 over all entries that are no contents: of each its name, a line feed and its bytes, in their order. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  branches: z.record(z.string(), ArchiveCounts),
});
export type ArchiveEnd = z.infer<typeof ArchiveEnd>;

/** Where contents begin that a page of files names, by their names. */
export const Offsets = z.record(z.string(), z.int().nonnegative());

/** The digest over all entries that are no contents. */
export class EntriesHash {
  readonly #hash: Hash;

  constructor(hash = createHash("sha256")) {
    this.#hash = hash;
  }

  add(name: string, bytes: Uint8Array): void {
    this.#hash.update(`${name}\n`).update(bytes);
  }

  /** One that goes on from here by itself. */
  copy(): EntriesHash {
    return new EntriesHash(this.#hash.copy());
  }

  finish(): string {
    return this.#hash.digest("hex");
  }
}

/** What an archive does not have. */
export const NOT_INCLUDED =
  "not in it: pipelines with their jobs, results and logs; access keys; open commits and unfinished uploads; commits that only a branch made from them or a pipeline keeps";
