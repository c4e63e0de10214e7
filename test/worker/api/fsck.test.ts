// @module-tag rest
import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, test } from "vitest";
import type { FsckFault, FsckPiece } from "../../../protocol/repos.ts";
import { readMilestone, writeMilestone } from "../../../worker/blobs/hash/resumable-hasher.ts";
import { verifyContent } from "../../../worker/blobs/read/verify-content.ts";
import { MemoryStore } from "../blobs/memory-store.ts";
import { forkOf } from "../branch/fork-support.ts";
import { branchOf, inObject } from "../branch/support.ts";
import { begin, bytes, complete, completed, MIB, part } from "../s3/multipart/support.ts";
import { good as s3, withManifestBound } from "../s3/support.ts";
import { failed, good, makeBranch } from "./support.ts";

let repos = 0;
let repo = "";
let bucket = "";

beforeEach(async () => {
  repo = `fsck-${repos++}`;
  bucket = `master.${repo}`;
  await makeBranch({ repo, branch: "master" });
});

/** All pieces of a check together. */
async function checked(ask: object = {}, of = repo, branch = "master") {
  const total = { names: 0, contents: 0, bytes: 0, faults: [] as FsckFault[] };
  let done = 0;
  for (let after: string | null | undefined; after !== null; ) {
    const body = after === undefined ? ask : { ...ask, after };
    const piece: FsckPiece = await good(`POST /repos/${of}/branches/${branch}/fsck`, { body });
    total.names += piece.names;
    total.contents += piece.contents;
    total.bytes += piece.bytes;
    total.faults.push(...piece.faults);
    expect(piece.done).toBeGreaterThanOrEqual(done);
    done = piece.done;
    after = piece.next;
  }
  expect(done).toBe(1);
  return total;
}

/** The blobs of a bucket's files, in the order of their chunks. */
function blobsOf(path: string): Promise<string[]> {
  return inObject(branchOf(bucket), async (branch) => {
    const read = await branch.files.read({ path });
    if (!read.ok) throw new Error(read.reason);
    return read.body.kind === "chunks" ? read.body.chunks.map(({ blob }) => blob) : [];
  });
}

/** A small file, one of two blobs that is there twice, one in parts whose list is in a manifest, and an old version. */
async function someFiles(): Promise<void> {
  await s3(`PUT /${bucket}/small`, { body: "before" });
  await s3(`PUT /${bucket}/small`, { body: "now" });
  await s3(`PUT /${bucket}/large`, { body: bytes(5 * MIB, 1) });
  await s3(`PUT /${bucket}/same`, { body: bytes(5 * MIB, 1) });
  await s3(`PUT /${bucket}/dir/`, { body: "" });
  const upload = await begin(`/${bucket}/parts`);
  const parts = [await part(upload, 1, bytes(5 * MIB, 2)), await part(upload, 2, "end")];
  await withManifestBound(300, () => completed(complete(upload, parts)));
}

