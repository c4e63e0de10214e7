// @module-tag rest
import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { HOLD_EVERY_MS } from "../../../worker/blobs/read/read-hold.ts";
import { R2BlobStore } from "../../../worker/blobs/stores.ts";
import { READERS_GRACE_MS } from "../../../worker/branch/contents/pending-deletion-store.ts";
import { api } from "../api/support.ts";
import { atRest, forkOf, rowsOf } from "../branch/fork-support.ts";
import { branchOf } from "../branch/support.ts";
import { begin, bytes, complete, completed, MIB, part, sha256 } from "./multipart/support.ts";
import { good, s3, withManifestBound } from "./support.ts";

/** Four blobs: a reader that has the first bytes has the second one open, and no more. */
const whole = bytes(13 * MIB, 7);
const WHOLE = sha256(whole);

let repos = 0;
let bucket = "";

beforeEach(async () => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  bucket = `master.long-${repos++}`;
  await good(`PUT /${bucket}`);
  await good(`PUT /${bucket}/key`, { body: whole });
});

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

function branch(of = bucket) {
  return branchOf(of);
}

/** Nothing keeps the content of the file any more: its blobs are condemned. */
async function contentGoes(of = bucket): Promise<void> {
  await runInDurableObject(branch(of), (_, { storage: { sql } }) => {
    sql.exec("UPDATE contents SET refs = 0 WHERE size = ?", whole.length);
  });
  await runDurableObjectAlarm(branch(of));
  expect(await dueIn(of)).toBeGreaterThan(READERS_GRACE_MS - 60_000);
}

/** How long what is condemned stays, at least, but for so many that go first; undefined if there is nothing else. */
function dueIn(of = bucket, but = 0): Promise<number | undefined> {
  return runInDurableObject(branch(of), (_, { storage: { sql } }) => {
    const [first] = sql
      .exec("SELECT due FROM pending_deletions ORDER BY due LIMIT 1 OFFSET ?", but)
      .toArray();
    return first && Number(first.due) - Date.now();
  });
}

/** So much time passes, and the blob reaper does what is due. */
async function passed(ms: number, of = bucket): Promise<void> {
  await runInDurableObject(branch(of), (_, { storage: { sql } }) => {
    sql.exec("UPDATE pending_deletions SET due = due - ?", ms);
  });
  await runDurableObjectAlarm(branch(of));
}

/** The clock of whoever reads strikes, and the branch has heard of it; `sent`: how many blobs it has read to their end. */
async function held({ sent = 0 } = {}): Promise<void> {
  vi.advanceTimersByTime(HOLD_EVERY_MS);
  await expect.poll(() => dueIn(bucket, sent)).toBeGreaterThan(READERS_GRACE_MS - 10_000);
}

/** Somebody who reads the first bytes of an answer, and goes on when asked for the rest. */
async function slowly(response: Response) {
  const length = Number(response.headers.get("content-length") ?? whole.length);
  const reader = response.body?.getReader();
  if (!reader) throw new Error("there is no body");
  const first = await reader.read();
  return async (): Promise<{ whole: boolean; failed: boolean }> => {
    const parts = first.value ? [first.value] : [];
    try {
      for (let step = await reader.read(); !step.done; step = await reader.read()) parts.push(step.value);
    } catch {
      return { whole: false, failed: true };
    }
    const all = new Uint8Array(await new Blob(parts).arrayBuffer());
    expect(all.length).toBe(length);
    return { whole: sha256(all).toString() === WHOLE.toString(), failed: false };
  };
}

/** Lets the store give out a few blobs, and holds the others back until `on` is called. */
function stopAfter(gets: number): { reached: Promise<void>; on(): void } {
  const { get } = R2BlobStore.prototype;
  const [reached, on] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let asked = 0;
  vi.spyOn(R2BlobStore.prototype, "get").mockImplementation(async function (this: R2BlobStore, name, range) {
    if (++asked > gets) {
      reached.resolve();
      await on.promise;
    }
    return await get.call(this, name, range);
  });
  return { reached: reached.promise, on: on.resolve };
}

const contentName = async () => {
  const head = await good(`HEAD /${bucket}/key`);
  return head.headers.get("etag")?.replaceAll('"', "") ?? "";
};

