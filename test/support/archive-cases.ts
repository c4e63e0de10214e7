import { createHash } from "node:crypto";
import type { ArchivedCommit, ArchivedFile, ArchivedTag } from "../../protocol/archives.ts";
import type { InlineContent } from "../../protocol/content.ts";

/*
 * A small archive that is sound, and ways in which it is not: the gateway refuses each, and so does whoever checks the file.
 */

/** A branch as an archive has it, or what somebody made of one. */
export interface Archive {
  branch: { createdAt: number; head: number; floor?: number; settings: object };
  commits: ArchivedCommit[];
  tags: ArchivedTag[];
  files: ArchivedFile[];
  contents: InlineContent[];
}

/** The first moment of 2024; milliseconds. */
export const T0 = 1_704_067_200_000;

/** A ULID of a time (https://github.com/ulid/spec). */
export function ulidAt(time: number, rest = "0000000000000000"): string {
  const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  let text = "";
  for (let left = time; text.length < 10; left = Math.floor(left / 32)) text = digits[left % 32] + text;
  return text + rest;
}

/** Of the commits, by number. */
export const IDS = [0, 1, 2, 3].map((n) => ulidAt(T0 + n));

/** A commit by its number, which wrote and ended so much up to it. */
export function commit(seq: number, births: number, deaths: number, more: Change = {}): ArchivedCommit {
  const row: unknown[] = [seq, IDS[seq], T0 + seq, births, deaths, null, "SLUICEK1", null, null, 0];
  return changed(row, more) as ArchivedCommit;
}

/** A row of files with the content of the sound archive. */
export function file(path: string, born: number, died: number | null): ArchivedFile {
  return [path, born, died, ONE.digest, ONE.size, null, null];
}

const ONE = {
  digest: createHash("sha256").update(new TextEncoder().encode("one")).digest("hex"),
  size: 3,
  bytes: btoa("one"),
};

/** Three commits and two files: `a` was written again, `d/x` came and went. */
export function soundArchive(): Archive {
  return {
    branch: { createdAt: T0, head: 3, floor: 0, settings: { public: false, cors: null, writer: null } },
    commits: [commit(1, 2, 0), commit(2, 3, 1), commit(3, 3, 2)],
    tags: [["v1", IDS[2] as string, T0 + 5]],
    files: [file("a", 1, 2), file("a", 2, null), file("d/x", 1, 3)],
    contents: [ONE],
  };
}

/** New values of a row, by their places. */
type Change = { readonly [place: number]: unknown };

function changed(row: readonly unknown[], change: Change): unknown[] {
  return Object.assign([...row], change);
}

/** What no commit can have in place of an annotation. */
const BAD_ANNOTATIONS: readonly (readonly [what: string, annotation: unknown])[] = [
  ["a message that is no text", { message: { a: 1 } }],
  ["a message of several lines", { message: "a\nb" }],
  ["a message that is no Unicode", { message: "\ud800" }],
  ["metadata that is a list", { meta: ["a"] }],
  ["metadata with a number", { meta: { a: 1 } }],
  ["a name of metadata in capitals", { meta: { A: "1" } }],
  ["a field that no annotation has", { author: "root" }],
  ["a redaction without a time", { redacted: { by: "K" } }],
  ["a redaction with a message", { message: "m", redacted: { at: T0, by: "K" } }],
  ["too much text", { message: "m".repeat(5000) }],
  ["a list in place of an annotation", []],
];