describe("a check of a branch", () => {
  test("proves every name of every commit, and the bytes of every content", async () => {
    await someFiles();
    const { names, contents, bytes, faults } = await checked();
    expect(faults).toEqual([]);
    // The two parts are contents, too.
    expect({ names, contents, bytes }).toEqual({ names: 6, contents: 6, bytes: 6 + 3 + 15 * MIB + 6 });
  });

  test("tells of bytes that are gone, cut short or altered, with their names", async () => {
    await someFiles();
    const [first = "", second = ""] = await blobsOf("large");
    const there = await (await env.BLOBS.get(second))?.arrayBuffer();
    const content = (await s3(`HEAD /${bucket}/large`)).headers.get("etag")?.replaceAll('"', "");
    const damages: [() => Promise<unknown>, RegExp][] = [
      [() => env.BLOBS.put(second, new Uint8Array(MIB)), /its bytes are [0-9a-f]{64}-5242880/],
      [() => env.BLOBS.put(second, new Uint8Array(10)), /does not have the bytes/],
      [() => env.BLOBS.delete(second), /is missing/],
    ];
    for (const [damage, message] of damages) {
      await damage();
      const { faults } = await checked();
      expect(faults).toMatchObject([{ content, message: expect.stringMatching(message) }]);
      expect(faults[0]?.names.map(({ path }) => path)).toEqual(["large", "same"]);
      expect(faults[0]?.names[0]?.commit).toMatch(/^[0-9A-Z]{26}$/);
    }
    await env.BLOBS.put(second, there ?? "");
    expect((await checked()).faults).toEqual([]);
    await env.BLOBS.delete(first);
    expect((await checked()).faults).toHaveLength(1);
  });

  test("tells of a manifest that is gone or is none", async () => {
    await someFiles();
    const { objects } = await env.BLOBS.list({ prefix: "b/" });
    const mine = await runInDurableObject(branchOf(bucket), (_, { storage: { sql } }) =>
      String(sql.exec("SELECT body ->> 'blob' AS blob FROM contents WHERE kind = 2").one().blob),
    );
    expect(objects.map(({ key }) => key)).toContain(mine);
    await env.BLOBS.put(mine, "x".repeat(1000));
    expect((await checked()).faults).toMatchObject([
      { message: expect.stringMatching(/manifest can't be read/) },
    ]);
    await env.BLOBS.delete(mine);
    expect((await checked()).faults).toMatchObject([{ names: [{ path: "parts" }] }]);
  });

  test("names the branch that an erased content stays for, when that is damaged", async () => {
    await s3(`PUT /${bucket}/large`, { body: bytes(5 * MIB, 3) });
    const version = (await s3(`HEAD /${bucket}/large`)).headers.get("x-amz-version-id");
    const fork = await forkOf(bucket);
    await s3(`PUT /${fork.bucket}/copy`, { headers: { "x-amz-copy-source": `${fork.bucket}/large` } });
    const [blob = ""] = await blobsOf("large");
    const body = { path: "large", version, forks: true };
    await good(`POST /repos/${repo}/branches/master/erasures`, { body });
    expect(await checked()).toMatchObject({ names: 0, contents: 1, faults: [] });
    await env.BLOBS.delete(blob);
    expect((await checked()).faults).toMatchObject([
      { message: expect.stringContaining("is missing"), names: [], pinnedFor: [fork.bucket] },
    ]);
  });

  test("tells of a name whose content no table has, and of inline bytes that are others", async () => {
    await someFiles();
    await runInDurableObject(branchOf(bucket), (_, { storage: { sql } }) => {
      sql.exec("DELETE FROM contents WHERE size = 6 AND kind = 0");
      sql.exec("UPDATE contents SET body = x'61' WHERE size = 3 AND kind = 0");
    });
    const { faults } = await checked();
    expect(faults).toMatchObject([
      { content: null, names: [{ path: "small" }] },
      { content: expect.stringMatching(/-3$/), names: [{ path: "small" }] },
    ]);
  });

  test("reads a share of the contents, and another one with another seed", async () => {
    for (let file = 0; file < 40; file++) await s3(`PUT /${bucket}/${file}`, { body: `file ${file}` });
    const half = await checked({ sample: 0.5, seed: 1 });
    expect(half).toMatchObject({ names: 40, faults: [] });
    expect(half.contents).toBeGreaterThan(5);
    expect(half.contents).toBeLessThan(35);
    expect((await checked({ sample: 0.5, seed: 0x8000_0001 })).contents).toBe(40 - half.contents);
  });

  test("of a fork reads what the parent lends, and of a deleted branch what jobs may still read", async () => {
    await someFiles();
    const fork = await forkOf(bucket);
    const [branch = "", of = ""] = fork.bucket.split(".");
    await branchOf(bucket).lifecycle.destroy();
    expect(await checked({}, of, branch)).toMatchObject({ names: 5, faults: [] });
    expect(await checked()).toMatchObject({ names: 6, faults: [] });
    await env.BLOBS.delete(await blobsOfFork(fork.bucket));
    expect((await checked({}, of, branch)).faults).toHaveLength(1);
  });

  test("refuses what no piece has answered, a share of nothing, and a branch that never was", async () => {
    const route = `POST /repos/${repo}/branches/master/fsck`;
    for (const after of ["", "{", '{"row":"x"}', '{"gen":1}']) {
      expect(await failed(route, { body: { after } })).toMatchObject({
        status: 400,
        issues: [{ path: "after" }],
      });
    }
    expect(await failed(route, { body: { sample: 0 } })).toMatchObject({
      status: 400,
      issues: [{ path: "sample" }],
    });
    expect(await failed("POST /repos/never/branches/was/fsck", { body: {} })).toMatchObject({
      status: 404,
      code: "NoSuchBranch",
    });
  });

  async function blobsOfFork(of: string): Promise<string[]> {
    return inObject(branchOf(of), async (branch) => {
      const read = await branch.files.read({ path: "large" });
      return read.ok && read.body.kind === "chunks" ? read.body.chunks.map(({ blob }) => blob) : [];
    });
  }
});

describe("a content of many bytes", () => {
  const whole = bytes(5 * MIB + 123, 3);
  const store = new MemoryStore();
  const chunks = [0, 1, 2].map((index) => {
    const part = whole.subarray(index * 2 * MIB + (index > 0 ? 7 : 0), (index + 1) * 2 * MIB + 7);
    store.blobs.set(`b${index}`, part.slice());
    return { blob: `b${index}`, offset: 0, length: part.length, leaves: null };
  });

  test("is proved in pieces, each of which goes on where the last one ended", async () => {
    const digest = (await digestOf(whole)) ?? "";
    const content = { digest, size: whole.length, body: { kind: "chunks", chunks } as const };
    let from = null;
    let pieces = 0;
    for (;;) {
      const verified = await verifyContent(store, content, { from, mostBytes: 2 * MIB });
      pieces++;
      if (verified.state !== "more") {
        expect(verified).toEqual({ state: "good" });
        break;
      }
      from = readMilestone(writeMilestone(verified.milestone, "x"), "x");
    }
    expect(pieces).toBe(3);
    const other = { ...content, digest: "0".repeat(64) };
    expect(await verifyContent(store, other, { from: null, mostBytes: 9 * MIB })).toMatchObject({
      state: "damaged",
    });
    const longer = { ...content, size: whole.length + 1 };
    expect(await verifyContent(store, longer, { from: null, mostBytes: 9 * MIB })).toMatchObject({
      state: "damaged",
      fault: expect.stringMatching(/list of chunks ends/),
    });
  });
});

async function digestOf(whole: Uint8Array<ArrayBuffer>): Promise<string | undefined> {
  const put = await s3(`PUT /${bucket}/digest`, { body: whole });
  return put.headers.get("etag")?.replaceAll('"', "").split("-")[0];
}

describe("the list of what is to be checked", () => {
  test("has every branch that ever was, page by page", async () => {
    await branchOf(bucket).lifecycle.destroy();
    await makeBranch({ repo, branch: "dev" });
    const found: object[] = [];
    for (let after: string | null = ""; after !== null; ) {
      const page = await good(`GET /fsck${after === "" ? "" : `?after=${encodeURIComponent(after)}`}`);
      found.push(...page.branches);
      after = page.next;
    }
    expect(found).toEqual(
      expect.arrayContaining([
        { repo, branch: "dev" },
        { repo, branch: "master" },
      ]),
    );
  });
});

describe("a sweep that is asked for", () => {
  test("counts what nothing names, or removes it", async () => {
    await someFiles();
    const branch = branchOf(bucket);
    const status = await branch.lifecycle.status();
    if (!status.ok) throw new Error(status.reason);
    const lost = `b/00/${status.uid}/${"0".repeat(64)}-7.0badcafe.01ARZ3NDEKTSV4RRFFQ69G5FAV`;
    await env.BLOBS.put(lost, "7 bytes");
    const route = `/repos/${repo}/branches/master/sweep`;
    for (const remove of [false, true]) {
      const { since } = await good(`POST ${route}`, { body: { remove } });
      const state = () => good(`GET ${route}?since=${since}`);
      expect(await state()).toMatchObject({ done: false });
      while (!(await state()).done) await runDurableObjectAlarm(branch);
      expect(await state()).toMatchObject({ done: true, found: 1, foundBytes: 7 });
      expect((await env.BLOBS.head(lost)) === null).toBe(remove);
    }
    expect((await checked()).faults).toEqual([]);
  });
});
