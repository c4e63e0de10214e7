import { evictDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { Writer } from "../../../worker/branch/contract.ts";
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
  await branch.put({ path: "a", content: inline("a"), attributes: {} });
  expect(await branch.configure({ writer })).toEqual({ ok: true });
  return branch;
}

/** Everything by which a client writes, each done with a key, and whether it is done. */
const WRITES: readonly (readonly [
  string,
  (branch: BranchStub, note?: { key: string }) => Promise<unknown>,
])[] = [
  [
    "puts a file",
    (branch, note) => branch.put({ path: "b", content: inline("b"), attributes: {}, ...(note && { note }) }),
  ],
  [
    "deletes a file",
    (branch, note) => branch.commit({ operations: [{ delete: "a" }], ...(note && { note }) }),
  ],
  [
    "sets the tags of a file",
    (branch, note) => branch.setTags({ path: "a", tags: [["t", "1"]], ...(note && { note }) }),
  ],
  ["opens an upload", (branch, note) => branch.openUpload({ ...note })],
  [
    "begins an upload in parts",
    (branch, note) =>
      branch.createMultipart({ path: "big", attributes: {}, ttlMs: 1e6, ...(note && { note }) }),
  ],
  ["opens a commit", (branch, note) => branch.startOpenCommit({ ttlMs: 1e6, ...(note && { note }) })],
  ["deletes the branch", (branch, note) => branch.destroy({ ...note })],
];

describe("of a branch that is protected for a key", () => {
  test.each(WRITES)("nobody else %s", async (_, write) => {
    const branch = await protectedBranch();
    expect(await write(branch, OTHERS)).toEqual(PROTECTED);
    expect(await write(branch)).toEqual(PROTECTED);
    await evictDurableObject(branch);
    expect(await write(branch, OTHERS)).toEqual(PROTECTED);
    expect((await branch.read({ path: "a" })).ok).toBe(true);
    expect(await write(branch, MINE)).toMatchObject({ ok: true });
  });

  test("nobody else ends what was begun before: an open commit, and an upload in parts", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    const staged = { path: "staged", content: inline("x"), attributes: {}, openCommit };
    expect((await branch.put({ ...staged, note: OTHERS })).ok).toBe(true);
    const upload = await begin(branch, { path: "parts", note: OTHERS });
    const part = chunked("part", ["b/part"]);
    await branch.addPart({ upload, number: 1, content: part });
    await branch.configure({ writer: MINE });
    const whole = completion(upload, { 1: part });
    expect(await branch.completeMultipart({ ...whole, note: OTHERS })).toEqual(PROTECTED);
    expect(await branch.put({ ...staged, path: "late", note: OTHERS })).toEqual(PROTECTED);
    expect(await branch.finishOpenCommit({ openCommit, note: OTHERS })).toEqual(PROTECTED);
    expect(await branch.status()).toMatchObject({ head: null });
    expect(await branch.completeMultipart({ ...whole, note: MINE })).toMatchObject({ ok: true });
    expect(await branch.finishOpenCommit({ openCommit, note: MINE })).toMatchObject({ state: "finished" });
    expect(await branch.finishOpenCommit({ openCommit, note: OTHERS })).toMatchObject({ state: "finished" });
  });

  test("puts that wait together are each held to it", async () => {
    const branch = await protectedBranch();
    const answers = await Promise.all(
      [MINE, OTHERS, MINE, OTHERS].map((note, n) =>
        branch.put({ path: `p${n}`, content: inline("x"), attributes: {}, note }),
      ),
    );
    expect(answers.map(({ ok }) => ok)).toEqual([true, false, true, false]);
  });

  test("everybody reads, and everybody writes once it ends, also while the catalogue can't be told", async () => {
    const branch = await protectedBranch();
    expect((await branch.read({ path: "a" })).ok).toBe(true);
    expect(await withoutCatalogue(async () => await branch.configure({ writer: null }))).toEqual({
      ok: true,
    });
    const put = { path: "b", content: inline("b"), attributes: {}, note: OTHERS };
    expect((await branch.put(put)).ok).toBe(true);
  });

  test("the protection ends with the branch", async () => {
    const branch = await protectedBranch();
    expect(await branch.destroy(MINE)).toEqual({ ok: true });
    await branch.create();
    expect(await branch.settings()).toMatchObject({ writer: null });
    const put = { path: "b", content: inline("b"), attributes: {}, note: OTHERS };
    expect((await branch.put(put)).ok).toBe(true);
  });
});

describe("the output of a pipeline", () => {
  const owner = { pipeline: "edges", uid: "u1" };

  async function outputBranch(): Promise<{ branch: BranchStub; epoch: number }> {
    const branch = await freshBranch();
    await branch.destroy();
    const claimed = await branch.claim(owner);
    if (!claimed.ok) throw new Error(claimed.reason);
    return { branch, epoch: claimed.epoch };
  }

  test("is protected for that pipeline, whose jobs write on, and stays so when the pipeline gives it up", async () => {
    const { branch, epoch } = await outputBranch();
    const writer = { pipeline: "edges" };
    expect(await branch.configure({ writer })).toEqual({ ok: true });
    const output = { uid: "u1", epoch, origin: "job", operations: [] };
    expect(await branch.commitOutput(output)).toMatchObject({ ok: true });
    expect((await branch.claim(owner)).ok).toBe(true);
    const put = { path: "a", content: inline("a"), attributes: {}, note: OTHERS };
    expect(await branch.put(put)).toEqual({ ok: false, reason: "pipeline-output" });
    await branch.release({ uid: "u1", destroy: false });
    expect(await branch.put(put)).toEqual({ ok: false, reason: "protected", writer });
    expect(await branch.configure({ writer: null })).toEqual({ ok: true });
    expect((await branch.put(put)).ok).toBe(true);
  });

  test("is not protected for another pipeline, or for a key", async () => {
    const { branch } = await outputBranch();
    expect(await branch.configure({ writer: { pipeline: "other" } })).toEqual({
      ok: false,
      reason: "not-its-output",
    });
    expect(await branch.configure({ writer: MINE, public: true })).toEqual({
      ok: false,
      reason: "pipeline-output",
    });
    expect(await branch.settings()).toMatchObject({ writer: null, public: false });
  });

  test("goes with its pipeline, also if it is protected for that", async () => {
    const { branch } = await outputBranch();
    await branch.configure({ writer: { pipeline: "edges" } });
    await branch.release({ uid: "u1", destroy: true });
    expect(await branch.status()).toEqual({ ok: false, reason: "no-such-branch" });
  });

  test("alone is protected for a pipeline", async () => {
    const branch = await freshBranch();
    expect(await branch.configure({ writer: { pipeline: "edges" } })).toEqual({
      ok: false,
      reason: "not-its-output",
    });
  });
});
