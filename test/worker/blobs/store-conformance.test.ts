import { env } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { DiskBlobStore, openBlobStore, R2BlobStore } from "../../../worker/blobs/stores.ts";
import { READ_CASES } from "./read-cases.ts";
import { STORE_CASES } from "./store-cases.ts";

describe("a blob store in R2", () => {
  for (const { name, run } of [...STORE_CASES, ...READ_CASES])
    test(name, () => run(new R2BlobStore(env.BLOBS)));
});

describe("the blob store of a host", () => {
  const disk = { fetch: () => Promise.reject(new Error("not asked")) } as unknown as Fetcher;

  test("is the disk where one is bound, else R2", () => {
    expect(openBlobStore({ DISK: disk, BLOBS: env.BLOBS })).toBeInstanceOf(DiskBlobStore);
    expect(openBlobStore({ BLOBS: env.BLOBS })).toBeInstanceOf(R2BlobStore);
  });

  test("is refused at once, by the names to bind, where there is neither", () => {
    expect(() => openBlobStore({})).toThrow(/BLOBS.*DISK/);
  });
});
