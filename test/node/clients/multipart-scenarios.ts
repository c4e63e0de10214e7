import { expect } from "vitest";
import { type ApiTool, bytesOf, good, keysOf } from "../../support/clients/api-tool.ts";
import { expectedEtag } from "../../support/expected-etag.ts";
import { seededBytes } from "../../support/random.ts";
import type { Scenario } from "./scenario.ts";

const LEAST_PART = 5 * 1024 * 1024;

/** Multipart uploads, request by request. */
export const MULTIPART_SCENARIOS: readonly Scenario[] = [
  {
    sentence:
      "uploads parts out of order, one of them again, sees them listed, and completes them to one object",
    async run({ tool, bucket }) {
      const body = seededBytes(2 * LEAST_PART + 1234 + 777, 11);
      const bounds = [0, LEAST_PART, 2 * LEAST_PART + 1234, body.length];
      const part = (n: number): Buffer => body.subarray(bounds[n - 1], bounds[n]);
      const upload = await open(tool, { bucket, key: "in/parts.bin", more: { ContentType: "text/csv" } });
      const tags = new Map<number, string>();
      for (const [n, bytes] of [
        [3, part(3)],
        [1, part(2)],
        [2, part(2)],
        [1, part(1)],
      ] as const) {
        const sent = await tool.call("upload-part", { ...upload, PartNumber: n }, bytes);
        tags.set(n, good(sent).ETag ?? "");
      }
      expect(tags.get(1)).toBe(expectedEtag(part(1)));

      const { Uploads } = good(await tool.call("list-multipart-uploads", { Bucket: bucket, Prefix: "in/" }));
      expect(Uploads).toMatchObject([{ Key: "in/parts.bin", UploadId: upload.UploadId }]);
      const page = good(await tool.call("list-parts", { ...upload, MaxParts: 2 }));
      expect(page.Parts).toMatchObject([1, 2].map((n) => listed(n, part(n))));
      expect(page.IsTruncated).toBe(true);
      const rest = await tool.call("list-parts", { ...upload, PartNumberMarker: page.NextPartNumberMarker });
      expect(good(rest).Parts).toMatchObject([listed(3, part(3))]);

      const Parts = [1, 2, 3].map((PartNumber) => ({ PartNumber, ETag: tags.get(PartNumber) }));
      const done = await tool.call("complete-multipart-upload", { ...upload, MultipartUpload: { Parts } });
      expect(good(done).ETag).toBe(expectedEtag(body));
      const at = { Bucket: bucket, Key: "in/parts.bin" };
      const whole = await tool.call("get-object", at);
      expect(good(whole)).toMatchObject({ ContentType: "text/csv", ETag: expectedEtag(body) });
      expect(bytesOf(whole).equals(body)).toBe(true);
      const second = await tool.call("get-object", { ...at, PartNumber: 2 });
      expect(good(second).PartsCount).toBe(3);
      expect(bytesOf(second).equals(part(2))).toBe(true);
    },
  },
  {
    sentence: "puts an object together from ranges of others",
    async run({ tool, bucket }) {
      const body = seededBytes(2 * LEAST_PART + 1, 12);
      good(await tool.call("put-object", { Bucket: bucket, Key: "source" }, body));
      const upload = await open(tool, { bucket, key: "composed" });
      const ranges = [
        [777, 777 + LEAST_PART - 1],
        [3, body.length - 1],
      ] as const;
      const Parts: object[] = [];
      for (const [index, [first, last]] of ranges.entries()) {
        const piece = { CopySource: `${bucket}/source`, CopySourceRange: `bytes=${first}-${last}` };
        const copied = await tool.call("upload-part-copy", { ...upload, PartNumber: index + 1, ...piece });
        const { ETag } = good(copied).CopyPartResult ?? {};
        expect(ETag).toBe(expectedEtag(body.subarray(first, last + 1)));
        Parts.push({ PartNumber: index + 1, ETag });
      }
      good(await tool.call("complete-multipart-upload", { ...upload, MultipartUpload: { Parts } }));
      const wanted = Buffer.concat(ranges.map(([first, last]) => body.subarray(first, last + 1)));
      const whole = await tool.call("get-object", { Bucket: bucket, Key: "composed" });
      expect(good(whole).ETag).toBe(expectedEtag(wanted));
      expect(bytesOf(whole).equals(wanted)).toBe(true);
    },
  },
  {
    sentence: "gives an upload up, and nothing of it is left",
    async run({ tool, bucket }) {
      const upload = await open(tool, { bucket, key: "given/up" });
      good(await tool.call("upload-part", { ...upload, PartNumber: 1 }, seededBytes(100_000, 13)));
      good(await tool.call("abort-multipart-upload", upload));
      const { Uploads = [] } = good(await tool.call("list-multipart-uploads", { Bucket: bucket }));
      expect(Uploads).toEqual([]);
      expect(await tool.call("list-parts", upload)).toEqual({ ok: false, code: "NoSuchUpload" });
      expect(keysOf(await tool.call("list-objects-v2", { Bucket: bucket }))).toEqual([]);
    },
  },
  {
    sentence: "hears which part is too small, missing or not the one it thinks",
    async run({ tool, bucket }) {
      const upload = await open(tool, { bucket, key: "faulty" });
      const sent = await tool.call("upload-part", { ...upload, PartNumber: 1 }, Buffer.from("small"));
      good(await tool.call("upload-part", { ...upload, PartNumber: 2 }, Buffer.from("last")));
      const [first, last] = [good(sent).ETag, expectedEtag(Buffer.from("last"))];
      const complete = async (...parts: readonly (readonly [number, string | undefined])[]) => {
        const Parts = parts.map(([PartNumber, ETag]) => ({ PartNumber, ETag }));
        return tool.call("complete-multipart-upload", { ...upload, MultipartUpload: { Parts } });
      };
      expect(await complete([1, first], [2, last])).toEqual({ ok: false, code: "EntityTooSmall" });
      expect(await complete([2, last], [1, first])).toEqual({ ok: false, code: "InvalidPartOrder" });
      expect(await complete([7, last])).toEqual({ ok: false, code: "InvalidPart" });
      expect(await complete([1, last])).toEqual({ ok: false, code: "InvalidPart" });
      good(await complete([1, first]));
    },
  },
];

interface Opening {
  readonly bucket: string;
  readonly key: string;
  readonly more?: object;
}

interface Upload {
  readonly Bucket: string;
  readonly Key: string;
  readonly UploadId: string;
}

async function open(tool: ApiTool, { bucket, key, more = {} }: Opening): Promise<Upload> {
  const at = { Bucket: bucket, Key: key };
  const { UploadId = "" } = good(await tool.call("create-multipart-upload", { ...at, ...more }));
  return { ...at, UploadId };
}

function listed(PartNumber: number, bytes: Buffer): object {
  return { PartNumber, Size: bytes.length, ETag: expectedEtag(bytes) };
}
