import { describe, expect, test } from "vitest";
import type { ListVersions, VersionEntry, VersionMark } from "../../../worker/branch/contract/files.ts";
import { sampled } from "../../support/suite.ts";
import {
  type BranchStub,
  byBytes,
  commitFiles,
  committed,
  freshBranch,
  put,
  randomNumbers,
} from "./support.ts";

async function page(branch: BranchStub, request: Partial<ListVersions> = {}) {
  const answer = await branch.files.versions({ prefix: "", limit: 1000, ...request });
  if (!answer.ok) throw new Error(answer.reason);
  return answer;
}

/** All pages of so many entries. */
async function paged(branch: BranchStub, request: Omit<ListVersions, "after">): Promise<VersionEntry[]> {
  const found: VersionEntry[] = [];
  for (let after: VersionMark | null | undefined; after !== null; ) {
    const answer = await page(branch, { ...request, ...(after && { after }) });
    expect(answer.truncated).toBe(answer.next !== null);
    if (answer.truncated) expect(answer.entries).toHaveLength(request.limit);
    found.push(...answer.entries);
    after = answer.next;
  }
  return found;
}

/** `path@commit`, a deletion with a minus, the newest of a path with a star; a common prefix in brackets. */
function shown(entry: VersionEntry): string {
  if (entry.kind === "prefix") return `[${entry.path}]`;
  const sign = entry.kind === "deletion" ? "-" : "";
  return `${sign}${entry.path}@${entry.version}${entry.latest ? "*" : ""}`;
}

describe("versions", () => {
  test("of a path come newest first, with who wrote them, what and when", async () => {
    const branch = await freshBranch();
    const first = await put(branch, "a", "1");
    const second = await put(branch, "a", "22");
    const { entries, truncated, next } = await page(branch);
    expect(entries).toEqual([
      {
        kind: "version",
        path: "a",
        version: second,
        latest: true,
        digest: expect.any(String),
        size: 2,
        modifiedAt: expect.any(Number),
      },
      expect.objectContaining({ kind: "version", version: first, latest: false, size: 1 }),
    ]);
    expect({ truncated, next }).toEqual({ truncated: false, next: null });
  });

  test("a deletion is one of its own, a replacement is not", async () => {
    const branch = await freshBranch();
    const [one, two] = [await put(branch, "a", "1"), await put(branch, "a", "2")];
    const deleted = committed(await branch.files.commit({ operations: [{ delete: "a" }] }));
    const three = await put(branch, "a", "3");
    const gone = committed(await branch.files.commit({ operations: [{ delete: "a" }] }));
    expect((await page(branch)).entries.map(shown)).toEqual([
      `-a@${gone}*`,
      `a@${three}`,
      `-a@${deleted}`,
      `a@${two}`,
      `a@${one}`,
    ]);
    expect((await page(branch)).entries[0]).toEqual({
      kind: "deletion",
      path: "a",
      version: gone,
      latest: true,
      modifiedAt: expect.any(Number),
    });
  });

  test("each can be read by its commit", async () => {
    const branch = await freshBranch();
    for (const text of ["1", "22", "333"]) await put(branch, "a", text);
    for (const entry of (await page(branch)).entries) {
      if (entry.kind !== "version") throw new Error("no version");
      expect(await branch.files.read({ path: "a", commit: entry.version })).toMatchObject({
        size: entry.size,
      });
    }
  });

  test("an empty directory is a key, and folds into its prefix with a delimiter", async () => {
    const branch = await freshBranch();
    const made = await put(branch, "d/", "");
    expect((await page(branch)).entries.map(shown)).toEqual([`d/@${made}*`]);
    expect((await page(branch, { delimiter: "/" })).entries.map(shown)).toEqual(["[d/]"]);
    expect((await page(branch, { delimiter: "/", prefix: "d/" })).entries.map(shown)).toEqual([
      `d/@${made}*`,
    ]);
  });

  test("a common prefix also stands for what is only history, and is skipped with all that is below it", async () => {
    const branch = await freshBranch();
    for (const path of ["a/1", "a/2", "b"]) for (const text of ["1", "2"]) await put(branch, path, text);
    await branch.files.commit({ operations: [{ delete: "a/1" }, { delete: "a/2" }] });
    const request = { delimiter: "/", limit: 1 } as const;
    const first = await page(branch, request);
    expect(first).toMatchObject({ entries: [{ kind: "prefix", path: "a/" }], next: { path: "a/" } });
    expect(await page(branch, { ...request, after: { path: "a/" } })).toMatchObject({
      entries: [{ kind: "version", path: "b", latest: true }],
      truncated: true,
    });
  });

  test("after a path come the next paths; after a version of it, its older ones", async () => {
    const branch = await freshBranch();
    const commits: (string | null)[] = [];
    for (const text of ["1", "2", "3"]) commits.push(await put(branch, "a", text));
    await put(branch, "b");
    const paths = async (after: VersionMark) =>
      (await page(branch, { after })).entries.map(({ path }) => path);
    expect(await paths({ path: "a" })).toEqual(["b"]);
    expect(await paths({ path: "a", version: commits[2] ?? "" })).toEqual(["a", "a", "b"]);
    expect(await paths({ path: "a", version: commits[0] ?? "" })).toEqual(["b"]);
    expect(await paths({ path: "a", version: "no such commit" })).toEqual(["b"]);
    expect(await paths({ path: "0", version: commits[2] ?? "" })).toEqual(["a", "a", "a", "b"]);
  });

  test("a path with more versions than a page goes on over pages, and nothing else is left out", async () => {
    const branch = await freshBranch();
    await put(branch, "0");
    const commits: (string | null)[] = [];
    for (let n = 0; n < 25; n++) commits.push(await put(branch, "a", `${n}`));
    await put(branch, "b");
    const all = await paged(branch, { prefix: "", limit: 4 });
    expect(all.map(({ path }) => path)).toEqual(["0", ...commits.map(() => "a"), "b"]);
    const versions = all.flatMap((entry) =>
      entry.path === "a" && "version" in entry ? [entry.version] : [],
    );
    expect(versions).toEqual(commits.toReversed());
    expect(all.filter((entry) => "latest" in entry && entry.latest)).toHaveLength(3);
  });

  test("what is the newest of its path is said so behind a version that was erased since the page before, too", async () => {
    const branch = await freshBranch();
    const commits: (string | null)[] = [];
    for (const text of ["1", "2"]) commits.push(await put(branch, "a", text));
    const { next } = await page(branch, { limit: 1 });
    expect(next).toEqual({ path: "a", version: commits[1] });
    await branch.erasures.erase({ versions: [{ path: "a", version: commits[1] ?? "" }] });
    const after = next ?? { path: "a" };
    expect((await page(branch, { after })).entries.map(shown)).toEqual([`a@${commits[0]}*`]);
    await commitFiles(branch, { deletes: ["a"] });
    expect((await page(branch, { after })).entries.map(shown)).toEqual([`a@${commits[0]}`]);
  });

  test("of a path within a folder are folded into it, also behind one of them", async () => {
    const branch = await freshBranch();
    const commits: (string | null)[] = [];
    for (const text of ["1", "2"]) commits.push(await put(branch, "dir/a", text));
    await put(branch, "dir/b");
    await put(branch, "e");
    const after = { path: "dir/a", version: commits[1] ?? "" };
    const { entries } = await page(branch, { delimiter: "/", after });
    expect(entries.map(({ path }) => path)).toEqual(["dir/", "e"]);
  });

  test("are those of the branch as it is now, not of one that was deleted", async () => {
    const branch = await freshBranch();
    await put(branch, "old");
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    await put(branch, "new");
    expect((await page(branch)).entries.map(({ path }) => path)).toEqual(["new"]);
  });

  test("at most 1,000 come in one page", async () => {
    const branch = await freshBranch();
    const puts = Object.fromEntries(Array.from({ length: 1001 }, (_, n) => [`f${n}`, "x"]));
    await commitFiles(branch, { puts });
    const answer = await page(branch, { limit: 5000 });
    expect(answer).toMatchObject({ truncated: true, next: { version: expect.any(String) } });
    expect(answer.entries).toHaveLength(1000);
  });
});

