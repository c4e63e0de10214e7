import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { monotonicFactory } from "ulid";
import { describe, expect, test, vi } from "vitest";
import { contentName } from "../../../protocol/content.ts";
import type { Content } from "../../../worker/blobs/content.ts";
import { UPLOAD_LEASE_MS } from "../../../worker/branch/contract/uploads.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { expectRefsRight } from "./large-support.ts";
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
  const opened = await branch.uploads.open(lease === undefined ? {} : { lease });
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
    expect(await branch.uploads.add({ upload, contents: [content] })).toEqual({ ok: true });
    expect(await branch.uploads.add({ upload, contents: [content] })).toEqual({ ok: true });
    expect(await ledgerOf(branch)).toMatchObject({
      refs: [[5, 1]],
      blobs: [["b/1", 1]],
      condemned: [],
      holds: 1,
    });
    const { digest, size } = content;
    committed(await branch.files.commit({ upload, operations: [{ put: "a", digest, size }] }));
    expect(await ledgerOf(branch)).toEqual({
      refs: [[5, 1]],
      blobs: [["b/1", 1]],
      condemned: [],
      holds: 0,
      uploads: 0,
    });
    expect(await branch.files.commit({ upload, operations: [{ delete: "a" }] })).toEqual(REFUSED);
    expect(await branch.uploads.add({ upload, contents: [content] })).toEqual(REFUSED);
    expect(await branch.uploads.reserve({ upload, contents: [] })).toEqual(REFUSED);
    expect(await branch.uploads.renew({ upload })).toEqual(REFUSED);
  });

  test("a refused commit leaves the upload open", async () => {
    const branch = await freshBranch();
    const upload = await open(branch);
    const content = inline("x");
    await branch.uploads.add({ upload, contents: [content] });
    const put = (path: string) => ({ put: path, digest: content.digest, size: content.size });
    expect(await branch.files.commit({ upload, operations: [put("a"), put("a/b")] })).toMatchObject({
      ok: false,
    });
    expect(committed(await branch.files.commit({ upload, operations: [put("a")] }))).not.toBeNull();
  });

  test("reserving answers what is missing and keeps the rest also when its file goes", async () => {
    const branch = await freshBranch();
    const [there, missing] = [inline("there"), inline("missing")];
    await branch.files.put({ path: "a", content: there, attributes: {} });
    const upload = await open(branch);
    const asked = [there, missing].map(({ digest, size }) => ({ digest, size }));
    expect(await branch.uploads.reserve({ upload, contents: asked })).toEqual({
      ok: true,
      missing: [asked[1]],
    });
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[5, 2]], holds: 1 });
  });

  test("what only an aborted upload kept goes, its blobs are condemned, and what others keep stays", async () => {
    const branch = await freshBranch();
    const [upload, other] = [await open(branch), await open(branch)];
    const [own, shared] = [chunked("own", ["b/own", "b/more"]), chunked("shared", ["b/shared"])];
    await branch.uploads.add({ upload, contents: [own, shared] });
    await branch.uploads.add({ upload: other, contents: [shared] });
    await branch.uploads.abort({ upload });
    expect(await ledgerOf(branch)).toEqual({
      refs: [[6, 1]],
      blobs: [["b/shared", 1]],
      condemned: ["b/more", "b/own"],
      holds: 1,
      uploads: 1,
    });
    await branch.uploads.abort({ upload });
    expect(await branch.files.content(own)).toEqual({ ok: false, reason: "no-such-content" });
  });

  test("the blobs of content that the branch has already are condemned, and the first ones stay", async () => {
    const branch = await freshBranch();
    const [first, second] = [await open(branch), await open(branch)];
    const [kept, duplicate] = [chunked("same", ["b/first"]), chunked("same", ["b/second"])];
    committed(await branch.files.put({ path: "a", content: kept, attributes: {}, upload: first }));
    const put = await branch.files.put({ path: "b", content: duplicate, attributes: {}, upload: second });
    expect(put.ok).toBe(true);
    expect(await branch.files.read({ path: "b" })).toMatchObject({ body: kept.body });
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
    await branch.files.put({ ...file, content: chunked("same", ["b/first"]), upload: first });
    const again = await branch.files.put({ ...file, content: chunked("same", ["b/second"]), upload: second });
    expect(committed(again)).toBeNull();
    expect(await ledgerOf(branch)).toMatchObject({ condemned: ["b/second"], uploads: 0 });
  });

  test("a put whose upload is closed is refused", async () => {
    const branch = await freshBranch();
    const upload = await open(branch);
    await branch.uploads.abort({ upload });
    const content = chunked("late", ["b/late"]);
    expect(await branch.files.put({ path: "a", content, attributes: {}, upload })).toEqual(REFUSED);
  });

  test("an upload does not outlive its branch", async () => {
    const branch = await freshBranch();
    const upload = await open(branch);
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    const content = inline("x");
    expect(await branch.files.put({ path: "a", content, attributes: {}, upload })).toEqual(REFUSED);
    expect(await branch.uploads.add({ upload, contents: [content] })).toEqual(REFUSED);
  });

  test("an old file's content stays with its commit, also when nothing at HEAD has it", async () => {
    const branch = await freshBranch();
    const first = committed(await branch.files.put({ path: "a", content: inline("old"), attributes: {} }));
    await branch.files.put({ path: "a", content: inline("newer"), attributes: {} });
    await branch.files.commit({ operations: [{ delete: "a" }] });
    expect(await branch.files.read({ path: "a", commit: first ?? "" })).toMatchObject({ ok: true, size: 3 });
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
    await branch.uploads.add({ upload: idle, contents: [chunked("idle", ["b/idle"])] });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE uploads SET due = due - ?", UPLOAD_LEASE_MS + 1000);
    });
    expect(await branch.uploads.renew({ upload: renewed })).toMatchObject({ ok: true, upload: renewed });
    await branch.uploads.reserve({ upload: leftOpen, contents: [] });
    expect(await runDurableObjectAlarm(branch)).toBe(true);
    expect(await branch.uploads.renew({ upload: idle })).toEqual(REFUSED);
    expect(await branch.uploads.renew({ upload: renewed })).toMatchObject({ ok: true });
    expect(await branch.uploads.renew({ upload: leftOpen })).toMatchObject({ ok: true });
    expect(await ledgerOf(branch)).toMatchObject({ condemned: ["b/idle"] });
  });
});

