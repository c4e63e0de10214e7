import { evictDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { Writer } from "../../../worker/branch/contract/answers.ts";
import {
  type BranchStub,
  begin,
  chunked,
  completion,
  freshBranch,
  inline,
  startOpenCommit,
  withoutCatalogue,
} from "./support.ts";

const MINE = { key: "mine" };
const OTHERS = { key: "others" };
const PROTECTED = { ok: false, reason: "protected", writer: MINE };

/** A protected branch with one file. */
async function protectedBranch(writer: Writer = MINE): Promise<BranchStub> {
  const branch = await freshBranch();
  await branch.files.put({ path: "a", content: inline("a"), attributes: {} });
  expect(await branch.settings.change({ writer })).toEqual({ ok: true });
  return branch;
}

/** Everything by which a client writes, each done with a key, and whether it is done. */
const WRITES: readonly (readonly [
  string,
  (branch: BranchStub, annotation?: { key: string }) => Promise<unknown>,
])[] = [
  [
    "puts a file",
    (branch, annotation) =>
      branch.files.put({
        path: "b",
        content: inline("b"),
        attributes: {},
        ...(annotation && { annotation }),
      }),
  ],
  [
    "deletes a file",
    (branch, annotation) =>
      branch.files.commit({ operations: [{ delete: "a" }], ...(annotation && { annotation }) }),
  ],
  [
    "sets the tags of a file",
    (branch, annotation) =>
      branch.files.setTags({ path: "a", tags: [["t", "1"]], ...(annotation && { annotation }) }),
  ],
  ["opens an upload", (branch, annotation) => branch.uploads.open({ ...annotation })],
  [
    "begins an upload in parts",
    (branch, annotation) =>
      branch.multipart.create({ path: "big", attributes: {}, ttlMs: 1e6, ...(annotation && { annotation }) }),
  ],
  [
    "opens a commit",
    (branch, annotation) => branch.openCommits.start({ ttlMs: 1e6, ...(annotation && { annotation }) }),
  ],
  ["deletes the branch", (branch, annotation) => branch.lifecycle.destroy({ ...annotation })],
];

describe("of a branch that is protected for a key", () => {
  test.each(WRITES)("nobody else %s", async (_, write) => {
    const branch = await protectedBranch();
    expect(await write(branch, OTHERS)).toEqual(PROTECTED);
    expect(await write(branch)).toEqual(PROTECTED);
    await evictDurableObject(branch);
    expect(await write(branch, OTHERS)).toEqual(PROTECTED);
    expect((await branch.files.read({ path: "a" })).ok).toBe(true);
    expect(await write(branch, MINE)).toMatchObject({ ok: true });
  });

  test("nobody else ends what was begun before: an open commit, and an upload in parts", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    const staged = { path: "staged", content: inline("x"), attributes: {}, openCommit };
    expect((await branch.files.put({ ...staged, annotation: OTHERS })).ok).toBe(true);
    const upload = await begin(branch, { path: "parts", annotation: OTHERS });
    const part = chunked("part", ["b/part"]);
    await branch.multipart.addPart({ upload, number: 1, content: part });
    await branch.settings.change({ writer: MINE });
    const whole = completion(upload, { 1: part });
    expect(await branch.multipart.complete({ ...whole, annotation: OTHERS })).toEqual(PROTECTED);
    expect(await branch.files.put({ ...staged, path: "late", annotation: OTHERS })).toEqual(PROTECTED);
    expect(await branch.openCommits.finish({ openCommit, annotation: OTHERS })).toEqual(PROTECTED);
    expect(await branch.lifecycle.status()).toMatchObject({ head: null });
    expect(await branch.multipart.complete({ ...whole, annotation: MINE })).toMatchObject({ ok: true });
    expect(await branch.openCommits.finish({ openCommit, annotation: MINE })).toMatchObject({
      state: "finished",
    });
    expect(await branch.openCommits.finish({ openCommit, annotation: OTHERS })).toMatchObject({
      state: "finished",
    });
  });

  test("nobody else finishes an open commit that its writer began", async () => {
    const branch = await protectedBranch();
    const opened = await branch.openCommits.start({ ttlMs: 1e6, annotation: MINE });
    const openCommit = opened.ok ? opened.openCommit : "";
    const staged = { path: "staged", content: inline("x"), attributes: {}, openCommit, annotation: MINE };
    expect((await branch.files.put(staged)).ok).toBe(true);
    expect(await branch.openCommits.finish({ openCommit, annotation: OTHERS })).toEqual(PROTECTED);
    expect(await branch.openCommits.finish({ openCommit })).toEqual(PROTECTED);
    expect(await branch.openCommits.finish({ openCommit, annotation: MINE })).toMatchObject({
      state: "finished",
    });
  });

  test("nobody else erases a version, or puts a rule that deletes", async () => {
    const branch = await protectedBranch();
    const found = await branch.files.versions({ prefix: "", limit: 1 });
    const [entry] = found.ok ? found.entries : [];
    const versions = entry && "version" in entry ? [{ path: "a", version: entry.version }] : [];
    const rule = { id: "r", enabled: true, prefix: "", filter: "empty", expiration: { days: 1 } } as const;
    const rulesOf = ({ key }: { key: string }) => ({ lifecycle: { rules: [rule], key } });
    expect(await branch.settings.change(rulesOf(OTHERS))).toEqual(PROTECTED);
    expect(await branch.erasures.erase({ versions, annotation: OTHERS })).toEqual(PROTECTED);
    expect(await branch.erasures.erase({ versions })).toEqual(PROTECTED);
    expect((await branch.files.read({ path: "a" })).ok).toBe(true);
    expect(await branch.settings.change(rulesOf(MINE))).toEqual({ ok: true });
    expect(await branch.erasures.erase({ versions, annotation: MINE })).toMatchObject({
      erased: [{ path: "a" }],
    });
  });

  test("puts that wait together are each held to it", async () => {
    const branch = await protectedBranch();
    const answers = await Promise.all(
      [MINE, OTHERS, MINE, OTHERS].map((annotation, n) =>
        branch.files.put({ path: `p${n}`, content: inline("x"), attributes: {}, annotation }),
      ),
    );
    expect(answers.map(({ ok }) => ok)).toEqual([true, false, true, false]);
  });

  test("everybody reads, and everybody writes once it ends, also while the catalogue can't be told", async () => {
    const branch = await protectedBranch();
    expect((await branch.files.read({ path: "a" })).ok).toBe(true);
    expect(await withoutCatalogue(async () => await branch.settings.change({ writer: null }))).toEqual({
      ok: true,
    });
    const put = { path: "b", content: inline("b"), attributes: {}, annotation: OTHERS };
    expect((await branch.files.put(put)).ok).toBe(true);
  });

  test("the protection ends with the branch", async () => {
    const branch = await protectedBranch();
    expect(await branch.lifecycle.destroy(MINE)).toEqual({ ok: true });
    await branch.lifecycle.create();
    expect(await branch.settings.read()).toMatchObject({ writer: null });
    const put = { path: "b", content: inline("b"), attributes: {}, annotation: OTHERS };
    expect((await branch.files.put(put)).ok).toBe(true);
  });
});

