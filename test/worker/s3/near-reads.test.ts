import { env } from "cloudflare:test";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { FsckPiece } from "../../../protocol/repos.ts";
import { handleApi } from "../../../worker/api/api.ts";
import type { Context } from "../../../worker/app.ts";
import { R2BlobStore } from "../../../worker/blobs/stores.ts";
import { type Env, readConfig } from "../../../worker/env.ts";
import type { RequestEvent } from "../../../worker/request-log.ts";
import { handleS3 } from "../../../worker/s3/gateway.ts";
import { MemoryCache } from "../blobs/memory-cache.ts";
import { branchOf, inObject } from "../branch/support.ts";
import { bytes, MIB, sha256 } from "./multipart/support.ts";
import { good, signed, testContext } from "./support.ts";

const BUCKET = "master.near";
const store = new R2BlobStore(env.BLOBS);
let files = 0;

/** A file of three blobs, whose bytes no other one has. */
async function putFile(path: string): Promise<Uint8Array<ArrayBuffer>> {
  const whole = bytes(9 * MIB, 300 + files++);
  await good(`PUT /${BUCKET}/${path}`, { body: whole });
  return whole;
}

afterEach(() => {
  vi.restoreAllMocks();
});

beforeAll(async () => {
  await good(`PUT /${BUCKET}`);
  await good(`PUT /${BUCKET}/small`, { body: "small" });
});

async function blobsOf(path: string): Promise<string[]> {
  return await inObject(branchOf(BUCKET), async (branch) => {
    const read = await branch.files.read({ path });
    if (!read.ok || read.body.kind !== "chunks") throw new Error(path);
    return read.body.chunks.map(({ blob }) => blob);
  });
}

/** A gateway with a cache near its readers. */
function nearGateway() {
  const cache = new MemoryCache(store);
  const contexts: Context[] = [];
  const s3 = async (line: string, headers: Record<string, string> = {}) => {
    const context = { ...testContext(), blobCache: cache, event: {} };
    contexts.push(context);
    return await handleS3(await signed(line, { headers }), { context, now: Date.now });
  };
  const api = async (line: string, body?: object) => {
    const [method = "", path = ""] = line.split(" ");
    const request = new Request(`http://sluice.test/api/v1${path}`, {
      method,
      ...(body && { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    });
    const context = { ...testContext(), blobCache: cache };
    const scope = { level: "admin", repos: null } as const;
    const caller = { keyId: "test-root", scope, payload: { form: "plain", sha256: null } } as const;
    return await handleApi(request, { context, caller });
  };
  const from = () => contexts.at(-1)?.event.bytesFrom;
  return { cache, s3, api, from };
}

describe("GetObject", () => {
  test("takes each blob from the store once, whole and in ranges, and tells the log", async () => {
    const whole = await putFile("read");
    const { cache, s3, from } = nearGateway();
    expect(sha256(await (await s3(`GET /${BUCKET}/read`)).bytes())).toEqual(sha256(whole));
    expect(from()).toBe("store");
    expect(cache.gets).toEqual(await blobsOf("read"));
    await store.delete(await blobsOf("read"));
    const again = await s3(`GET /${BUCKET}/read`);
    expect(sha256(await again.bytes())).toEqual(sha256(whole));
    const range = await s3(`GET /${BUCKET}/read`, { range: `bytes=${4 * MIB - 2}-${4 * MIB + 1}` });
    expect(await range.bytes()).toEqual(whole.slice(4 * MIB - 2, 4 * MIB + 2));
    expect(from()).toBe("cache");
  });

  test("has a file of several blobs whole out of the entrypoint and its cache, as the platform binds it", async () => {
    const whole = await putFile("bound");
    const read = async (headers: Record<string, string> = {}) => {
      const context = { ...testContext({ cachesBlobs: true }), event: {} as RequestEvent };
      const request = await signed(`GET /${BUCKET}/bound`, { headers });
      const answered = await handleS3(request, { context, now: Date.now });
      return { bytes: await answered.bytes(), from: context.event.bytesFrom };
    };
    const first = await read();
    expect([sha256(first.bytes), first.from]).toEqual([sha256(whole), "store"]);
    await store.delete(await blobsOf("bound"));
    const second = await read();
    expect([sha256(second.bytes), second.from]).toEqual([sha256(whole), "cache"]);
    const range = await read({ range: `bytes=${4 * MIB - 2}-${4 * MIB + 1}` });
    expect(range.bytes).toEqual(whole.slice(4 * MIB - 2, 4 * MIB + 2));
  });

  test("of a file in the branch's rows says nothing of it", async () => {
    const { cache, s3, from } = nearGateway();
    expect(await (await s3(`GET /${BUCKET}/small`)).text()).toBe("small");
    expect([cache.gets, from()]).toEqual([[], undefined]);
  });

  test("finds nothing of what was erased, though the copies are still there", async () => {
    await putFile("erased");
    const { cache, s3 } = nearGateway();
    await (await s3(`GET /${BUCKET}/erased`)).bytes();
    const version = (await s3(`HEAD /${BUCKET}/erased`)).headers.get("x-amz-version-id");
    await good(`DELETE /${BUCKET}/erased?versionId=${version}`);
    expect((await s3(`GET /${BUCKET}/erased`)).status).toBe(404);
    expect(cache.copies.size).toBe(3);
  });
});

test("runners read contents through it", async () => {
  const whole = await putFile("input");
  const { cache, s3, api } = nearGateway();
  await (await s3(`GET /${BUCKET}/input`)).bytes();
  const { digest, size } = await inObject(branchOf(BUCKET), async (branch) => {
    const read = await branch.files.read({ path: "input" });
    if (!read.ok) throw new Error(read.reason);
    return read;
  });
  await store.delete(await blobsOf("input"));
  const read = await api(`GET /repos/near/branches/master/contents/${digest}-${size}`);
  expect(sha256(await read.bytes())).toEqual(sha256(whole));
  expect(cache.gets.length).toBe(6);
});

test("a copy proves nothing: neither copies nor fsck go by it", async () => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
  await good("PUT /master.far");
  await putFile("lost");
  const { cache, s3, api } = nearGateway();
  await (await s3(`GET /${BUCKET}/lost`)).bytes();
  const read = cache.gets.length;
  await store.delete(await blobsOf("lost"));
  const copied = await s3("PUT /master.far/lost", { "x-amz-copy-source": `${BUCKET}/lost` });
  expect(copied.status === 200 && !(await copied.text()).includes("<Error>")).toBe(false);
  const faults: string[] = [];
  for (let after: string | null | undefined; after !== null; ) {
    const checked = await api("POST /repos/near/branches/master/fsck", after === undefined ? {} : { after });
    const piece = await checked.json<FsckPiece>();
    faults.push(...piece.faults.map((fault) => JSON.stringify(fault)));
    after = piece.next;
  }
  expect(faults.join()).toContain("missing from the blob store");
  expect(cache.gets.length).toBe(read);
});

test("the cache is there on Cloudflare alone, and one setting switches it off", () => {
  const caches = (bindings: object) => {
    const read = readConfig({ ...env, SLUICE_BLOB_CACHE: undefined, ...bindings } as unknown as Env);
    return read.ok && read.config.cachesBlobs;
  };
  expect(caches({})).toBe(true);
  expect(caches({ DISK: {} })).toBe(false);
  expect(caches({ SLUICE_BLOB_CACHE: "off" })).toBe(false);
  expect(testContext({ cachesBlobs: true }).blobCache).toBeDefined();
  expect(testContext().blobCache).toBeUndefined();
});
