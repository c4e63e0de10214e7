import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { parseBucketName } from "../../../protocol/names.ts";
import type { ErasureCalls } from "../../../worker/branch/contract/erasures.ts";
import type { ForkCalls } from "../../../worker/branch/contract/forks.ts";
import { type EraseOutcome, eraseThroughForks } from "../../../worker/erase.ts";
import { atRest, forkOf, rowsOf } from "./fork-support.ts";
import { crashAt, expectRefsRight, goOn } from "./large-support.ts";
import {
  type BranchStub,
  branchOf,
  chunked,
  committed,
  freshBranch,
  freshBucket,
  ledgerOf,
  listed,
  put,
} from "./support.ts";

const branches = (address: { repo: string; branch: string }) => branchOf(`${address.branch}.${address.repo}`);

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

afterEach(() => {
  vi.restoreAllMocks();
});

async function putLarge(branch: BranchStub, path: string): Promise<string> {
  const opened = await branch.uploads.open({});
  if (!opened.ok) throw new Error(opened.reason);
  const content = chunked("large", ["b/1"]);
  return committed(await branch.files.put({ path, content, attributes: {}, upload: opened.upload })) ?? "";
}

/** The newest version of a path. */
async function newest(branch: BranchStub, path: string): Promise<string> {
  const page = await branch.files.versions({ prefix: path, limit: 1 });
  const [entry] = page.ok ? page.entries : [];
  if (!entry || entry.kind === "prefix") throw new Error(`no version of ${path}`);
  return entry.version;
}

function erase(
  bucket: string,
  versions: readonly { path: string; version: string }[],
  { forks = true, mayErase = () => true }: { forks?: boolean; mayErase?: (repo: string) => boolean } = {},
): Promise<EraseOutcome> {
  const address = parseBucketName(bucket);
  if (!address) throw new Error(bucket);
  return eraseThroughForks(branches, { address, versions, forks: forks ? { mayErase } : "refuse" });
}