describe("the output of a pipeline", () => {
  const owner = { pipeline: "edges", uid: "u1" };

  async function outputBranch(): Promise<{ branch: BranchStub; epoch: number }> {
    const branch = await freshBranch();
    await branch.lifecycle.destroy();
    const claimed = await branch.output.claim(owner);
    if (!claimed.ok) throw new Error(claimed.reason);
    return { branch, epoch: claimed.epoch };
  }

  test("is protected for that pipeline, whose jobs write on, and stays so when the pipeline gives it up", async () => {
    const { branch, epoch } = await outputBranch();
    const writer = { pipeline: "edges" };
    expect(await branch.settings.change({ writer })).toEqual({ ok: true });
    const output = { uid: "u1", epoch, origin: "job", operations: [] };
    expect(await branch.output.commit(output)).toMatchObject({ ok: true });
    expect((await branch.output.claim(owner)).ok).toBe(true);
    const put = { path: "a", content: inline("a"), attributes: {}, annotation: OTHERS };
    expect(await branch.files.put(put)).toEqual({ ok: false, reason: "pipeline-output" });
    await branch.output.release({ uid: "u1", destroy: false });
    expect(await branch.files.put(put)).toEqual({ ok: false, reason: "protected", writer });
    expect(await branch.settings.change({ writer: null })).toEqual({ ok: true });
    expect((await branch.files.put(put)).ok).toBe(true);
  });

  test("is not protected for another pipeline, or for a key", async () => {
    const { branch } = await outputBranch();
    expect(await branch.settings.change({ writer: { pipeline: "other" } })).toEqual({
      ok: false,
      reason: "not-its-output",
    });
    expect(await branch.settings.change({ writer: MINE, public: true })).toEqual({
      ok: false,
      reason: "pipeline-output",
    });
    expect(await branch.settings.read()).toMatchObject({ writer: null, public: false });
  });

  test("goes with its pipeline, also if it is protected for that", async () => {
    const { branch } = await outputBranch();
    await branch.settings.change({ writer: { pipeline: "edges" } });
    await branch.output.release({ uid: "u1", destroy: true });
    expect(await branch.lifecycle.status()).toEqual({ ok: false, reason: "no-such-branch" });
  });

  test("alone is protected for a pipeline", async () => {
    const branch = await freshBranch();
    expect(await branch.settings.change({ writer: { pipeline: "edges" } })).toEqual({
      ok: false,
      reason: "not-its-output",
    });
  });
});