describe("contents that come together", () => {
  /** More than one list of an upload has. */
  const many = Array.from({ length: 250 }, (_, n) => inline(`content ${n}`));
  const [first = inline("")] = many;
  const ids = (contents: readonly Content[]) => contents.map(({ digest, size }) => ({ digest, size }));

  test("are kept once for each call that brought them, and once they have files by those alone", async () => {
    const branch = await freshBranch();
    const upload = await open(branch);
    const large = chunked("large", ["b/large"]);
    await branch.uploads.add({ upload, contents: [...many, first, large] });
    await branch.uploads.add({ upload, contents: [...many.slice(50, 180), chunked("large", ["b/large"])] });
    const reserved = await branch.uploads.reserve({
      upload,
      contents: ids([...many.slice(100, 120), first]),
    });
    expect(reserved).toEqual({ ok: true, missing: [] });
    expect(await ledgerOf(branch)).toMatchObject({ holds: 251 + 131 + 21, condemned: [] });
    await expectRefsRight(branch);
    const put = [...many.slice(0, 200), first, large];
    const operations = put.map(({ digest, size }, n) => ({ put: `file ${n}`, digest, size }));
    committed(await branch.files.commit({ upload, operations }));
    const { refs, ...rest } = await ledgerOf(branch);
    expect(rest).toEqual({ blobs: [["b/large", 1]], condemned: [], holds: 0, uploads: 0 });
    expect(refs).toHaveLength(201);
    await expectRefsRight(branch);
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      expect(sql.exec("SELECT size FROM contents WHERE named = 0").toArray()).toEqual([]);
    });
  });

  test("are read, given up and let go of one by one", async () => {
    const branch = branchOf(freshBucket());
    await branch.output.claim({ pipeline: "p", uid: "u" });
    const upload = await open(branch, "lease");
    await branch.uploads.add({ upload, contents: many.slice(0, 5) });
    await branch.uploads.add({ upload, contents: many.slice(3, 8) });
    const [once, twice, last, other] = [many[0], many[4], many[7], many[9]].map((each) => each ?? first);
    if (!once || !twice || !last || !other) throw new Error("there are more");
    const bodies = async (...of: Content[]) => await branch.uploads.bodies({ upload, contents: ids(of) });
    expect(await bodies(twice, last)).toEqual({ ok: true, bodies: [twice.body, last.body] });
    expect(await bodies(once, other, last)).toEqual({ ok: true, bodies: [once.body] });
    await branch.uploads.trim({ uploads: [{ upload, keep: [contentName(once), contentName(twice)] }] });
    expect(await ledgerOf(branch)).toMatchObject({ holds: 3 });
    await expectRefsRight(branch);
    await branch.uploads.letGo({ contents: ids([twice, last]).map((of) => ({ upload, ...of })) });
    expect(await ledgerOf(branch)).toMatchObject({ holds: 1, refs: [[once.size, 1]] });
    expect(await bodies(twice)).toEqual({ ok: true, bodies: [] });
    await branch.uploads.trim({ uploads: [{ upload, keep: [] }] });
    expect(await ledgerOf(branch)).toMatchObject({ holds: 0, refs: [] });
  });
});

