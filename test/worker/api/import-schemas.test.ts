import { describe, expect, test } from "vitest";
import type { ArchivedCommit, ArchivedFile, ArchivedTag } from "../../../protocol/archives.ts";
import { CommitPage } from "../../../protocol/commits.ts";
import { type Archive, importArchive, type Outcome } from "./import-support.ts";
import { contentOf, good } from "./support.ts";

/** The first moment of 2024; milliseconds. */
const T0 = 1_704_067_200_000;
const SETTINGS = { public: false, cors: null, writer: null };
let repos = 0;

function freshRepo(): string {
  return `schemas-${++repos}`;
}

/** A ULID of a time (https://github.com/ulid/spec). */
function ulidAt(time: number, rest = "0000000000000000"): string {
  const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  let text = "";
  for (let left = time; text.length < 10; left = Math.floor(left / 32)) text = digits[left % 32] + text;
  return text + rest;
}

const ids = [0, 1, 2, 3].map((n) => ulidAt(T0 + n));

/** A commit by its number, which wrote and ended so much up to it. */
function commit(seq: number, births: number, deaths: number, more: { [at: number]: unknown } = {}) {
  const row = [seq, ids[seq], T0 + seq, births, deaths, null, "SLUICEK1", null, null, 0];
  for (const [at, value] of Object.entries(more)) row[Number(at)] = value as never;
  return row as unknown as ArchivedCommit;
}

/** A sound archive of three commits: two files, one of them written again; `d/x` came and went. */
async function sound(): Promise<Archive> {
  const { id, bytes } = await contentOf("one");
  const file = (path: string, born: number, died: number | null, more: object | null = null) =>
    [path, born, died, id.digest, id.size, null, more] as unknown as ArchivedFile;
  return {
    branch: { createdAt: T0, head: 3, floor: 0, settings: SETTINGS },
    commits: [commit(1, 2, 0), commit(2, 3, 1), commit(3, 3, 2)],
    tags: [["v1", ids[2] as string, T0 + 5] as ArchivedTag],
    files: [file("a", 1, 2), file("a", 2, null), file("d/x", 1, 3)],
    contents: [{ ...id, bytes }],
  };
}

async function refused(archive: Archive, pageRows = 1000): Promise<Extract<Outcome, { ok: false }>> {
  const outcome = await importArchive({ repo: freshRepo() }, archive, { pageRows });
  if (outcome.ok) throw new Error("the archive was taken");
  return outcome;
}

