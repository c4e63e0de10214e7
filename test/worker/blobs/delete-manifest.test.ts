import { describe, expect, test } from "vitest";
import { manifestBytes } from "../../../worker/blobs/blob-name.ts";
import type { Chunk } from "../../../worker/blobs/content.ts";
import { ChunkList, deleteManifest } from "../../../worker/blobs/manifest.ts";
import { MemoryStore } from "./memory-store.ts";

const OWNER = { uid: "uid", upload: "master.repo.U", write: "w" };
const CHUNKS = 7;

/** A store with a content whose list of chunks takes several pages, two chunks each. */
async function manifest() {
  const store = new MemoryStore();
  const list = new ChunkList({ store, owner: OWNER, bound: 60 });
  for (let number = 0; number < CHUNKS; number++) {
    const chunk: Chunk = { blob: `b/${number}`, offset: 0, length: 1, leaves: null };
    await store.put(chunk.blob, new Uint8Array(1));
    await list.add(chunk);
  }
  const body = await list.finish();
  if (body.kind !== "manifest") throw new Error("the list fits a row");
  const { blob, length } = body;
  expect(manifestBytes(blob)).toBe(length);
  return { store, blob, length };
}

describe("deleting a manifest", () => {
  test("takes its chunks and pages along, in as many rounds as it is given", async () => {
    const { store, ...head } = await manifest();
    let rounds = 0;
    for (let done = false; !done; rounds++) {
      expect(store.blobs.has(head.blob)).toBe(true);
      const before = store.blobs.size;
      const deleted = await deleteManifest(store, { ...head, chunks: "own", mostPages: 1 });
      done = deleted.done;
      expect(store.blobs.size).toBeLessThan(before);
    }
    expect(rounds).toBeGreaterThan(2);
    expect([...store.blobs.keys()]).toEqual([]);
  });

  test("leaves chunks that belong to others", async () => {
    const { store, ...head } = await manifest();
    await deleteManifest(store, { ...head, chunks: "borrowed", mostPages: 100 });
    expect(store.blobs.size).toBe(CHUNKS);
  });

  test("that a crash cut off anywhere goes on until nothing is left", async () => {
    for (let crashAt = 0; ; crashAt++) {
      const { store, ...head } = await manifest();
      let left = crashAt;
      const remove = store.delete.bind(store);
      store.delete = async (names) => {
        if (left-- === 0) throw new Error("crash");
        await remove(names);
      };
      const asked = { ...head, chunks: "own", mostPages: 100 } as const;
      const crashed = await deleteManifest(store, asked).then(
        () => false,
        () => true,
      );
      left = Number.POSITIVE_INFINITY;
      expect(await deleteManifest(store, asked)).toMatchObject({ done: true });
      expect([...store.blobs.keys()]).toEqual([]);
      if (!crashed) return;
    }
  });
});

test("the name of a chunk is not that of a manifest", () => {
  expect(manifestBytes("b/ab/uid/abcd-12.w.U")).toBeUndefined();
});
