import { expect } from "vitest";
import { bytesOf, good, keysOf } from "../../support/clients/api-tool.ts";
import { inByteOrder } from "../../support/clients/samples.ts";
import type { Scenario } from "./scenario.ts";

const ODD_KEYS = ["a b+c.txt", "dir/ü-日本.txt", "é%20+&=?'.txt", "[1] 😀.txt"];

/** Buckets, and the objects in them by the many. */
export const BUCKET_SCENARIOS: readonly Scenario[] = [
  {
    sentence: "finds the bucket it made, and cannot make it twice",
    async run({ tool, bucket: other }) {
      const bucket = `${other}-own`;
      good(await tool.call("create-bucket", { Bucket: bucket }));
      const { Buckets = [] } = good(await tool.call("list-buckets", {}));
      expect(Buckets.map(({ Name }) => Name)).toContain(bucket);
      good(await tool.call("head-bucket", { Bucket: bucket }));
      good(await tool.call("get-bucket-location", { Bucket: bucket }));
      const twice = await tool.call("create-bucket", { Bucket: bucket });
      expect(twice).toEqual({ ok: false, code: "BucketAlreadyOwnedByYou" });
    },
  },
  {
    sentence: "keeps keys with spaces, Unicode, plus and percent as they are",
    async run({ tool, bucket }) {
      for (const Key of ODD_KEYS) {
        good(await tool.call("put-object", { Bucket: bucket, Key }, Buffer.from(Key)));
        expect(bytesOf(await tool.call("get-object", { Bucket: bucket, Key })).toString()).toBe(Key);
      }
      expect(keysOf(await tool.call("list-objects-v2", { Bucket: bucket }))).toEqual(inByteOrder(ODD_KEYS));
    },
  },
  {
    sentence: "lists in byte order by version 1 and 2, folds at a delimiter and pages by three",
    async run({ tool, bucket, fill }) {
      const keys = ["a", "d+1/x", "d/1", "d/2", "d/sub/3", "e", "z1", "z2"];
      await fill(keys);
      const at = { Bucket: bucket };
      for (const operation of ["list-objects", "list-objects-v2"]) {
        expect(keysOf(await tool.walk(operation, at, 3))).toEqual(keys);
        const folded = good(await tool.walk(operation, { ...at, Delimiter: "/" }, 3));
        expect(folded.Contents?.map(({ Key }) => Key)).toEqual(["a", "e", "z1", "z2"]);
        expect(folded.CommonPrefixes?.map(({ Prefix }) => Prefix)).toEqual(["d+1/", "d/"]);
      }
      const under = await tool.call("list-objects", { ...at, Prefix: "d/", Delimiter: "/" });
      expect(keysOf(under)).toEqual(["d/1", "d/2"]);
      expect(good(under).CommonPrefixes).toMatchObject([{ Prefix: "d/sub/" }]);

      const page = good(await tool.call("list-objects-v2", { ...at, MaxKeys: 3 }));
      expect(page).toMatchObject({ IsTruncated: true, KeyCount: 3 });
      const next = { ...at, MaxKeys: 3, ContinuationToken: page.NextContinuationToken };
      expect(keysOf(await tool.call("list-objects-v2", next))).toEqual(keys.slice(3, 6));
      const after = { ...at, StartAfter: "e" };
      expect(keysOf(await tool.call("list-objects-v2", after))).toEqual(["z1", "z2"]);
    },
  },
  {
    sentence: "deletes one object, many objects, and the bucket with what is left in it",
    async run({ tool, bucket, fill }) {
      await fill(["1", "2", "3", "4"]);
      good(await tool.call("delete-object", { Bucket: bucket, Key: "1" }));
      good(await tool.call("delete-object", { Bucket: bucket, Key: "1" }));
      expect(await tool.call("get-object", { Bucket: bucket, Key: "1" })).toEqual({
        ok: false,
        code: "NoSuchKey",
      });
      const Delete = { Objects: [{ Key: "2" }, { Key: "3" }, { Key: "never there" }] };
      const { Deleted = [] } = good(await tool.call("delete-objects", { Bucket: bucket, Delete }));
      expect(Deleted.map(({ Key }) => Key).sort()).toEqual(["2", "3", "never there"]);
      expect(keysOf(await tool.call("list-objects", { Bucket: bucket }))).toEqual(["4"]);

      good(await tool.call("delete-bucket", { Bucket: bucket }));
      expect(await tool.call("list-objects", { Bucket: bucket })).toEqual({
        ok: false,
        code: "NoSuchBucket",
      });
      const { Buckets = [] } = good(await tool.call("list-buckets", {}));
      expect(Buckets.map(({ Name }) => Name)).not.toContain(bucket);
    },
  },
];