describe("what comes out of an archive could have been written", () => {
  test("a sound one is taken", async () => {
    const repo = freshRepo();
    expect(await importArchive({ repo }, await sound())).toEqual({ ok: true, head: ids[3] });
    const page = CommitPage.parse(await good(`GET /repos/${repo}/branches/master/commits`));
    expect(page.commits.map(({ id }) => id)).toEqual([ids[3], ids[2], ids[1]]);
  });

  test.each([
    ["a message that is no text", { message: { a: 1 } }],
    ["a message of several lines", { message: "a\nb" }],
    ["a message that is no Unicode", { message: "\ud800" }],
    ["metadata that is a list", { meta: ["a"] }],
    ["metadata with a number", { meta: { a: 1 } }],
    ["a name of metadata in capitals", { meta: { A: "1" } }],
    ["a field that no note has", { author: "root" }],
    ["a redaction without a time", { redacted: { by: "K" } }],
    ["a redaction with a message", { message: "m", redacted: { at: T0, by: "K" } }],
    ["too much text", { message: "m".repeat(5000) }],
    ["a list in place of a note", []],
  ])("a commit's note with %s is refused", async (_, note) => {
    const archive = await sound();
    archive.commits[1] = commit(2, 3, 1, { 7: JSON.stringify(note) });
    const { status, issues, message } = await refused(archive);
    expect(status).toBe(400);
    expect(issues[0]?.path).toMatch(/^commits\[1\]\[7\]/);
    expect(message).toContain("export the repo again");
  });

  test.each([
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
    ["tags", { 1: ulidAt(T0 + 9) }, "tags[0][1]"],
    ["tags", { 2: 2 ** 50 }, "tags[0][2]"],
    ["files", { 0: "a//b" }, "files[1][0]"],
    ["files", { 0: "A" }, "files[1][0]"],
    ["files", { 1: 1 }, "files[1][0]"],
    ["files", { 2: 2 }, "files[1][2]"],
    ["files", { 2: 4 }, "files[1][2]"],
    ["files", { 3: "0" }, "files[1][3]"],
    ["files", { 5: '{"contentType":"a\nb"}' }, "files[1][5].contentType"],
    ["files", { 5: '{"contentType":"\ud800"}' }, "files[1][5].contentType"],
    ["files", { 5: '{"owner":"root"}' }, "files[1][5]"],
    ["files", { 6: { version: 2 } }, "files[1][6].version"],
    ["files", { 6: { renewed: 2 ** 52 } }, "files[1][6].renewed"],
    ["files", { 6: { unmarked: true } }, "files[1][6].unmarked"],
  ] as const)("a row of %s with %j is refused, and the refusal says where and what", async (list, change, path) => {
    const archive = await sound();
    const index = list === "tags" ? 0 : 1;
    const row = archive[list][index] as unknown[];
    for (const [at, value] of Object.entries(change)) row[Number(at)] = value;
    const { status, issues, message } = await refused(archive);
    expect({ status, path: issues[0]?.path, message }).toMatchObject({ status: 400, path });
    expect(message).toContain("export the repo again");
  });

  test("a tree other than the one that the commits count is refused", async () => {
    for (const [commits, words] of [
      // One row was born at the second, which says that none was.
      [[commit(1, 3, 0), commit(2, 3, 1), commit(3, 3, 2)], "0 came with commit 2"],
      [[commit(1, 2, 0), commit(2, 3, 0), commit(3, 3, 2)], "0 went with commit 2"],
      [[commit(1, 3, 0), commit(2, 4, 1), commit(3, 4, 2)], "2 files and empty directories are there"],
    ] as const) {
      const { status, step, message } = await refused({ ...(await sound()), commits: [...commits] });
      expect({ status, step }).toEqual({ status: 400, step: "finish" });
      expect(message).toContain(words);
    }
  });

  test("a newest commit with a number that leaves no room for others is refused", async () => {
    const archive = await sound();
    const head = Number.MAX_SAFE_INTEGER;
    archive.branch = { ...archive.branch, head, floor: head };
    archive.commits = [commit(1, 0, 0, { 0: head })];
    Object.assign(archive, { tags: [], files: [] });
    const { status, issues } = await refused(archive);
    expect(status).toBe(400);
    expect(issues[0]?.path).toBe("branch.head");
  });

  test("a file beside what is below it is refused, in one page or in several", async () => {
    for (const pageRows of [1000, 1]) {
      const archive = await sound();
      const [file] = archive.files as [ArchivedFile];
      const at = (path: string, born: number, died: number | null) =>
        [path, born, died, ...file.slice(3)] as unknown as ArchivedFile;
      archive.commits = [commit(1, 2, 0), commit(2, 3, 1), commit(3, 4, 1)];
      archive.files = [at("a", 1, 2), at("a", 2, null), at("a-b", 1, null), at("a/x/y", 3, null)];
      const { status, issues, message } = await refused(archive, pageRows);
      expect(status).toBe(400);
      expect(issues[0]?.path).toBe(`files[${pageRows === 1 ? 0 : 3}][0]`);
      expect(message).toContain("'a/x/y'");
      expect(message).toContain("'a'");
    }
  });

  test("the branch tells by whom it was imported, and its commits that they were", async () => {
    const repo = freshRepo();
    await importArchive({ repo }, await sound(), { call: { caller: { keyId: "SLUICEIMPORTER" } } });
    const detail = await good(`GET /repos/${repo}/branches/master`);
    expect(detail.imported).toEqual({ at: expect.any(Number), by: "SLUICEIMPORTER" });
    const { commits } = await good(`GET /repos/${repo}/branches/master/commits`);
    expect(commits.map(({ imported }: { imported?: true }) => imported)).toEqual([true, true, true]);
  });
});
