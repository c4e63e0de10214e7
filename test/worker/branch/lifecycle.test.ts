import { env, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import {
  allTold,
  branchOf,
  freshBranch,
  freshBucket,
  inline,
  isCatalogued,
  listed,
  put,
  withoutCatalogue,
} from "./support.ts";

describe("probing", () => {
  test("asking for a branch that was never created leaves no table and no alarm", async () => {
    const branch = branchOf(freshBucket());
    const at = { generation: 1, seq: 1 };
    const refused = [
      await branch.lifecycle.status(),
      await branch.files.read({ path: "a" }),
      await branch.files.list({ prefix: "", limit: 10 }),
      await branch.lifecycle.destroy(),
      await branch.files.put({ path: "a", content: inline("a"), attributes: {} }),
      await branch.files.commit({ operations: [{ delete: "a" }] }),
      await branch.uploads.open({}),
      await branch.output.commit({ uid: "u", epoch: 1, origin: "j", operations: [] }),
    ];
    expect(refused.map((answer) => !answer.ok && answer.reason)).toEqual(refused.map(() => "no-such-branch"));
    expect(await branch.files.content(inline("a"))).toEqual({ ok: false, reason: "no-such-content" });
    expect(await branch.uploads.renew({ upload: "x" })).toEqual({ ok: false, reason: "no-such-upload" });
    await branch.uploads.abort({ upload: "x" });
    await branch.feed.unsubscribe({ uid: "u" });
    await branch.output.release({ uid: "u", destroy: true });
    expect((await branch.feed.read({ cursor: { generation: 0, seq: 0 }, limit: 10 })).events).toEqual([]);
    expect((await branch.feed.changes({ ...at, after: "", limit: 1 })).changes).toEqual([]);
    expect((await branch.feed.filesAt({ ...at, prefix: "", after: "", limit: 1 })).files).toEqual([]);
    expect(await branch.feed.fingerprint({ ...at, path: "" })).toBeNull();
    await runInDurableObject(branch, async (_, { storage }) => {
      expect(
        storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray(),
      ).toEqual([]);
      expect(await storage.getAlarm()).toBeNull();
    });
  });
});

describe("creating", () => {
  test("a created branch is empty, is in the catalogue, and left its marker blob", async () => {
    const bucket = "main.photos";
    const branch = branchOf(bucket);
    const made = await branch.lifecycle.create();
    if (!made.ok) throw new Error(made.reason);
    expect(await isCatalogued(bucket)).toBe(true);
    expect(await branch.lifecycle.status()).toEqual({
      ok: true,
      uid: made.uid,
      createdAt: made.createdAt,
      modifiedAt: made.createdAt,
      head: null,
      claimedBy: null,
    });
    expect(await listed(branch)).toEqual([]);
    const marker = await env.BLOBS.get("m/branches/photos/main");
    expect(await marker?.json()).toEqual({ repo: "photos", branch: "main", uid: made.uid });
  });

  test("creating twice answers already-exists", async () => {
    const branch = await freshBranch();
    expect(await branch.lifecycle.create()).toEqual({ ok: false, reason: "already-exists" });
  });

  test("of 20 creations at once exactly one succeeds", async () => {
    const branch = branchOf(freshBucket());
    const answers = await Promise.all(Array.from({ length: 20 }, () => branch.lifecycle.create()));
    expect(answers.filter(({ ok }) => ok)).toHaveLength(1);
    expect(answers.filter((answer) => !answer.ok && answer.reason === "already-exists")).toHaveLength(19);
  });

  test("of 20 creations at once none succeeds while the catalogue can't be reached, and the next one finishes it", async () => {
    const bucket = freshBucket();
    const branch = branchOf(bucket);
    const answers = await withoutCatalogue(() =>
      Promise.all(Array.from({ length: 20 }, () => branch.lifecycle.create())),
    );
    expect(answers.map((answer) => !answer.ok && answer.reason)).toEqual(
      answers.map(() => "catalogue-unavailable"),
    );
    const again = await Promise.all([branch.lifecycle.create(), branch.lifecycle.create()]);
    expect(again.filter(({ ok }) => ok)).toHaveLength(1);
    expect(await isCatalogued(bucket)).toBe(true);
  });

  test("the alarm tells the catalogue what could not be told, and then the branch belongs to whom it was made for", async () => {
    const bucket = freshBucket();
    const branch = branchOf(bucket);
    await withoutCatalogue(async () => await branch.lifecycle.create());
    await evictDurableObject(branch);
    await allTold(branch);
    expect(await isCatalogued(bucket)).toBe(true);
    expect(await branch.lifecycle.create()).toEqual({ ok: false, reason: "already-exists" });
  });
});

describe("deleting", () => {
  test("a deleted branch answers no-such-branch and is gone from the catalogue", async () => {
    const bucket = freshBucket();
    const branch = await freshBranch(bucket);
    await put(branch, "a");
    expect(await branch.lifecycle.destroy()).toEqual({ ok: true });
    expect(await isCatalogued(bucket)).toBe(false);
    expect(await branch.lifecycle.status()).toEqual({ ok: false, reason: "no-such-branch" });
    expect(await branch.files.read({ path: "a" })).toEqual({ ok: false, reason: "no-such-branch" });
    expect(await branch.files.put({ path: "a", content: inline("a"), attributes: {} })).toEqual({
      ok: false,
      reason: "no-such-branch",
    });
    expect(await branch.lifecycle.destroy()).toEqual({ ok: false, reason: "no-such-branch" });
  });

  test("a branch that is created again sees nothing of the old one, by name or by version", async () => {
    const branch = await freshBranch();
    const old = await put(branch, "a", "old");
    await branch.lifecycle.destroy();
    const made = await branch.lifecycle.create();
    expect(made.ok).toBe(true);
    expect(await listed(branch)).toEqual([]);
    expect(await branch.files.read({ path: "a" })).toEqual({ ok: false, reason: "no-such-file" });
    expect(await branch.files.read({ path: "a", commit: old ?? "" })).toEqual({
      ok: false,
      reason: "no-such-version",
    });
    expect(await branch.files.list({ prefix: "", limit: 10, commit: old ?? "" })).toEqual({
      ok: false,
      reason: "no-such-version",
    });
    await put(branch, "b", "new");
    expect(await listed(branch)).toEqual(["b"]);
  });

  test("jobs still read a deleted generation, by position and by commit", async () => {
    const branch = await freshBranch();
    const old = await put(branch, "a", "old");
    await branch.lifecycle.destroy();
    const asOld = { commit: old ?? "", anyGeneration: true };
    expect(await listed(branch, asOld)).toEqual(["a"]);
    await branch.lifecycle.create();
    await put(branch, "b", "new");
    expect(await listed(branch, asOld)).toEqual(["a"]);
    const at = { generation: 1, seq: 1 };
    expect((await branch.feed.filesAt({ ...at, prefix: "", after: "", limit: 10 })).files).toMatchObject([
      { path: "a" },
    ]);
    expect(await branch.feed.fingerprint({ ...at, path: "" })).toMatchObject({ size: 3 });
    expect(await branch.files.content(inline("old"))).toMatchObject({ ok: true, body: { kind: "inline" } });
  });

  test("a deletion that the catalogue was not told of is told by the alarm", async () => {
    const bucket = freshBucket();
    const branch = await freshBranch(bucket);
    expect(await withoutCatalogue(async () => await branch.lifecycle.destroy())).toEqual({
      ok: false,
      reason: "catalogue-unavailable",
    });
    expect(await isCatalogued(bucket)).toBe(true);
    await allTold(branch);
    expect(await isCatalogued(bucket)).toBe(false);
  });

  test("creating, deleting and creating again ends in the catalogue as it ends", async () => {
    const bucket = freshBucket();
    const branch = await freshBranch(bucket);
    await branch.lifecycle.destroy();
    await branch.lifecycle.create();
    expect(await isCatalogued(bucket)).toBe(true);
    await branch.lifecycle.destroy();
    expect(await isCatalogued(bucket)).toBe(false);
  });
});