describe("a version that a fork has", () => {
  test("is not erased, unless the fork's is to go too; then it goes from both, and the bytes with it", async () => {
    const from = freshBucket();
    const parent = await freshBranch(from);
    const version = await putLarge(parent, "a");
    await put(parent, "b");
    const { bucket, branch } = await forkOf(from);
    await put(parent, "a", "later");
    const asked = [{ path: "a", version }];
    expect(await parent.erasures.erase({ versions: asked })).toMatchObject({
      ok: false,
      reason: "held-by-forks",
      forks: [{ bucket, paths: ["a"] }],
    });
    expect(await erase(from, asked, { forks: false })).toEqual({
      ok: false,
      reason: "held",
      forks: [{ bucket, paths: ["a"] }],
    });
    expect(await erase(from, asked, { mayErase: () => false })).toMatchObject({
      reason: "fork-denied",
      bucket,
    });
    expect(await listed(branch)).toEqual(["a", "b"]);
    expect(await ledgerOf(parent)).toMatchObject({ condemned: [] });
    const done = await erase(from, asked);
    expect(done).toMatchObject({ ok: true, commit: null, forks: [{ bucket, erased: [{ path: "a" }] }] });
    expect(await listed(branch)).toEqual(["b"]);
    expect(await rowsOf(branch)).toMatchObject({ onLoan: 0 });
    expect(await ledgerOf(parent)).toMatchObject({ condemned: ["b/1"], blobs: [] });
    await expectRefsRight(parent);
    await expectRefsRight(branch);
  });

  test("that was made before it, or that has erased it by itself, keeps nothing back", async () => {
    const from = freshBucket();
    const parent = await freshBranch(from);
    await put(parent, "b");
    const early = await forkOf(from);
    const version = await putLarge(parent, "a");
    const late = await forkOf(from);
    expect(await erase(late.bucket, [{ path: "a", version: await newest(late.branch, "a") }])).toMatchObject({
      ok: true,
    });
    expect(await erase(from, [{ path: "a", version }], { forks: false })).toMatchObject({
      ok: true,
      forks: [],
    });
    expect(await listed(early.branch)).toEqual(["b"]);
    expect(await ledgerOf(parent)).toMatchObject({ condemned: ["b/1"] });
  });

  test("goes from a fork of a fork first, also if the one in the middle is deleted", async () => {
    const from = freshBucket();
    const parent = await freshBranch(from);
    const version = await putLarge(parent, "a");
    const middle = await forkOf(from);
    const last = await forkOf(middle.bucket);
    expect(await middle.branch.lifecycle.destroy()).toEqual({ ok: true });
    const asked = [{ path: "a", version }];
    expect(await erase(from, asked, { forks: false })).toMatchObject({
      reason: "held",
      forks: [{ bucket: middle.bucket }],
    });
    const done = await erase(from, asked);
    expect(done).toMatchObject({ ok: true, forks: [{ bucket: last.bucket }, { bucket: middle.bucket }] });
    expect(await listed(last.branch)).toEqual([]);
    expect(await ledgerOf(parent)).toMatchObject({ condemned: ["b/1"] });
  });

  test("keeps its bytes as long as the fork has them at another path, and no longer", async () => {
    const from = freshBucket();
    const parent = await freshBranch(from);
    const version = await putLarge(parent, "a");
    const { bucket, branch } = await forkOf(from);
    const { digest, size } = chunked("large", []);
    const copy = committed(await branch.files.commit({ operations: [{ put: "copy", digest, size }] })) ?? "";
    const done = await erase(from, [{ path: "a", version }]);
    expect(done).toMatchObject({ ok: true, onLoanTo: [{ bucket, digest, size }] });
    expect(await listed(parent)).toEqual([]);
    expect(await listed(branch)).toEqual(["copy"]);
    await atRest(parent, branch);
    expect(await ledgerOf(parent)).toMatchObject({ condemned: [], blobs: [["b/1", 1]] });
    await erase(bucket, [{ path: "copy", version: copy }]);
    await expect.poll(() => ledgerOf(parent)).toMatchObject({ condemned: ["b/1"], blobs: [] });
  });

  test("keeps its bytes for a fork until that is gone", async () => {
    const from = freshBucket();
    const parent = await freshBranch(from);
    const version = await putLarge(parent, "a");
    const { branch } = await forkOf(from);
    const { digest, size } = chunked("large", []);
    await branch.files.commit({ operations: [{ put: "copy", digest, size }] });
    await erase(from, [{ path: "a", version }]);
    expect(await branch.lifecycle.destroy()).toEqual({ ok: true });
    await goOn(branch);
    await expect.poll(async () => (await ledgerOf(parent)).blobs).toEqual([]);
  });

  test("that was replaced by one that the fork erased is named by nothing once the fork is deleted", async () => {
    const from = freshBucket();
    const parent = await freshBranch(from);
    await put(parent, "a");
    const { bucket, branch } = await forkOf(from);
    const newer = await put(branch, "a", "newer");
    expect(await erase(bucket, [{ path: "a", version: newer ?? "" }])).toMatchObject({ ok: true });
    expect(await rowsOf(branch)).toMatchObject({ revived: 1 });
    expect(await branch.lifecycle.destroy()).toEqual({ ok: true });
    await expect.poll(() => rowsOf(branch)).toMatchObject({ files: 0, forks: 0 });
    expect(await rowsOf(branch)).toMatchObject({ revived: 0 });
    await atRest(branch, parent);
  });

  test("waits for a fork whose rows are on their way", async () => {
    const from = freshBucket();
    const parent = await freshBranch(from);
    const version = await putLarge(parent, "a");
    const branch = branchOf(freshBucket());
    const crash = crashAt({
      statement: /INSERT INTO files \(gen, path, born, died, kind, digest, size, attributes\)\s+SELECT/,
      nth: 1,
    });
    expect(await branch.lifecycle.fork({ parent: from })).toMatchObject({ ok: true, ready: false });
    await crash.reached();
    expect(await erase(from, [{ path: "a", version }])).toEqual({ ok: false, reason: "forking" });
    crash.resume();
    await goOn(branch);
    await expect.poll(() => listed(branch).catch(() => [])).toEqual(["a"]);
  });

  test("goes in the end, wherever a crash comes between the steps, and no fork ever names bytes that are gone", async () => {
    const from = freshBucket();
    const parent = await freshBranch(from);
    const version = await putLarge(parent, "a");
    const middle = await forkOf(from);
    const last = await forkOf(middle.bucket);
    const asked = [{ path: "a", version }];
    for (let calls = 0; ; calls++) {
      let left = calls;
      const crashing = (address: { repo: string; branch: string }) => {
        const branch = branches(address);
        const counted =
          <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
          (...args: A) => {
            if (left-- <= 0) return Promise.reject(new Error("crash"));
            return call(...args);
          };
        const erase = (request: Parameters<ErasureCalls["erase"]>[0]) => branch.erasures.erase(request);
        const copies = (request: Parameters<ForkCalls["copies"]>[0]) => branch.forks.copies(request);
        return { erasures: { erase: counted(erase) }, forks: { copies: counted(copies) } };
      };
      const address = parseBucketName(from) ?? { repo: "", branch: "" };
      const done = await eraseThroughForks(crashing, {
        address,
        versions: asked,
        forks: { mayErase: () => true },
      }).catch(() => undefined);
      const named = [middle.branch, last.branch].map((branch) => listed(branch));
      if ((await Promise.all(named)).flat().length > 0) {
        expect(await ledgerOf(parent)).toMatchObject({ condemned: [], blobs: [["b/1", 1]] });
      }
      if (done?.ok) break;
    }
    expect([await listed(parent), await listed(middle.branch), await listed(last.branch)]).toEqual([
      [],
      [],
      [],
    ]);
    expect(await ledgerOf(parent)).toMatchObject({ condemned: ["b/1"], blobs: [] });
  });
});
