import { expect } from "vitest";
import { expectedEtag } from "../../support/expected-etag.ts";
import { seededBytes } from "../../support/random.ts";
import type { S3Tool, ToolAnswer, ToolOutput } from "../../support/s3-tools.ts";

/** What every S3 tool must be able to do. */
export interface S3Scenario {
  readonly sentence: string;
  run(stage: S3Stage): Promise<void>;
}

export interface S3Stage {
  readonly tool: S3Tool;
  /** Empty, and the scenario's own. */
  readonly bucket: string;
  /** Puts files that hold their own names, past the tool: a process a call takes its time. */
  fill(keys: readonly string[]): Promise<void>;
}

const ODD_KEYS = ["a b+c.txt", "dir/ü-日本.txt", "é%20+&=?'.txt"];

export const S3_SCENARIOS: readonly S3Scenario[] = [
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
    sentence: "gets back the bytes, the Content-Type, the metadata and the ETag of design §4",
    async run({ tool, bucket }) {
      const body = Buffer.from("name,count\nsluice,1\n");
      const attributes = { ContentType: "text/csv", Metadata: { origin: "tests", "two-words": "a b" } };
      const put = good(await tool.call("put-object", { Bucket: bucket, Key: "a.csv", ...attributes }, body));
      expect(put.ETag).toBe(expectedEtag(body));

      const head = good(await tool.call("head-object", { Bucket: bucket, Key: "a.csv" }));
      expect(head).toMatchObject({ ...attributes, ETag: put.ETag, ContentLength: body.length });
      const get = await tool.call("get-object", { Bucket: bucket, Key: "a.csv" });
      expect(good(get)).toMatchObject({ ...attributes, ETag: put.ETag, ContentLength: body.length });
      expect(bytesOf(get)).toEqual(body);
    },
  },
  {
    sentence: "puts 5 MiB and an odd rest in one request and gets any range of it",
    async run({ tool, bucket }) {
      const body = seededBytes(5 * 1024 * 1024 + 4321, 1);
      good(await tool.upload(bucket, "big/data.bin", body));
      const whole = await tool.call("get-object", { Bucket: bucket, Key: "big/data.bin" });
      expect(good(whole).ETag).toBe(expectedEtag(body));
      expect(bytesOf(whole).equals(body)).toBe(true);

      // Over the end of the first 4 MiB, where one chunk ends and the next begins; and the last bytes.
      const from = 4 * 1024 * 1024 - 10;
      for (const [range, wanted] of [
        [`bytes=${from}-${from + 19}`, body.subarray(from, from + 20)],
        ["bytes=-5", body.subarray(-5)],
      ] as const) {
        const part = await tool.call("get-object", { Bucket: bucket, Key: "big/data.bin", Range: range });
        expect(good(part)).toMatchObject({ ContentLength: wanted.length });
        expect(bytesOf(part).equals(wanted)).toBe(true);
      }
    },
  },
  {
    sentence: "is told 304, 412 and 416 by conditions and ranges that do not hold",
    async run({ tool, bucket, fill }) {
      await fill(["a"]);
      const at = { Bucket: bucket, Key: "a" };
      const ETag = expectedEtag(Buffer.from("a"));
      const get = (more: object): Promise<ToolAnswer> => tool.call("get-object", { ...at, ...more });
      expect(await get({ IfNoneMatch: ETag })).toEqual({ ok: false, code: "304" });
      expect(await get({ IfMatch: '"other"' })).toEqual({ ok: false, code: "412" });
      expect(await get({ Range: "bytes=100-" })).toEqual({ ok: false, code: "416" });
      expect(bytesOf(await get({ IfMatch: ETag }))).toEqual(Buffer.from("a"));
    },
  },
  {
    sentence: "reads an earlier commit by its version id",
    async run({ tool, bucket }) {
      const at = { Bucket: bucket, Key: "a" };
      const first = good(await tool.call("put-object", at, Buffer.from("one")));
      const second = good(await tool.call("put-object", at, Buffer.from("two")));
      expect(first.VersionId).not.toBe(second.VersionId);
      const old = await tool.call("get-object", { ...at, VersionId: first.VersionId });
      expect(bytesOf(old)).toEqual(Buffer.from("one"));
      const oldHead = good(await tool.call("head-object", { ...at, VersionId: first.VersionId }));
      expect(oldHead.ETag).toBe(expectedEtag(Buffer.from("one")));
      expect(bytesOf(await tool.call("get-object", at))).toEqual(Buffer.from("two"));
    },
  },
  {
    sentence: "keeps keys with spaces, Unicode, plus and percent as they are",
    async run({ tool, bucket }) {
      for (const Key of ODD_KEYS) {
        good(await tool.call("put-object", { Bucket: bucket, Key }, Buffer.from(Key)));
        expect(bytesOf(await tool.call("get-object", { Bucket: bucket, Key })).toString()).toBe(Key);
      }
      const listed = keysOf(await tool.call("list-objects-v2", { Bucket: bucket }));
      expect(listed).toEqual([...ODD_KEYS].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
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

function good(answer: ToolAnswer): ToolOutput {
  if (!answer.ok) throw new Error(`refused: ${answer.code}`);
  return answer.output;
}

function bytesOf(answer: ToolAnswer): Buffer {
  good(answer);
  return answer.ok ? answer.bytes : Buffer.alloc(0);
}

function keysOf(answer: ToolAnswer): string[] {
  return (good(answer).Contents ?? []).map(({ Key }) => Key);
}