describe("a body whose content goes while it is read slowly", () => {
  const ways = {
    "GET of a file": () => s3(`GET /${bucket}/key`),
    "GET of a content": async () =>
      api(`GET /repos/${bucket.split(".")[1]}/branches/master/contents/${await contentName()}`),
  };

  test.each(
    Object.entries(ways),
  )("comes to its end if the read goes on for longer than the grace: %s", async (_, ask) => {
    const rest = await slowly(await ask());
    await contentGoes();
    for (let grace = 0; grace < 3; grace++) {
      await held();
      await passed(READERS_GRACE_MS - 10_000);
    }
    expect(await rest()).toEqual({ whole: true, failed: false });
    // Nobody reads any more.
    vi.advanceTimersByTime(HOLD_EVERY_MS);
    await passed(READERS_GRACE_MS);
    expect(await dueIn()).toBeUndefined();
  });

  test.each(Object.entries(ways))("is cut off if it is not held, and is no short 200: %s", async (_, ask) => {
    const rest = await slowly(await ask());
    await contentGoes();
    await passed(READERS_GRACE_MS);
    expect(await rest()).toEqual({ whole: false, failed: true });
  });

  test("comes to its end in a fork, whose parent owns the blobs", async () => {
    const fork = await forkOf(bucket);
    const rest = await slowly(await s3(`GET /${fork.bucket}/key`));
    await contentGoes();
    await passed(READERS_GRACE_MS - 20_000);
    await held();
    await passed(READERS_GRACE_MS - 10_000);
    expect(await rest()).toEqual({ whole: true, failed: false });
  });

  test("comes to its end in a fork that was deleted before the read was held for the first time", async () => {
    const child = await forkOf(bucket);
    const grandchild = await forkOf(child.bucket);
    const rest = await slowly(await s3(`GET /${grandchild.bucket}/key`));
    for (const fork of [grandchild.branch, child.branch]) {
      await fork.lifecycle.destroy();
      await atRest(fork);
      expect(await rowsOf(fork)).toMatchObject({ onLoan: 0, forks: 0 });
    }
    expect(await rowsOf(branch())).toMatchObject({ roots: 0 });
    await contentGoes();
    await passed(READERS_GRACE_MS - 20_000);
    await held();
    await passed(READERS_GRACE_MS - 10_000);
    expect(await rest()).toEqual({ whole: true, failed: false });
  });

  test("comes to its end if a manifest lists blobs of others, which go one by one", async () => {
    const upload = await begin(`/${bucket}/parts`);
    const sources = [bytes(9 * MIB, 1), bytes(9 * MIB, 2)];
    const parts = [await part(upload, 1, sources[0] ?? ""), await part(upload, 2, sources[1] ?? "")];
    await withManifestBound(400, () => completed(complete(upload, parts)));
    const response = await s3(`GET /${bucket}/parts`);
    const reader = response.body?.getReader();
    const first = await reader?.read();
    await runInDurableObject(branch(), (_, { storage: { sql } }) => {
      sql.exec("UPDATE contents SET refs = 0 WHERE size = ?", 18 * MIB);
    });
    await runDurableObjectAlarm(branch());
    await passed(READERS_GRACE_MS - 20_000);
    await held();
    await passed(READERS_GRACE_MS - 10_000);
    let read = first?.value?.length ?? 0;
    for (let step = await reader?.read(); step && !step.done; step = await reader?.read()) {
      read += step.value.length;
    }
    expect(read).toBe(18 * MIB);
  });
});

describe("a copy from another branch", () => {
  const copy = async () => {
    const to = `master.long-${repos++}`;
    await good(`PUT /${to}`);
    const answer = s3(`PUT /${to}/copy`, { headers: { "x-amz-copy-source": `/${bucket}/key` } });
    return { to, answer };
  };

  test("holds what it reads", async () => {
    const store = stopAfter(2);
    const { to, answer } = await copy();
    await store.reached;
    await contentGoes();
    await passed(READERS_GRACE_MS - 20_000);
    await held({ sent: 2 });
    await passed(READERS_GRACE_MS - 10_000);
    store.on();
    expect((await answer).status).toBe(200);
    const read = new Uint8Array(await (await good(`GET /${to}/copy`)).arrayBuffer());
    expect(sha256(read)).toEqual(WHOLE);
  });

  test("of bytes that are gone makes nothing", async () => {
    const store = stopAfter(2);
    const { to, answer } = await copy();
    await store.reached;
    await contentGoes();
    await passed(READERS_GRACE_MS);
    store.on();
    const answered = await answer;
    expect(await answered.text()).toContain("<Error>");
    expect((await s3(`HEAD /${to}/copy`)).status).toBe(404);
  });
});

test("a completion that reads parts again makes nothing if their bytes are gone", async () => {
  const upload = await begin(`/${bucket}/parts`);
  // Not whole leaves: what comes after the first one is hashed anew.
  const parts = [await part(upload, 1, bytes(5 * MIB + 1, 1)), await part(upload, 2, bytes(9 * MIB, 2))];
  const store = stopAfter(1);
  const answer = complete(upload, parts);
  await store.reached;
  const { objects } = await env.BLOBS.list({ prefix: "b/" });
  const ulid = upload.id.slice(upload.id.lastIndexOf("."));
  await env.BLOBS.delete(objects.map(({ key }) => key).filter((key) => key.endsWith(ulid)));
  store.on();
  const answered = await answer;
  expect(await answered.text()).toContain("<Error>");
  expect((await s3(`HEAD /${bucket}/parts`)).status).toBe(404);
});
