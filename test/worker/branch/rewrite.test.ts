import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { forkOf } from "./fork-support.ts";
import { type BranchStub, committed, drained, freshBranch, freshBucket, listed, put } from "./support.ts";

// What a branch owes after an erasure, each test from when the host has paid on.

function debt(branch: BranchStub): Promise<"none" | "owed" | "paid"> {
  return runInDurableObject(branch, (_, { storage: { sql } }) => {
    const [row] = sql.exec<{ paid: number }>("SELECT paid FROM rewrite").toArray();
    if (!row) return "none";
    return row.paid === 0 ? "owed" : "paid";
  });
}

/** As the host does it: at once, or when nothing is remembered any more. */
async function pay(branch: BranchStub, { for: good = false } = {}): Promise<void> {
  await runInDurableObject(branch, (_, { storage: { sql } }) => {
    sql.exec(good ? "DELETE FROM rewrite" : "UPDATE rewrite SET paid = 1");
  });
}

async function erase(branch: BranchStub, path: string, version: string | null): Promise<void> {
  expect(await branch.erasures.erase({ versions: [{ path, version: version ?? "" }] })).toMatchObject({
    ok: true,
  });
}

describe("a branch owes to be written anew", () => {
  test("if it erased something, until the time is over in which rows are remembered", async () => {
    const branch = await freshBranch();
    const version = await put(branch, "a");
    committed(await branch.files.commit({ operations: [{ delete: "a" }] }));
    expect(await debt(branch)).toBe("none");
    await erase(branch, "a", "01ARZ3NDEKTSV4RRFFQ69G5FAV");
    expect(await debt(branch)).toBe("none");
    const before = Date.now();
    await erase(branch, "a", version);
    const [row] = await runInDurableObject(branch, (_, { storage: { sql } }) =>
      sql.exec<{ until: number }>("SELECT until FROM rewrite").toArray(),
    );
    expect(row?.until).toBeGreaterThan(before + 24 * 3_600_000);
  });

  test("again if what was erased goes in slices after that", async () => {
    const branch = await freshBranch();
    const paths = Array.from({ length: 60 }, (_, n) => `f${n}`);
    const versions = [];
    for (const path of paths)
      versions.push({ path, version: (await put(branch, path, `bytes of ${path}`)) ?? "" });
    await branch.erasures.erase({ versions });
    await pay(branch);
    await drained(branch);
    expect(await listed(branch)).toEqual([]);
    expect(await debt(branch)).toBe("owed");
    await pay(branch);
    await put(branch, "other");
    expect(await debt(branch)).toBe("paid");
  });

  test("again when those have heard of it who were to hear, and its name goes", async () => {
    const branch = await freshBranch();
    await branch.feed.subscribe({ uid: "u", pipeline: "none" });
    await erase(branch, "a", await put(branch, "a"));
    await pay(branch, { for: true });
    await branch.erasures.list({ uid: "u", after: 0 });
    expect(await debt(branch)).toBe("none");
    await branch.erasures.list({ uid: "u", after: 1 });
    expect(await debt(branch)).toBe("owed");
    await pay(branch, { for: true });
    await branch.feed.unsubscribe({ uid: "u" });
    expect(await debt(branch)).toBe("owed");
    await pay(branch, { for: true });
    await branch.feed.unsubscribe({ uid: "u" });
    expect(await debt(branch)).toBe("none");
  });

  test("not for what is deleted, and given back", async () => {
    const branch = await freshBranch();
    await put(branch, "a", "1");
    await branch.settings.change({ keep: { commits: 1 } });
    await put(branch, "a", "2");
    committed(await branch.files.commit({ operations: [{ delete: "a" }] }));
    await drained(branch);
    expect(await debt(branch)).toBe("none");
  });

  test("and keeps no place in a fork's copying that names what was erased", async () => {
    const bucket = freshBucket();
    await put(await freshBranch(bucket), "the-last-one");
    const { branch: fork } = await forkOf(bucket);
    const first = await fork.files.versions({ prefix: "", limit: 1 });
    const [entry] = first.ok ? first.entries : [];
    await erase(fork, "the-last-one", entry && "version" in entry ? entry.version : null);
    const places = await runInDurableObject(fork, (_, { storage: { sql } }) =>
      sql.exec("SELECT copied FROM forks").toArray(),
    );
    expect(places).toEqual([{ copied: "" }]);
  });
});
