import { createHash } from "node:crypto";
import { expect } from "vitest";
import { bytesOf, good, keysOf, type ToolAnswer } from "../../support/clients/api-tool.ts";
import { expectedEtag } from "../../support/expected-etag.ts";
import { seededBytes } from "../../support/random.ts";
import type { Scenario } from "./scenario.ts";

/** Operations on single objects and on what is kept of them. */
export const OBJECT_SCENARIOS: readonly Scenario[] = [
  {
    sentence: "gets back the bytes, the Content-Type, the metadata and the ETag that the contract says",
    async run({ tool, bucket }) {
      const body = Buffer.from("name,count\nsluice,1\n");
      const attributes = {
        ContentType: "text/csv",
        CacheControl: "no-cache",
        Metadata: { origin: "tests", "two-words": "a b" },
      };
      const put = good(await tool.call("put-object", { Bucket: bucket, Key: "a.csv", ...attributes }, body));
      expect(put.ETag).toBe(expectedEtag(body));

      const head = good(await tool.call("head-object", { Bucket: bucket, Key: "a.csv" }));
      expect(head).toMatchObject({ ...attributes, ETag: put.ETag, ContentLength: body.length });
      const get = await tool.call("get-object", { Bucket: bucket, Key: "a.csv" });
      expect(good(get)).toMatchObject({ ...attributes, ETag: put.ETag, ContentLength: body.length });
      expect(bytesOf(get)).toEqual(body);

      const asked = { Bucket: bucket, Key: "a.csv", ResponseContentType: "application/x-asked" };
      expect(good(await tool.call("get-object", asked)).ContentType).toBe("application/x-asked");
    },
  },
  {
    sentence: "puts 5 MiB and an odd rest in one request and gets any range of it",
    async run({ tool, bucket }) {
      const body = seededBytes(5 * 1024 * 1024 + 4321, 1);
      const at = { Bucket: bucket, Key: "big/data.bin" };
      good(await tool.call("put-object", at, body));
      const whole = await tool.call("get-object", at);
      expect(good(whole).ETag).toBe(expectedEtag(body));
      expect(bytesOf(whole).equals(body)).toBe(true);

      // Over the end of the first 4 MiB, where one chunk ends and the next begins; and the last bytes.
      const from = 4 * 1024 * 1024 - 10;
      for (const [Range, wanted] of [
        [`bytes=${from}-${from + 19}`, body.subarray(from, from + 20)],
        ["bytes=-5", body.subarray(-5)],
      ] as const) {
        const part = await tool.call("get-object", { ...at, Range });
        expect(good(part)).toMatchObject({ ContentLength: wanted.length });
        expect(bytesOf(part).equals(wanted)).toBe(true);
      }
    },
  },
  {
    sentence: "is told 304, 412 and InvalidRange by conditions and ranges that do not hold",
    async run({ tool, bucket, fill }) {
      await fill(["a"]);
      const at = { Bucket: bucket, Key: "a" };
      const ETag = expectedEtag(Buffer.from("a"));
      const get = (more: object): Promise<ToolAnswer> => tool.call("get-object", { ...at, ...more });
      expect(await get({ IfNoneMatch: ETag })).toEqual({ ok: false, code: "304" });
      expect(await get({ IfMatch: '"other"' })).toEqual({ ok: false, code: "412" });
      expect(await get({ Range: "bytes=100-" })).toEqual({ ok: false, code: "InvalidRange" });
      expect(bytesOf(await get({ IfMatch: ETag }))).toEqual(Buffer.from("a"));
    },
  },
  {
    sentence:
      "reads earlier commits by their version ids, lists them, learns that the bucket has them, and which is a deletion",
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

      const { Versions } = good(await tool.call("list-object-versions", { Bucket: bucket }));
      expect(Versions).toMatchObject([
        { Key: "a", VersionId: second.VersionId, IsLatest: true },
        { Key: "a", VersionId: first.VersionId, IsLatest: false },
      ]);
      const versioning = good(await tool.call("get-bucket-versioning", { Bucket: bucket }));
      expect(versioning.Status).toBe("Enabled");

      const deleted = good(await tool.call("delete-object", at));
      expect(deleted).toMatchObject({ DeleteMarker: true, VersionId: expect.any(String) });
      const ofDeletion = { ...at, VersionId: deleted.VersionId };
      expect(await tool.call("get-object", ofDeletion)).toEqual({ ok: false, code: "MethodNotAllowed" });
      expect(await tool.call("get-object", at)).toEqual({ ok: false, code: "NoSuchKey" });
    },
  },
  {
    sentence: "has a checksum verified, and gets it back when it asks",
    async run({ tool, bucket }) {
      const body = seededBytes(1_500_000, 3);
      const ChecksumSHA256 = createHash("sha256").update(body).digest("base64");
      const at = { Bucket: bucket, Key: "checked" };
      const put = good(await tool.call("put-object", { ...at, ChecksumSHA256 }, body));
      expect(put.ChecksumSHA256).toBe(ChecksumSHA256);
      const head = good(await tool.call("head-object", { ...at, ChecksumMode: "ENABLED" }));
      expect(head.ChecksumSHA256).toBe(ChecksumSHA256);
      // The tools verify it themselves.
      expect(bytesOf(await tool.call("get-object", { ...at, ChecksumMode: "ENABLED" })).equals(body)).toBe(
        true,
      );
      const ObjectAttributes = ["ObjectSize", "Checksum", "ETag"];
      const attributes = good(await tool.call("get-object-attributes", { ...at, ObjectAttributes }));
      expect(attributes).toMatchObject({ ObjectSize: body.length, Checksum: { ChecksumSHA256 } });

      const wrong = createHash("sha256").update("other bytes").digest("base64");
      const refused = await tool.call("put-object", { ...at, Key: "wrong", ChecksumSHA256: wrong }, body);
      expect(refused).toEqual({ ok: false, code: "BadDigest" });
      expect(keysOf(await tool.call("list-objects-v2", { Bucket: bucket }))).toEqual(["checked"]);
    },
  },
  {
    sentence: "copies an object as it is, or with other metadata, or not where a condition does not hold",
    async run({ tool, bucket }) {
      const body = seededBytes(4_500_000, 5);
      const [source, CopySource] = [{ Bucket: bucket, Key: "source" }, `${bucket}/source`];
      const kept = { ContentType: "text/csv", Metadata: { origin: "tests" } };
      const { ETag } = good(await tool.call("put-object", { ...source, ...kept }, body));
      const copy = { Bucket: bucket, Key: "copies/as it is", CopySource };
      expect(good(await tool.call("copy-object", copy)).CopyObjectResult?.ETag).toBe(ETag);
      const asItIs = await tool.call("get-object", { Bucket: bucket, Key: copy.Key });
      expect(good(asItIs)).toMatchObject({ ...kept, ETag });
      expect(bytesOf(asItIs).equals(body)).toBe(true);

      const news = { ContentType: "text/plain", Metadata: { origin: "elsewhere" } };
      const replacing = { ...copy, Key: "copies/changed", MetadataDirective: "REPLACE", ...news };
      good(await tool.call("copy-object", replacing));
      const changed = good(await tool.call("head-object", { Bucket: bucket, Key: replacing.Key }));
      expect(changed).toMatchObject({ ...news, ETag });

      const unlessSame = { ...copy, Key: "copies/never", CopySourceIfNoneMatch: ETag };
      expect((await tool.call("copy-object", unlessSame)).ok).toBe(false);
      expect(keysOf(await tool.call("list-objects-v2", { Bucket: bucket, Prefix: "copies/n" }))).toEqual([]);
    },
  },
  {
    sentence: "hears a clear refusal of a key that the tree cannot hold",
    async run({ tool, bucket }) {
      for (const Key of ["a//b", `${"k".repeat(1025)}`]) {
        const answer = await tool.call("put-object", { Bucket: bucket, Key }, Buffer.from("a"));
        expect(answer).toMatchObject({ ok: false });
        expect(answer.ok ? "" : answer.code).toMatch(/^(InvalidArgument|KeyTooLongError|InvalidRequest)$/);
      }
      expect(keysOf(await tool.call("list-objects-v2", { Bucket: bucket }))).toEqual([]);
    },
  },
];
