import { env } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { type ByteSource, byteSource } from "../../../worker/blobs/body-reader.ts";
import { ByteBudget } from "../../../worker/blobs/budget.ts";
import type { Content } from "../../../worker/blobs/content.ts";
import type { BlobStore } from "../../../worker/blobs/port.ts";
import { readContent } from "../../../worker/blobs/read/read-content.ts";
import { R2BlobStore } from "../../../worker/blobs/stores.ts";
import {
  CHUNK_BYTES,
  type WriteOptions,
  type WriteResult,
  writeContent,
} from "../../../worker/blobs/write-content.ts";
import { CHECKSUM_ALGORITHMS } from "../../../worker/core/checksums.ts";
import { REST } from "../../support/suite.ts";
import { checksumOf } from "./checksums.ts";
import { hash, hex, MIB, randomBytes, referenceDigest, sameBytes } from "./reference.ts";
import { nativeBody, scriptedBody, stalledBody } from "./senders.ts";

const store = new R2BlobStore(env.BLOBS);
let uploads = 0;

function write(
  body: ReadableStream<Uint8Array> | null,
  options: Partial<WriteOptions> = {},
): Promise<WriteResult> {
  return writeFrom(body && byteSource(body), options);
}

function writeFrom(source: ByteSource | null, options: Partial<WriteOptions>): Promise<WriteResult> {
  return writeContent(source, {
    store,
    openUpload: async () => ({ upload: `master.repo.U${uploads++}`, uid: "branch-uid" }),
    now: Date.now,
    idleMs: 60_000,
    budget: new ByteBudget(2 * CHUNK_BYTES),
    ...options,
  });
}

async function written(
  body: ReadableStream<Uint8Array> | null,
  options: Partial<WriteOptions> = {},
): Promise<Content> {
  const result = await write(body, options);
  if (!result.ok) throw new Error(result.reason);
  return result.content;
}

async function readBack(content: Content): Promise<Uint8Array> {
  return new Uint8Array(
    await new Response(await readContent(store, { ...content, hold: null })).arrayBuffer(),
  );
}

const SIZES = [
  0,
  1,
  4096,
  4097,
  MIB - 1,
  MIB,
  MIB + 1,
  CHUNK_BYTES - 1,
  CHUNK_BYTES,
  CHUNK_BYTES + 1,
  9 * MIB + 4321,
];

describe("content that is written", () => {
  for (const size of SIZES)
    test(`of ${size} bytes has the published digest and comes back the same, however it is sent`, async () => {
      const bytes = randomBytes(size, size);
      const digest = await referenceDigest(bytes);
      for (const declared of [{ declaredSize: size }, {}]) {
        const content = await written(nativeBody(bytes, size + 1), declared);
        expect({ digest: content.digest, size: content.size }).toEqual({ digest, size });
        expect(sameBytes(await readBack(content), bytes)).toBe(true);
      }
    });

  for (const type of ["bytes", "values"] as const)
    test(`may come from a stream of ${type} that JavaScript made`, async () => {
      for (const size of [0, 100, 4097, CHUNK_BYTES, 5 * MIB + 17]) {
        const bytes = randomBytes(size, size + 7);
        const content = await written(scriptedBody(type, bytes));
        expect(content.digest).toBe(await referenceDigest(bytes));
        expect(sameBytes(await readBack(content), bytes)).toBe(true);
      }
    });

  test("without a body is empty", async () => {
    const content = await written(null, { declaredSize: 0 });
    expect(content).toEqual({
      digest: await referenceDigest(new Uint8Array(0)),
      size: 0,
      body: { kind: "inline", bytes: new Uint8Array(0) },
    });
  });

  test("of up to 4 KiB stays inline: no upload is opened and the store is not asked", async () => {
    const untouched: BlobStore = { put: refuse, get: refuse, delete: refuse, list: refuse };
    for (const declared of [{ declaredSize: 4096 }, {}]) {
      const result = await write(nativeBody(randomBytes(4096, 1)), {
        ...declared,
        store: untouched,
        openUpload: refuse,
      });
      expect(result).toMatchObject({ ok: true, upload: null, content: { body: { kind: "inline" } } });
    }
  });

  test("is cut into blobs of at most 4 MiB whose names carry its upload and whose leaves make its digest", async () => {
    const bytes = randomBytes(9 * MIB + 5, 3);
    const openUpload = async () => ({ upload: "master.repo.01ULID", uid: "uid-1" });
    const { body } = await written(nativeBody(bytes), { openUpload });
    if (body.kind !== "chunks") throw new Error(body.kind);
    expect(body.chunks.map(({ length }) => length)).toEqual([CHUNK_BYTES, CHUNK_BYTES, MIB + 5]);
    let start = 0;
    for (const { blob, offset, length, leaves } of body.chunks) {
      const chunk = bytes.slice(start, start + length);
      const digest = await referenceDigest(chunk);
      expect(offset).toBe(0);
      expect(blob).toMatch(
        new RegExp(`^b/${digest.slice(0, 2)}/uid-1/${digest}-${length}\\.[0-9a-f]{8}\\.01ULID$`),
      );
      expect(leaves).toBe(await leafHashes(chunk));
      start += length;
    }
  });

  test("twice by one upload gets blobs of its own each time, so that one may go while the other stays", async () => {
    const openUpload = async () => ({ upload: "master.repo.01TWICE", uid: "uid-1" });
    const bytes = randomBytes(10_000, 4);
    const blobs = [];
    for (const body of [nativeBody(bytes), nativeBody(bytes)])
      blobs.push(blobsOf(await written(body, { openUpload })));
    expect(new Set(blobs.flat()).size).toBe(2);
  });
});

