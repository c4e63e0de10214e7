import type { BlobStore } from "../../../worker/blobs/port.ts";

/** One thing that every blob store does. Throws where this one does not. */
export interface StoreCase {
  /** A sentence that goes on after "a blob store". */
  readonly name: string;
  run(store: BlobStore): Promise<void>;
}

const MIB = 1024 * 1024;

/** Held against the R2 adapter by store-conformance.test.ts, and against the disk adapter by test/node/blobs. */
export const STORE_CASES: readonly StoreCase[] = [
  {
    name: "gives back what was put, whole and in ranges",
    async run(store) {
      const bytes = pattern(5000, 1);
      await store.put("case/ranges.U", bytes);
      for (const [offset, length] of [
        [0, 5000],
        [0, 1],
        [4999, 1],
        [1234, 777],
        [1, 4999],
      ] as const) {
        const range = await read(store, { name: "case/ranges.U", offset, length });
        same(range, bytes.slice(offset, offset + length), `bytes ${offset}+${length}`);
      }
    },
  },
  {
    name: "answers null for a blob that it does not have",
    async run(store) {
      await store.put("case/known.U", pattern(1, 1));
      for (const name of ["case/unknown.U", "no/such/folder/x.U"]) {
        const found = await store.get(name, { offset: 0, length: 1 });
        if (found !== null) throw new Error(`${name} was found`);
      }
    },
  },
  {
    name: "keeps the last of several puts of one name",
    async run(store) {
      await store.put("case/replaced.U", pattern(3000, 1));
      await store.put("case/replaced.U", pattern(2000, 2));
      same(await read(store, { name: "case/replaced.U", length: 2000 }), pattern(2000, 2), "the blob");
    },
  },
  {
    name: "keeps one whole blob of two that are put at once under one name",
    async run(store) {
      const blobs = [pattern(MIB, 3), pattern(MIB, 4)];
      await Promise.all(blobs.map((blob) => store.put("case/raced.U", blob)));
      const kept = await read(store, { name: "case/raced.U", length: MIB });
      if (!blobs.some((blob) => equal(kept, blob))) throw new Error("the blob is neither of the two");
    },
  },
  {
    name: "deletes a blob, and does not mind one that is not there",
    async run(store) {
      await store.put("case/deleted.U", pattern(10, 1));
      await store.delete(["case/deleted.U"]);
      if ((await store.get("case/deleted.U", { offset: 0, length: 10 })) !== null)
        throw new Error("still there");
      await store.delete(["case/deleted.U"]);
      await store.delete(["no/such/folder/x.U", "case/other.U"]);
    },
  },
  {
    name: "takes names with characters that mean something in an address",
    async run(store) {
      const names = ["case/a b", "case/a+b", "case/a%20b", "case/a?b", "case/a#b", "case/ä", "case/a&b=c"];
      for (const [index, name] of names.entries()) await store.put(name, pattern(10, index));
      for (const [index, name] of names.entries())
        same(await read(store, { name, length: 10 }), pattern(10, index), name);
    },
  },
  {
    name: "refuses a range that the blob is too short for",
    async run(store) {
      await store.put("case/short.U", pattern(100, 1));
      for (const range of [
        { offset: 0, length: 101 },
        { offset: 99, length: 2 },
      ]) {
        const refused = await store.get("case/short.U", range).then(
          () => false,
          () => true,
        );
        if (!refused) throw new Error(`bytes ${range.offset}+${range.length} were served`);
      }
    },
  },
  {
    name: "has taken the bytes when a put is done, so that their buffer is free",
    async run(store) {
      const bytes = pattern(4 * MIB, 5);
      await store.put("case/reused.U", bytes);
      bytes.fill(0);
      same(await read(store, { name: "case/reused.U", length: 4 * MIB }), pattern(4 * MIB, 5), "the blob");
    },
  },
  {
    name: "puts just the part of a buffer that it is given",
    async run(store) {
      await store.put("case/part.U", pattern(1000, 6).subarray(100, 200));
      same(
        await read(store, { name: "case/part.U", length: 100 }),
        pattern(1000, 6).slice(100, 200),
        "the part",
      );
    },
  },
  {
    name: "lets a reader go away in the middle",
    async run(store) {
      await store.put("case/left.U", pattern(2 * MIB, 7));
      const stream = await store.get("case/left.U", { offset: 0, length: 2 * MIB });
      const reader = stream?.getReader();
      await reader?.read();
      await reader?.cancel();
      same(await read(store, { name: "case/left.U", length: 2 * MIB }), pattern(2 * MIB, 7), "the blob");
    },
  },
  {
    name: "lists what is below a prefix in order, page by page, and nothing beside it",
    async run(store) {
      // A dot sorts before the slash of a folder, a digit after it.
      const names = ["a.U", "a/x.U", "a/y/z.U", "a0.U", "b.U"].map((name) => `case-list/${name}`);
      for (const name of [...names].reverse()) await store.put(name, pattern(1, 1));
      await store.put("case-list2/other.U", pattern(1, 1));
      for (const limit of [1, 2, 100]) {
        const listed: string[] = [];
        let after: string | undefined;
        do {
          const page = await store.list({ prefix: "case-list/", after, limit });
          if (page.names.length > limit) throw new Error(`${page.names.length} names of at most ${limit}`);
          listed.push(...page.names);
          after = page.next ?? undefined;
        } while (after !== undefined);
        if (listed.join() !== names.join()) throw new Error(`by ${limit}: ${listed.join()}`);
      }
    },
  },
  {
    name: "lists nothing below a prefix that no blob has, and no blob that was deleted",
    async run(store) {
      await store.put("case-gone/x.U", pattern(1, 1));
      await store.delete(["case-gone/x.U"]);
      for (const prefix of ["case-gone/", "no/such/folder/"]) {
        const { names, next } = await store.list({ prefix, limit: 10 });
        if (names.length > 0 || next !== null) throw new Error(`${prefix}: ${names.join()}, ${next}`);
      }
    },
  },
];

async function read(
  store: BlobStore,
  { name, offset = 0, length }: { name: string; offset?: number; length: number },
): Promise<Uint8Array> {
  const stream = await store.get(name, { offset, length });
  if (stream === null) throw new Error(`${name} is not there`);
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function pattern(size: number, seed: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length: size }, (_, index) => Math.imul(index + seed, 2654435761) >>> 24);
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}

function same(actual: Uint8Array, expected: Uint8Array, what: string): void {
  if (!equal(actual, expected))
    throw new Error(`${what}: other bytes than were put (${actual.length} of them)`);
}
