import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { UPLOAD_LEASE_MS } from "../../../worker/branch/contract.ts";
import {
  type BranchStub,
  branchOf,
  chunked,
  committed,
  freshBranch,
  freshBucket,
  inline,
  ledgerOf,
} from "./support.ts";

async function open(branch: BranchStub, lease?: string): Promise<string> {
  const opened = await branch.openUpload(lease === undefined ? {} : { lease });
  if (!opened.ok) throw new Error(opened.reason);
  return opened.upload;
}

const REFUSED = { ok: false, reason: "no-such-upload" };

describe("uploads", () => {
  test("an upload is named for its branch, so that its id alone finds it", async () => {
    const bucket = freshBucket();
    const upload = await open(await freshBranch(bucket));
    expect(upload).toMatch(new RegExp(`^${bucket.replace(".", "\\.")}\\.[0-9A-HJKMNP-TV-Z]{26}$`));
  });

  test("contents are kept for the upload until a commit names them, and it closes the upload", async () => {
    const branch = await freshBranch();
    const upload = await open(branch);
    const content = chunked("large", ["b/1"]);
    expect(await branch.addContents({ upload, contents: [content] })).toEqual({ ok: true });
    expect(await branch.addContents({ upload, contents: [content] })).toEqual({ ok: true });
    expect(await ledgerOf(branch)).toMatchObject({
      refs: [[5, 1]],
      blobs: [["b/1", 1]],
      condemned: [],
      holds: 1,
    });
    const { digest, size } = content;
    committed(await branch.commit({ upload, operations: [{ put: "a", digest, size }] }));
    expect(await ledgerOf(branch)).toEqual({
      refs: [[5, 1]],
      blobs: [["b/1", 1]],
      condemned: [],
      holds: 0,
      uploads: 0,
    });
    expect(await branch.commit({ upload, operations: [{ delete: "a" }] })).toEqual(REFUSED);
    expect(await branch.addContents({ upload, contents: [content] })).toEqual(REFUSED);
    expect(await branch.reserve({ upload, contents: [] })).toEqual(REFUSED);
    expect(await branch.renewUpload({ upload })).toEqual(REFUSED);
  });

  test("a refused commit leaves the upload open", async () => {
    const branch = await freshBranch();
    const upload = await open(branch);
    const content = inline("x");
    await branch.addContents({ upload, contents: [content] });
    const put = (path: string) => ({ put: path, digest: content.digest, size: content.size });
    expect(await branch.commit({ upload, operations: [put("a"), put("a/b")] })).toMatchObject({ ok: false });
    expect(committed(await branch.commit({ upload, operations: [put("a")] }))).not.toBeNull();
  });

  test("reserving answers what is missing and keeps the rest also when its file goes", async () => {
    const branch = await freshBranch();
    const [there, missing] = [inline("there"), inline("missing")];
    await branch.put({ path: "a", content: there, attributes: {} });
    const upload = await open(branch);
    const asked = [there, missing].map(({ digest, size }) => ({ digest, size }));
    expect(await branch.reserve({ upload, contents: asked })).toEqual({ ok: true, missing: [asked[1]] });
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[5, 2]], holds: 1 });
  });

  test("what only an aborted upload kept goes, its blobs are condemned, and what others keep stays", async () => {
    const branch = await freshBranch();
    const [upload, other] = [await open(branch), await open(branch)];
    const [own, shared] = [chunked("own", ["b/own", "b/more"]), chunked("shared", ["b/shared"])];
    await branch.addContents({ upload, contents: [own, shared] });
    await branch.addContents({ upload: other, contents: [shared] });
    await branch.abortUpload({ upload });
    expect(await ledgerOf(branch)).toEqual({
      refs: [[6, 1]],
      blobs: [["b/shared", 1]],
      condemned: ["b/more", "b/own"],
      holds: 1,
      uploads: 1,
    });
    await branch.abortUpload({ upload });
    expect(await branch.content(own)).toEqual({ ok: false, reason: "no-such-content" });
  });

  test("the blobs of content that the branch has already are condemned, and the first ones stay", async () => {
    const branch = await freshBranch();
    const [first, second] = [await open(branch), await open(branch)];
    const [kept, duplicate] = [chunked("same", ["b/first"]), chunked("same", ["b/second"])];
    committed(await branch.put({ path: "a", content: kept, attributes: {}, upload: first }));
    const put = await branch.put({ path: "b", content: duplicate, attributes: {}, upload: second });
    expect(put.ok).toBe(true);
    expect(await branch.read({ path: "b" })).toMatchObject({ body: kept.body });
    expect(await ledgerOf(branch)).toMatchObject({
      refs: [[4, 2]],
      blobs: [["b/first", 1]],
      condemned: ["b/second"],
      uploads: 0,
    });
  });

  test("putting what is there already closes the upload and condemns what it brought", async () => {
    const branch = await freshBranch();
    const [first, second] = [await open(branch), await open(branch)];
    const file = { path: "a", attributes: {} };
    await branch.put({ ...file, content: chunked("same", ["b/first"]), upload: first });
    const again = await branch.put({ ...file, content: chunked("same", ["b/second"]), upload: second });
    expect(committed(again)).toBeNull();
    expect(await ledgerOf(branch)).toMatchObject({ condemned: ["b/second"], uploads: 0 });
  });

  test("a put whose upload is closed is refused", async () => {
    const branch = await freshBranch();
    const upload = await open(branch);
    await branch.abortUpload({ upload });
    const content = chunked("late", ["b/late"]);
    expect(await branch.put({ path: "a", content, attributes: {}, upload })).toEqual(REFUSED);
  });

  test("an upload does not outlive its branch", async () => {
    const branch = await freshBranch();
    const upload = await open(branch);
    await branch.destroy();
    await branch.create();
    const content = inline("x");
    expect(await branch.put({ path: "a", content, attributes: {}, upload })).toEqual(REFUSED);
    expect(await branch.addContents({ upload, contents: [content] })).toEqual(REFUSED);
  });

  test("an old file's content stays with its commit, also when nothing at HEAD has it", async () => {
    const branch = await freshBranch();
    const first = committed(await branch.put({ path: "a", content: inline("old"), attributes: {} }));
    await branch.put({ path: "a", content: inline("newer"), attributes: {} });
    await branch.commit({ operations: [{ delete: "a" }] });
    expect(await branch.read({ path: "a", commit: first ?? "" })).toMatchObject({ ok: true, size: 3 });
    expect(await ledgerOf(branch)).toMatchObject({
      refs: [
        [3, 1],
        [5, 1],
      ],
    });
  });

  test("an upload that was not renewed is closed by the alarm; one that was is not", async () => {
    const branch = await freshBranch();
    const [idle, renewed, leftOpen] = [await open(branch), await open(branch), await open(branch)];
    await branch.addContents({ upload: idle, contents: [chunked("idle", ["b/idle"])] });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE uploads SET due = due - ?", UPLOAD_LEASE_MS + 1000);
    });
    expect(await branch.renewUpload({ upload: renewed })).toMatchObject({ ok: true, upload: renewed });
    await branch.reserve({ upload: leftOpen, contents: [] });
    expect(await runDurableObjectAlarm(branch)).toBe(true);
    expect(await branch.renewUpload({ upload: idle })).toEqual(REFUSED);
    expect(await branch.renewUpload({ upload: renewed })).toMatchObject({ ok: true });
    expect(await branch.renewUpload({ upload: leftOpen })).toMatchObject({ ok: true });
    expect(await ledgerOf(branch)).toMatchObject({ condemned: ["b/idle"] });
  });
});