describe("the upload of a content that is written", () => {
  test("is opened once, before the first blob", async () => {
    const events: string[] = [];
    const result = await write(nativeBody(randomBytes(9 * MIB, 1)), {
      store: { ...noStore, put: async () => void events.push("put") },
      openUpload: async () => {
        events.push("open");
        return { upload: "master.repo.01ONCE", uid: "u" };
      },
    });
    expect(result.upload).toBe("master.repo.01ONCE");
    expect(events).toEqual(["open", "put", "put", "put"]);
  });

  test("that is refused ends the write, and nothing was stored", async () => {
    const openUpload = () => Promise.reject(new Error("no such branch"));
    await expect(write(nativeBody(randomBytes(5000, 1)), { openUpload, store: noStore })).rejects.toThrow(
      "no such branch",
    );
  });

  test("is renewed whenever a third of its lease is over", REST, async () => {
    let clock = 0;
    let last = 0;
    const gaps: number[] = [];
    const tick = (millis: number) => {
      clock += millis;
      return clock;
    };
    await written(scriptedBody("values", randomBytes(9 * MIB, 2)), {
      store: { ...noStore, put: async () => void tick(4000) },
      now: () => tick(10),
      uploadLeaseMs: 9000,
      renewUpload: async () => {
        gaps.push(clock - last);
        last = clock;
      },
    });
    expect(gaps.length).toBeGreaterThan(1);
    expect(Math.max(...gaps)).toBeLessThan(9000);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(3000);
  });
});