describe("uploads of a pipeline's output", () => {
  test("one lease has one upload, which runs out with the lease alone", async () => {
    const branch = branchOf(freshBucket());
    await branch.output.claim({ pipeline: "p", uid: "u" });
    const upload = await open(branch, "lease-1");
    expect(await open(branch, "lease-1")).toBe(upload);
    expect(await open(branch, "lease-2")).not.toBe(upload);
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      expect(sql.exec("SELECT due FROM uploads").toArray()).toEqual([{ due: null }, { due: null }]);
    });
    await branch.uploads.abort({ upload });
    expect(await branch.uploads.renew({ upload })).toEqual(REFUSED);
  });

  test("what comes with the upload of a lease costs no row of the upload, which does not run out", async () => {
    const branch = branchOf(freshBucket());
    await branch.output.claim({ pipeline: "p", uid: "u" });
    const upload = await open(branch, "lease-1");
    const statements = vi.spyOn(Sql.prototype, "execute");
    await branch.uploads.add({ upload, contents: [inline("a")] });
    const written = statements.mock.results.map(({ value }) => value.rowsWritten as number);
    statements.mockRestore();
    // What it holds; the content, and its entry by its digest.
    expect(written.filter((rows) => rows > 0)).toEqual([1, 2]);
  });

  test("what was uploaded under a lost lease is condemned with the next alarm, and what others hold stays", async () => {
    const branch = branchOf(freshBucket());
    await branch.output.claim({ pipeline: "p", uid: "u" });
    const [lost, other] = [await open(branch, "lost"), await open(branch, "other")];
    const [own, shared] = [chunked("own", ["b/own"]), chunked("shared", ["b/shared"])];
    await branch.uploads.add({ upload: lost, contents: [own, shared] });
    await branch.uploads.add({ upload: other, contents: [shared] });
    await branch.uploads.abortLeases({ leases: ["lost", "unknown"] });
    expect(await branch.uploads.add({ upload: lost, contents: [chunked("late", ["b/late"])] })).toEqual(
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
      expect(await branch.uploads.open({ lease })).toEqual({ ok: false, reason: "lost-lease" });
    // It is told once more after a crash between the branch and the pipeline.
    await branch.uploads.abortLeases({ leases: ["lost"] });
    expect(await branch.uploads.renew({ upload: lost })).toEqual(REFUSED);
    expect(await branch.uploads.renew({ upload: other })).toMatchObject({ ok: true });
  });

  test("a lost lease is remembered for longer than a call takes, and then leaves no row", async () => {
    const branch = branchOf(freshBucket());
    await branch.output.claim({ pipeline: "p", uid: "u" });
    await open(branch, "kept");
    const leases = Array.from({ length: 20 }, (_, n) => `lost-${n}`);
    await branch.uploads.abortLeases({ leases });
    await branch.uploads.add({ upload: await open(branch, "held"), contents: [inline("x")] });
    await branch.uploads.abortLeases({ leases: ["held"] });
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

  test("give up what no result names, and nothing else; those of which nothing is named end", async () => {
    const branch = branchOf(freshBucket());
    await branch.output.claim({ pipeline: "p", uid: "u" });
    const [part, whole, other] = [await open(branch, "a"), await open(branch, "b"), await open(branch, "c")];
    const [named, own, shared] = [
      chunked("named", ["b/named"]),
      chunked("own", ["b/own"]),
      chunked("shared", ["b/shared"]),
    ];
    await branch.uploads.add({ upload: part, contents: [named, own, shared] });
    await branch.uploads.add({ upload: whole, contents: [shared, chunked("gone", ["b/gone"])] });
    await branch.uploads.add({ upload: other, contents: [shared] });
    const uploads = [
      { upload: part, keep: [contentName(named), "0-1"] },
      { upload: whole, keep: [] },
    ];
    // Once more after a crash between the branch and the pipeline.
    for (let times = 1; times <= 2; times++) {
      await branch.uploads.trim({ uploads });
      expect(await ledgerOf(branch)).toMatchObject({
        refs: [
          [5, 1],
          [6, 1],
        ],
        blobs: [
          ["b/named", 1],
          ["b/shared", 1],
        ],
        condemned: ["b/gone", "b/own"],
        holds: 2,
        uploads: 3,
      });
    }
    // A late call under its lease opens no other one.
    expect(await branch.uploads.open({ lease: "b" })).toEqual({ ok: false, reason: "lost-lease" });
    expect(await branch.uploads.renew({ upload: part })).toMatchObject({ ok: true });
    expect(await branch.uploads.renew({ upload: whole })).toEqual(REFUSED);
  });

  test("are not opened for a lease that is older than the pipeline, which nobody would ever end", async () => {
    const branch = branchOf(freshBucket());
    const id = monotonicFactory();
    const [before, uid, since] = [id(1000), id(2000), id(3000)];
    await branch.output.claim({ pipeline: "p", uid });
    for (const lease of [before, `shared.${before}.x`])
      expect(await branch.uploads.open({ lease })).toEqual({ ok: false, reason: "lost-lease" });
    for (const lease of [since, `shared.${since}.x`])
      expect(await branch.uploads.open({ lease })).toMatchObject({ ok: true });
  });

  test("run out like others once the pipeline has given the branch up", async () => {
    const branch = branchOf(freshBucket());
    await branch.output.claim({ pipeline: "p", uid: "u" });
    const upload = await open(branch, "lease-1");
    await branch.output.release({ uid: "u", destroy: false });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE uploads SET due = due - ?", UPLOAD_LEASE_MS + 1000);
    });
    expect(await runDurableObjectAlarm(branch)).toBe(true);
    expect(await branch.uploads.renew({ upload })).toEqual(REFUSED);
  });

  test("are refused without a lease, and so are those with one in a branch that no pipeline has", async () => {
    const output = branchOf(freshBucket());
    await output.output.claim({ pipeline: "p", uid: "u" });
    expect(await output.uploads.open({})).toEqual({ ok: false, reason: "pipeline-output" });
    const plain = await freshBranch();
    expect(await plain.uploads.open({ lease: "l" })).toEqual({ ok: false, reason: "no-such-branch" });
  });
});