describe("uploads of a pipeline's output", () => {
  test("one lease has one upload, which runs out with the lease alone", async () => {
    const branch = branchOf(freshBucket());
    await branch.claim({ pipeline: "p", uid: "u" });
    const upload = await open(branch, "lease-1");
    expect(await open(branch, "lease-1")).toBe(upload);
    expect(await open(branch, "lease-2")).not.toBe(upload);
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      expect(sql.exec("SELECT due FROM uploads").toArray()).toEqual([{ due: null }, { due: null }]);
    });
    await branch.abortUpload({ upload });
    expect(await branch.renewUpload({ upload })).toEqual(REFUSED);
  });

  test("what was uploaded under a lost lease is condemned with the next alarm, and what others hold stays", async () => {
    const branch = branchOf(freshBucket());
    await branch.claim({ pipeline: "p", uid: "u" });
    const [lost, other] = [await open(branch, "lost"), await open(branch, "other")];
    const [own, shared] = [chunked("own", ["b/own"]), chunked("shared", ["b/shared"])];
    await branch.addContents({ upload: lost, contents: [own, shared] });
    await branch.addContents({ upload: other, contents: [shared] });
    await branch.abortLeases({ leases: ["lost", "unknown"] });
    expect(await branch.addContents({ upload: lost, contents: [chunked("late", ["b/late"])] })).toEqual(
      REFUSED,
    );
    expect(await runDurableObjectAlarm(branch)).toBe(true);
    expect(await ledgerOf(branch)).toMatchObject({
      refs: [[6, 1]],
      blobs: [["b/shared", 1]],
      condemned: ["b/own"],
      holds: 1,
    });
    for (const lease of ["lost", "unknown"])
      expect(await branch.openUpload({ lease })).toEqual({ ok: false, reason: "lost-lease" });
    // It is told once more after a crash between the branch and the pipeline.
    await branch.abortLeases({ leases: ["lost"] });
    expect(await branch.renewUpload({ upload: lost })).toEqual(REFUSED);
    expect(await branch.renewUpload({ upload: other })).toMatchObject({ ok: true });
  });

  test("a lost lease is remembered for longer than a call takes, and then leaves no row", async () => {
    const branch = branchOf(freshBucket());
    await branch.claim({ pipeline: "p", uid: "u" });
    await open(branch, "kept");
    const leases = Array.from({ length: 20 }, (_, n) => `lost-${n}`);
    await branch.abortLeases({ leases });
    await branch.addContents({ upload: await open(branch, "held"), contents: [inline("x")] });
    await branch.abortLeases({ leases: ["held"] });
    const pass = (ms: number) =>
      runInDurableObject(branch, (_, { storage: { sql } }) => {
        sql.exec("UPDATE uploads SET due = due - ? WHERE due IS NOT NULL", ms);
      });
    await pass(UPLOAD_LEASE_MS / 2);
    expect(await runDurableObjectAlarm(branch)).toBe(true);
    expect(await ledgerOf(branch)).toMatchObject({ uploads: 22, holds: 0 });
    await pass(UPLOAD_LEASE_MS);
    expect(await runDurableObjectAlarm(branch)).toBe(true);
    expect(await ledgerOf(branch)).toMatchObject({ uploads: 1 });
  });

  test("they run out like others once the pipeline has given the branch up", async () => {
    const branch = branchOf(freshBucket());
    await branch.claim({ pipeline: "p", uid: "u" });
    const upload = await open(branch, "lease-1");
    await branch.release({ uid: "u", destroy: false });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE uploads SET due = due - ?", UPLOAD_LEASE_MS + 1000);
    });
    expect(await runDurableObjectAlarm(branch)).toBe(true);
    expect(await branch.renewUpload({ upload })).toEqual(REFUSED);
  });

  test("without a lease it is refused; with one, a branch that no pipeline has is", async () => {
    const output = branchOf(freshBucket());
    await output.claim({ pipeline: "p", uid: "u" });
    expect(await output.openUpload({})).toEqual({ ok: false, reason: "pipeline-output" });
    const plain = await freshBranch();
    expect(await plain.openUpload({ lease: "l" })).toEqual({ ok: false, reason: "no-such-branch" });
  });
});