describe("a body that is not what its sender said", () => {
  const cases = [
    { size: 100, declaredSize: 101, reason: "incomplete-body" },
    { size: 0, declaredSize: 1, reason: "incomplete-body" },
    { size: 4000, declaredSize: 100_000, reason: "incomplete-body" },
    { size: 5 * MIB, declaredSize: 5 * MIB + 1, reason: "incomplete-body" },
    { size: CHUNK_BYTES, declaredSize: 2 * CHUNK_BYTES, reason: "incomplete-body" },
    { size: 101, declaredSize: 100, reason: "body-too-long" },
    { size: 1, declaredSize: 0, reason: "body-too-long" },
    { size: 4097, declaredSize: 4096, reason: "body-too-long" },
    { size: 5000, declaredSize: 4097, reason: "body-too-long" },
    { size: CHUNK_BYTES + 1, declaredSize: CHUNK_BYTES, reason: "body-too-long" },
    { size: 9 * MIB, declaredSize: 5 * MIB, reason: "body-too-long" },
  ];
  for (const { size, declaredSize, reason } of cases)
    test(`${size} bytes for ${declaredSize} is ${reason}`, async () => {
      for (const body of [nativeBody(randomBytes(size, 9)), scriptedBody("values", randomBytes(size, 9))])
        expect(await write(body, { declaredSize })).toMatchObject({ ok: false, reason });
    });

  test("is incomplete where its sender goes away, and names the upload to give up", async () => {
    const { body, fail } = stalledBody(randomBytes(6 * MIB, 1));
    const result = write(body, { store: { ...noStore, put: async () => fail() } });
    expect(await result).toMatchObject({ ok: false, reason: "incomplete-body", upload: expect.any(String) });
  });

  test("is timed out where nothing comes any more, at the start, in the head and in a chunk", async () => {
    for (const size of [0, 100, 100_000]) {
      const { body } = stalledBody(randomBytes(size, 1));
      expect(await write(body, { idleMs: 30 })).toMatchObject({ ok: false, reason: "request-timeout" });
      const declared = stalledBody(randomBytes(Math.min(size, 50), 1)).body;
      expect(await write(declared, { idleMs: 30, declaredSize: 60 })).toMatchObject({
        reason: "request-timeout",
      });
    }
  });

  test("is not timed out while it waits for the store", async () => {
    const slow: BlobStore = { ...noStore, put: () => scheduler.wait(90) };
    const bytes = randomBytes(9 * MIB, 1);
    const content = await written(scriptedBody("values", bytes), { store: slow, idleMs: 30 });
    expect(content.size).toBe(bytes.length);
  });
});

describe("hashes that the sender stated", () => {
  for (const size of [1000, MIB, MIB + 1, 6 * MIB])
    test(`are held against content of ${size} bytes`, async () => {
      const bytes = randomBytes(size, 11);
      const right = {
        md5: await hash("MD5", bytes),
        sha256: hex(await hash("SHA-256", bytes)),
        digest: { digest: await referenceDigest(bytes), size },
      };
      const other = await hash("SHA-256", new Uint8Array(1));
      expect(await write(nativeBody(bytes), { expect: right })).toMatchObject({ ok: true });
      for (const [reason, wrong] of [
        ["md5-mismatch", { md5: other.slice(0, 16) }],
        ["sha256-mismatch", { sha256: hex(other) }],
        ["digest-mismatch", { digest: { digest: hex(other), size } }],
        ["digest-mismatch", { digest: { ...right.digest, size: size + 1 } }],
      ] as const)
        expect(await write(nativeBody(bytes), { expect: { ...right, ...wrong } })).toMatchObject({
          ok: false,
          reason,
        });
    });
});

describe("an additional checksum", () => {
  for (const algorithm of CHECKSUM_ALGORITHMS)
    test(`is computed where it is wanted, and held against what the sender stated: ${algorithm}`, async () => {
      for (const size of [0, 1000, 5000, 5 * MIB + 3]) {
        const bytes = randomBytes(size, size);
        const right = checksumOf(algorithm, bytes);
        const wrong = checksumOf(algorithm, randomBytes(size + 1, size));
        expect(await write(nativeBody(bytes), { checksum: algorithm })).toMatchObject({ checksum: right });
        const stated = (value: string | null) => ({ checksum: { algorithm, value: () => value } });
        for (const value of [right, null])
          expect(await write(nativeBody(bytes), { expect: stated(value) })).toMatchObject({
            ok: true,
            checksum: null,
          });
        const result = await write(nativeBody(bytes), { expect: stated(wrong), checksum: algorithm });
        expect(result).toMatchObject({ ok: false, reason: "checksum-mismatch" });
      }
    });

  test("may be another than the one that the sender stated", async () => {
    for (const size of [1000, MIB + 1]) {
      const bytes = randomBytes(size, 1);
      const checksum = { algorithm: "CRC32" as const, value: () => checksumOf("CRC32", bytes) };
      const result = await write(nativeBody(bytes), { checksum: "SHA256", expect: { checksum } });
      expect(result).toMatchObject({ ok: true, checksum: checksumOf("SHA256", bytes) });
    }
  });

  test("is not computed where nobody wants it", async () => {
    expect(await write(nativeBody(randomBytes(5000, 1)))).toMatchObject({ ok: true, checksum: null });
  });

  test("that comes behind the body is asked for when the body has ended", async () => {
    for (const size of [1000, 5 * MIB]) {
      const bytes = randomBytes(size, 2);
      let ended = false;
      const source = byteSource(nativeBody(bytes));
      const trailing: ByteSource = {
        cancel: () => source.cancel(),
        async read(space, atLeast) {
          const read = await source.read(space, atLeast);
          ended = read.length < atLeast;
          return read;
        },
      };
      const value = () => (ended ? checksumOf("CRC32C", bytes) : "too early");
      const checksum = { algorithm: "CRC32C" as const, value };
      const result = await writeFrom(trailing, { declaredSize: size, expect: { checksum } });
      expect(result).toMatchObject({ ok: true });
    }
  });
});

