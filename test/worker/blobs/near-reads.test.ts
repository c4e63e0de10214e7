import { createExecutionContext, env, waitOnExecutionContext } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { chunkBlobName } from "../../../worker/blobs/blob-name.ts";
import { Blobs } from "../../../worker/blobs/near/entrypoint.ts";
import { type BytesFrom, EntrypointCache, NearReads } from "../../../worker/blobs/near/near.ts";
import { readContent } from "../../../worker/blobs/read/read-content.ts";
import { R2BlobStore } from "../../../worker/blobs/stores.ts";
import type { Env } from "../../../worker/env.ts";
import { MemoryCache } from "./memory-cache.ts";
import { MemoryStore } from "./memory-store.ts";

const ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
const bytes = new TextEncoder().encode("0123456789");
const WHOLE = { offset: 0, length: 10 };

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

afterEach(() => {
  vi.restoreAllMocks();
});

/** The name of a blob of these ten bytes that no other test has. */
function freshName(uid = crypto.randomUUID()): string {
  const write = crypto.randomUUID().slice(0, 8);
  return chunkBlobName({ digest: "ab".repeat(32), size: 10 }, { uid, upload: `master.data.${ULID}`, write });
}

async function textOf(read: Promise<ReadableStream<Uint8Array> | null>): Promise<string | null> {
  const stream = await read;
  return stream && (await new Response(stream).text());
}

describe("reads near the reader", () => {
  async function near() {
    const store = new MemoryStore();
    const name = freshName();
    await store.put(name, bytes);
    const cache = new MemoryCache(store);
    const from: BytesFrom[] = [];
    const reads = new NearReads(store, cache, (one) => from.push(one));
    return { store, name, cache, from, reads };
  }

  test("take a blob from the store once, and its ranges from the copy", async () => {
    const { store, name, from, reads } = await near();
    expect(await textOf(reads.get(name, { offset: 2, length: 3 }))).toBe("234");
    expect(await textOf(reads.get(name, WHOLE))).toBe("0123456789");
    expect([store.gets.length, from]).toEqual([1, ["store", "cache"]]);
  });

  test("go to the store while the cache is away", async () => {
    const { name, cache, from, reads } = await near();
    cache.isAway = true;
    expect(await textOf(reads.get(name, { offset: 9, length: 1 }))).toBe("9");
    expect(from).toEqual(["store"]);
  });

  test("hear from the store alone that a blob is not there", async () => {
    const { store, cache, reads } = await near();
    const late = freshName();
    expect(await reads.get(late, WHOLE)).toBeNull();
    vi.spyOn(cache, "get").mockResolvedValue(null);
    await store.put(late, bytes);
    expect(await textOf(reads.get(late, WHOLE))).toBe("0123456789");
  });
});

describe("the cache in front of the entrypoint", () => {
  /** What it makes of an answer, and what it was asked. */
  async function ask(answered: Response, range = WHOLE) {
    const asked: Request[] = [];
    const name = freshName();
    const cache = new EntrypointCache(
      () =>
        ({
          async fetch(input: RequestInfo, init?: RequestInit) {
            asked.push(new Request(input as string, init));
            return answered;
          },
        }) as Pick<Fetcher, "fetch">,
    );
    const near = cache.get(name, range);
    await near.catch(() => {});
    const [request] = asked;
    return { near, name, path: new URL(request?.url ?? "").pathname, range: request?.headers.get("range") };
  }

  test("is asked for a whole blob by its name alone, and for a part of it by a range", async () => {
    const whole = await ask(new Response(bytes, { headers: { "cf-cache-status": "HIT" } }));
    expect([whole.path, whole.range]).toEqual([`/${whole.name}`, null]);
    const read = await whole.near;
    expect([read?.from, await textOf(Promise.resolve(read?.bytes ?? null))]).toEqual(["cache", "0123456789"]);
    const part = await ask(new Response("34", { status: 206 }), { offset: 3, length: 2 });
    expect([part.range, (await part.near)?.from]).toEqual(["bytes=3-4", "store"]);
  });

  test.each([
    ["a whole blob for a range", new Response(bytes), { offset: 3, length: 2 }],
    ["a part for a whole", new Response(bytes.slice(1), { status: 206 }), WHOLE],
    ["fewer bytes", new Response(bytes.slice(1), { headers: { "content-length": "9" } }), WHOLE],
    ["an error", new Response("away", { status: 503 }), WHOLE],
  ])("is of no use if it answers %s", async (_, answered, range) => {
    await expect((await ask(answered, range)).near).rejects.toThrow("the cache answered");
  });

  test("says that it has nothing", async () => {
    expect(await (await ask(new Response(null, { status: 404 }))).near).toBeNull();
  });

  test.each([
    ["an only blob", 1],
    ["the first of several", 2],
  ])("breaks off a copy of %s that ends too soon", async (_, count) => {
    const store = new MemoryStore();
    // A stream of which nobody knows how long it is.
    const short = () => {
      const { readable, writable } = new TransformStream();
      const writer = writable.getWriter();
      void writer.write(bytes.slice(0, 4)).then(() => writer.close());
      return readable;
    };
    const fetcher = { fetch: async () => new Response(short()) } as unknown as Fetcher;
    const reads = new NearReads(store, new EntrypointCache(() => fetcher), () => {});
    const chunks = Array.from({ length: count }, () => ({
      blob: freshName(),
      offset: 0,
      length: 10,
      leaves: "",
    }));
    const read = readContent(reads, { body: { kind: "chunks", chunks }, size: 10 * count, hold: null });
    await expect(read.then((body) => new Response(body).text())).rejects.toThrow();
  });
});

