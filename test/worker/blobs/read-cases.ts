import type { BlobStore } from "../../../worker/blobs/port.ts";
import { readContent } from "../../../worker/blobs/read/read-content.ts";
import { HOLD_EVERY_MS, ReadHold } from "../../../worker/blobs/read/read-hold.ts";
import { READ_CASE_NAMES } from "./read-case-names.ts";
import type { StoreCase } from "./store-cases.ts";

const MIB = 1024 * 1024;

/** How a store and the reading over it go together. Held against both adapters, as STORE_CASES are. */
export const READ_CASES: readonly StoreCase[] = [
  {
    name: READ_CASE_NAMES[0],
    async run(store) {
      const reader = await slowReader(store, { folder: "case-cut", hold: null });
      await store.delete(reader.blobs.slice(1));
      const { read, failed } = await reader.rest();
      if (!failed) throw new Error(`the body ended after ${read} bytes as if it were whole`);
    },
  },
  {
    name: READ_CASE_NAMES[1],
    async run(store) {
      const clock = new HandClock();
      const kept: (readonly string[])[] = [];
      const keepBlobs = async ({ blobs }: { blobs: readonly string[] }) => {
        kept.push(blobs);
        return { borrowed: false, parents: [] };
      };
      const hold = new ReadHold({ bucket: "b", keeper: () => ({ keepBlobs }), every: clock.every });
      const reader = await slowReader(store, { folder: "case-held", hold });
      if (clock.ms !== HOLD_EVERY_MS) throw new Error(`it is held every ${clock.ms} ms`);
      await clock.strike();
      if (kept.flat().join() !== reader.blobs.join()) throw new Error(`it holds ${kept.flat()}`);
      // As a blob reaper that leaves what is held.
      await store.delete(reader.blobs.filter((blob) => !kept.flat().includes(blob)));
      const { read, failed } = await reader.rest();
      if (failed || read !== 3 * MIB) throw new Error(`it was cut off after ${read} bytes`);
      if (!clock.isStopped) throw new Error("it is held for ever");
    },
  },
];

/** A clock that strikes when it is told. */
class HandClock {
  ms = 0;
  isStopped = false;
  #work = () => {};

  readonly every = (ms: number, work: () => void) => {
    this.ms = ms;
    this.#work = work;
    return () => {
      this.isStopped = true;
    };
  };

  async strike(): Promise<void> {
    this.#work();
    await scheduler.wait(0);
  }
}

/** Somebody who has read the first bytes of a content of three blobs, and goes on when `rest` is called. */
async function slowReader(store: BlobStore, { folder, hold }: { folder: string; hold: ReadHold | null }) {
  const blobs = [1, 2, 3].map((index) => `${folder}/${index}.U`);
  for (const [index, blob] of blobs.entries()) await store.put(blob, new Uint8Array(MIB).fill(index));
  const chunks = blobs.map((blob) => ({ blob, offset: 0, length: MIB, leaves: null }));
  const content = { body: { kind: "chunks", chunks } as const, size: 3 * MIB, hold };
  const body = new Response(await readContent(store, content)).body;
  const reader = body?.getReader();
  const first = await reader?.read();
  const rest = async (): Promise<{ read: number; failed: boolean }> => {
    let read = first?.value?.length ?? 0;
    try {
      for (;;) {
        const step = await reader?.read();
        if (!step || step.done) break;
        read += step.value.length;
      }
    } catch {
      return { read, failed: true };
    }
    // What is awaited of the pump comes after its last byte.
    await scheduler.wait(10);
    return { read, failed: false };
  };
  return { blobs, rest };
}