const PATHS = ["a", "a-", "b/1", "b/2", "b/c/1", "b/c/2", "c.", "d/", "\u{1F600}/x", "\uFFFD"];

/** What each commit did: [path, what was written]. */
type History = { commit: string; changes: Map<string, string | null> }[];

async function grow(branch: BranchStub, seed: number): Promise<History> {
  const random = randomNumbers(seed);
  const tree = new Map<string, string>();
  const history: History = [];
  while (history.length < 60) {
    const deletes = [...tree.keys()].filter(() => random() < 0.2);
    const chosen = PATHS.filter((path) => random() < 0.2 && !deletes.includes(path));
    const puts = Object.fromEntries(
      chosen.map((path) => [path, path.endsWith("/") ? "" : `${Math.floor(random() * 4)}`]),
    );
    const commit = committed(await commitFiles(branch, { puts, deletes }));
    const changes = new Map<string, string | null>(deletes.map((path) => [path, null]));
    for (const [path, text] of Object.entries(puts)) if (tree.get(path) !== text) changes.set(path, text);
    for (const [path, text] of changes) text === null ? tree.delete(path) : tree.set(path, text);
    if (commit !== null) history.push({ commit, changes });
  }
  return history;
}

/** The whole listing as S3 describes it, with nothing clever. */
function naive(history: History, { prefix, delimiter }: { prefix: string; delimiter: "/" | undefined }) {
  const entries = new Set<string>();
  for (const path of PATHS.toSorted(byBytes)) {
    if (!path.startsWith(prefix)) continue;
    const events = history.filter(({ changes }) => changes.has(path)).toReversed();
    const slash = delimiter ? path.indexOf("/", prefix.length) : -1;
    if (slash >= 0 && events.length > 0) entries.add(`[${path.slice(0, slash + 1)}]`);
    if (slash >= 0) continue;
    for (const [n, { commit, changes }] of events.entries()) {
      const sign = changes.get(path) === null ? "-" : "";
      entries.add(`${sign}${path}@${commit}${n === 0 ? "*" : ""}`);
    }
  }
  return [...entries];
}

for (const [seed, options] of sampled([1, 2, 3], { every: 3 }))
  describe(`random history ${seed}`, options, () => {
    test("its versions, page by page, are what happened", async () => {
      const branch = await freshBranch();
      const history = await grow(branch, seed);
      for (const prefix of ["", "a", "b", "b/", "b/c/", "d/", "z", "\u{1F600}"]) {
        for (const delimiter of ["/", undefined] as const) {
          for (const limit of [1, 2, 3, 7, 1000]) {
            const found = await paged(branch, { prefix, limit, ...(delimiter && { delimiter }) });
            expect(found.map(shown)).toEqual(naive(history, { prefix, delimiter }));
          }
        }
      }
    });
  });