describe("the entrypoint of blobs", () => {
  const store = new R2BlobStore(env.BLOBS);

  /** Its answer; with the Workers cache in front or, where there is none, with the Cache API. */
  async function ask(
    name: string,
    { headers = {}, cache }: { headers?: Record<string, string>; cache?: object } = {},
  ) {
    const ctx = createExecutionContext();
    Object.defineProperty(ctx, "cache", { value: cache });
    const answered = await new Blobs(ctx, env as unknown as Env).fetch(
      new Request(`http://blobs/${name}`, { headers }),
    );
    const body = await answered.text();
    await waitOnExecutionContext(ctx);
    return { answered, body, status: answered.status, said: answered.headers.get("cf-cache-status") };
  }

  test("answers whole blobs that may be kept for an hour, by the tags of their write and their branch", async () => {
    const uid = crypto.randomUUID();
    const name = freshName(uid);
    await store.put(name, bytes);
    const { answered, body } = await ask(name, { cache: {} });
    expect(body).toBe("0123456789");
    expect(Object.fromEntries(answered.headers)).toMatchObject({
      "cache-control": "public, max-age=3600, must-revalidate",
      "cache-tag": `${name.split("-").at(-1)?.slice(3)},${uid}`,
    });
  });

  test.each(["b/is/absent", freshName()])("lets nobody keep that there is no blob %#", async (name) => {
    const { answered, status } = await ask(name, { cache: {} });
    expect([status, answered.headers.get("cache-control")]).toEqual([404, "no-store"]);
    expect((await ask(name)).status).toBe(404);
  });

  test.each([
    ["by the context", undefined],
    ["since a range comes through", {}],
  ])("keeps copies by the Cache API for two minutes, if there is nothing in front, as it learns %s", async (_, cache) => {
    const name = freshName();
    await store.put(name, bytes);
    const first = await ask(name, { headers: { range: "bytes=2-4" }, ...(cache && { cache }) });
    expect([first.status, first.body, first.said]).toEqual([206, "234", "MISS"]);
    await store.delete([name]);
    const second = await ask(name);
    expect([second.status, second.body, second.said]).toEqual([200, "0123456789", "HIT"]);
    expect(second.answered.headers.get("cache-control")).toContain("max-age=120,");
  });

  test("purges by tags, and fails unless that is confirmed", async () => {
    const purge = vi.fn(async () => ({ success: true, errors: [] as object[] }));
    const ctx = createExecutionContext();
    Object.defineProperty(ctx, "cache", { value: { purge } });
    const blobs = new Blobs(ctx, env as unknown as Env);
    await blobs.purge(["a", "b"]);
    expect(purge).toHaveBeenCalledWith({ tags: ["a", "b"] });
    purge.mockResolvedValue({ success: false, errors: [{ code: 1, message: "too many" }] });
    await expect(blobs.purge(["a"])).rejects.toThrow("too many");
  });
});