describe("content that may not be inline", () => {
  test("goes to a blob even if it is small, and comes back the same", async () => {
    for (const size of [1, 100, 4096, 4097]) {
      const bytes = randomBytes(size, size);
      for (const declared of [{ declaredSize: size }, {}]) {
        const content = await written(nativeBody(bytes), { ...declared, inline: "never" });
        expect(content.digest).toBe(await referenceDigest(bytes));
        expect(content.body).toMatchObject({ kind: "chunks", chunks: [{ length: size }] });
        expect(sameBytes(await readBack(content), bytes)).toBe(true);
      }
    }
  });

  test("is an empty list of chunks where it is empty, without an upload", async () => {
    for (const body of [null, nativeBody(new Uint8Array(0))]) {
      const result = await write(body, { inline: "never", openUpload: refuse, store: noStore });
      const digest = await referenceDigest(new Uint8Array(0));
      expect(result).toMatchObject({
        upload: null,
        content: { digest, size: 0, body: { kind: "chunks", chunks: [] } },
      });
      if (result.ok) expect(await readBack(result.content)).toEqual(new Uint8Array(0));
    }
  });
});

describe("a long list of chunks", () => {
  test("goes to a manifest, through which the content comes back the same", async () => {
    const bytes = randomBytes(13 * MIB + 99, 5);
    for (const manifestBound of [1, 700]) {
      const content = await written(nativeBody(bytes), { manifestBound });
      expect(content.body.kind).toBe("manifest");
      expect(content.digest).toBe(await referenceDigest(bytes));
      expect(sameBytes(await readBack(content), bytes)).toBe(true);
    }
  });
});

describe("a store that fails", () => {
  test.each([
    1, 4,
  ])("fails the write, and the budget is whole again, with %i puts at once", async (putsAtOnce) => {
    const budget = new ByteBudget(12 * CHUNK_BYTES);
    let puts = 0;
    const failing: BlobStore = {
      ...noStore,
      putsAtOnce,
      put: async () => {
        if (++puts === 2) throw new Error("the store is full");
      },
    };
    for (const size of [9 * MIB, 5 * MIB]) {
      puts = 0;
      const body = nativeBody(randomBytes(size, 1));
      await expect(write(body, { store: failing, budget })).rejects.toThrow("the store is full");
      expect(budget.free).toBe(12 * CHUNK_BYTES);
    }
  });
});

const noStore: BlobStore = { put: async () => {}, get: refuse, delete: refuse, list: refuse };

function refuse(): Promise<never> {
  return Promise.reject(new Error("not to be called"));
}

function blobsOf({ body }: Content): string[] {
  return body.kind === "chunks" ? body.chunks.map(({ blob }) => blob) : [];
}

async function leafHashes(chunk: Uint8Array<ArrayBuffer>): Promise<string> {
  let hashes = "";
  for (let at = 0; at < chunk.length; at += MIB)
    hashes += String.fromCharCode(...(await hash("SHA-256", chunk.slice(at, at + MIB))));
  return btoa(hashes);
}