/** Changes of one row that are refused, and the field that the refusal names. */
const BAD_ROWS: readonly (readonly [list: "commits" | "tags" | "files", change: Change, path: string])[] = [
  ["commits", { 0: 2 ** 48 + 1 }, "commits[1][0]"],
  ["commits", { 1: "ZZZZZZZZZZZZZZZZZZZZZZZZZZ" }, "commits[1][1]"],
  ["commits", { 1: ulidAt(T0) }, "commits[1][1]"],
  ["commits", { 1: ulidAt(T0 + 2 ** 42) }, "commits[1][1]"],
  ["commits", { 2: T0 }, "commits[1][2]"],
  ["commits", { 3: 1 }, "commits[1][3]"],
  ["commits", { 4: 4 }, "commits[1][4]"],
  ["commits", { 5: "a job" }, "commits[1][5]"],
  ["commits", { 6: "a\nb" }, "commits[1][6]"],
  ["commits", { 7: "{" }, "commits[1][7]"],
  ["commits", { 8: "[]" }, "commits[1][8]"],
  ["commits", { 8: '{"P1":"1"}' }, "commits[1][8].P1"],
  ["commits", { 9: 1 }, "commits[1][9]"],
  ["tags", { 0: "no tag" }, "tags[0][0]"],
  ["tags", { 2: 2 ** 50 }, "tags[0][2]"],
  ["files", { 0: "a//b" }, "files[1][0]"],
  ["files", { 0: "A" }, "files[1][0]"],
  ["files", { 1: 1 }, "files[1][0]"],
  ["files", { 2: 2 }, "files[1][2]"],
  ["files", { 2: 4 }, "files[1][2]"],
  ["files", { 3: "0" }, "files[1][3]"],
  ["files", { 5: JSON.stringify({ contentType: "a\nb" }) }, "files[1][5].contentType"],
  ["files", { 5: JSON.stringify({ contentType: "\ud800" }) }, "files[1][5].contentType"],
  ["files", { 5: '{"owner":"root"}' }, "files[1][5]"],
  ["files", { 5: '{"tags":[["a","1"],["a","2"]]}' }, "files[1][5].tags"],
  ["files", { 5: '{"tags":[["aws:a","1"]]}' }, "files[1][5].tags"],
  ["files", { 5: '{"parts":{"sizes":[[2,1]]}}' }, "files[1][5].parts.sizes"],
  ["files", { 6: { version: 2 } }, "files[1][6].version"],
  ["files", { 6: { renewed: 2 ** 52 } }, "files[1][6].renewed"],
  ["files", { 6: { bytesAt: 2 ** 52 } }, "files[1][6].bytesAt"],
  ["files", { 6: { unmarked: true } }, "files[1][6].unmarked"],
];

/** Archives that no branch could have written, and the field, or some words, that a refusal names. */
export const BAD_ARCHIVES: readonly {
  readonly what: string;
  readonly archive: () => Archive;
  readonly names: string;
}[] = [
  ...BAD_ANNOTATIONS.map(([what, annotation]) => ({
    what: `a commit's annotation with ${what}`,
    archive: () => changedArchive(["commits", { 7: JSON.stringify(annotation) }]),
    names: "commits[1][7]",
  })),
  ...BAD_ROWS.map(([list, change, names]) => ({
    what: `a row of ${list} with ${JSON.stringify(change)}`,
    archive: () => changedArchive([list, change]),
    names,
  })),
  {
    what: "a newest commit whose number leaves no room for others",
    archive: () => {
      const head = Number.MAX_SAFE_INTEGER;
      const branch = { ...soundArchive().branch, head, floor: head };
      return { ...soundArchive(), branch, commits: [commit(1, 0, 0, { 0: head })], tags: [], files: [] };
    },
    names: "head",
  },
  {
    what: "a tag of a commit that is not there",
    archive: () => changedArchive(["tags", { 1: ulidAt(T0 + 9) }]),
    names: ulidAt(T0 + 9),
  },
  ...(
    [
      [[commit(1, 3, 0), commit(2, 3, 1), commit(3, 3, 2)], "commit 2"],
      [[commit(1, 2, 0), commit(2, 3, 0), commit(3, 3, 2)], "commit 2"],
      [[commit(1, 3, 0), commit(2, 4, 1), commit(3, 4, 2)], "2 files and empty directories are there"],
    ] as const
  ).map(([commits, names]) => ({
    what: `commits that count ${JSON.stringify(commits.map(([, , , births, deaths]) => [births, deaths]))}`,
    archive: () => ({ ...soundArchive(), commits: [...commits] }),
    names,
  })),
  {
    what: "a file beside what is below it",
    archive: () => ({
      ...soundArchive(),
      commits: [commit(1, 2, 0), commit(2, 3, 1), commit(3, 4, 1)],
      files: [file("a", 1, 2), file("a", 2, null), file("a-b", 1, null), file("a/x/y", 3, null)],
    }),
    names: "'a/x/y' is below 'a'",
  },
  {
    what: "an empty directory at the place of a file, in the past",
    archive: () => ({
      ...soundArchive(),
      commits: [commit(1, 2, 0), commit(2, 3, 1), commit(3, 3, 2)],
      files: [
        file("a", 1, 2),
        changed(file("a/", 1, 3), { 3: EMPTY, 4: 0 }) as ArchivedFile,
        file("a/y", 2, null),
      ],
    }),
    names: "'a/' is below 'a'",
  },
];
const EMPTY = createHash("sha256").digest("hex");

function changedArchive([list, change]: readonly ["commits" | "tags" | "files", Change]): Archive {
  const archive = soundArchive();
  const index = list === "tags" ? 0 : 1;
  Object.assign(archive[list][index] as unknown[], change);
  return archive;
}
