import { describe, expect, test } from "vitest";
import { NotDeletedError } from "../../../worker/blobs/port.ts";
import { DiskBlobStore, R2BlobStore, removeBlobs } from "../../../worker/blobs/stores.ts";
import { MemoryStore } from "./memory-store.ts";

/** Names of so many blobs, and of those among them that can't be deleted. */
function blobs(count: number, stuck: readonly number[]) {
  const names = Array.from({ length: count }, (_, n) => `b/${n}`);
  return { names, stuck: stuck.map((n) => `b/${n}`) };
}

describe("blobs that can't be deleted", () => {
  test("keep a folder's other ones from going no more than each of them itself", async () => {
    const { names, stuck } = blobs(20, [0, 7]);
    const asked: string[] = [];
    const fetch = async (url: string) => {
      const name = new URL(url).pathname.slice(1);
      asked.push(name);
      return new Response(stuck.includes(name) ? "is busy" : null, {
        status: stuck.includes(name) ? 500 : 204,
      });
    };
    const failure = await new DiskBlobStore({ fetch } as unknown as Fetcher)
      .delete(names)
      .catch((error) => error);
    expect(failure).toBeInstanceOf(NotDeletedError);
    expect(failure.names).toEqual(stuck);
    expect(failure.message).toContain("b/0: 500 is busy");
    expect(asked).toEqual(names);
  });

  test("are in a bucket those of the call that failed", async () => {
    const { names } = blobs(2500, []);
    const bucket = {
      async delete(some: readonly string[]) {
        if (some.includes("b/1000")) throw new Error("internal error");
      },
    };
    const failure = await new R2BlobStore(bucket as unknown as R2Bucket)
      .delete(names)
      .catch((error) => error);
    expect(failure).toBeInstanceOf(NotDeletedError);
    expect(failure.names).toEqual(names.slice(1000, 2000));
  });

  test("are held back, and the others are gone", async () => {
    const { names, stuck } = blobs(5, [3]);
    const store = new MemoryStore();
    store.delete = async () => {
      throw new NotDeletedError(stuck, new Error("is busy"));
    };
    const removed = await removeBlobs(
      store,
      names.map((blob) => ({ blob, borrowed: 0 })),
    );
    expect(removed.gone).toEqual(names.filter((name) => !stuck.includes(name)));
    expect(removed.held).toMatchObject([{ blobs: stuck, error: { message: "is busy" } }]);
  });

  test("that are manifests of a store that is away are not all asked for", async () => {
    const store = new MemoryStore();
    store.getsUntilFailure = 0;
    const manifests = Array.from({ length: 1000 }, (_, n) => `b/${n}-9.manifest.w.U`);
    const { gone, held } = await removeBlobs(
      store,
      manifests.map((blob) => ({ blob, borrowed: 0 })),
    );
    expect(gone).toEqual([]);
    expect(held.map(({ blobs }) => blobs)).toEqual(manifests.slice(0, 50).map((blob) => [blob]));
  });
});
