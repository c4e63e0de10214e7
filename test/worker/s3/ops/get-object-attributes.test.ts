import { env } from "cloudflare:test";
import { createHash } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { BranchApi } from "../../../../worker/branch/contract/api.ts";
import { clientOf } from "../../../../worker/objects/facets.ts";
import { answer, failure, good, s3, unsigned, xml } from "../support.ts";

const BUCKET = "/master.described";
const ALL = "ETag,Checksum,ObjectParts,StorageClass,ObjectSize";

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
  await good(`PUT ${BUCKET}/plain`, { body: "12345" });
  const bytes = new TextEncoder().encode("0123456789");
  const digest = createHash("sha256").update(bytes).digest("hex");
  const branch = clientOf<BranchApi>(env.BRANCH.getByName("master.described"));
  await branch.files.put({
    path: "parts",
    content: { digest, size: 10, body: { kind: "inline", bytes } },
    attributes: {
      checksum: { algorithm: "SHA1", type: "COMPOSITE", value: "all-5" },
      parts: {
        sizes: [
          [1, 2],
          [3, 2],
          [2, 1],
        ],
        checksums: ["c1", "c2", "c3", "c4", "c5"],
      },
    },
  });
});

const ask = (target: string, wanted: string, headers: Record<string, string> = {}) =>
  s3(`GET ${BUCKET}/${target}`, { headers: { "x-amz-object-attributes": wanted, ...headers } });
// biome-ignore lint/suspicious/noExplicitAny: the shape is what the tests assert.
const described = async (...asked: Parameters<typeof ask>): Promise<any> =>
  (await xml(ask(...asked))).GetObjectAttributesResponse;

test("GetObjectAttributes tells of an object what is asked for and nothing else", async () => {
  const etag = (await good(`HEAD ${BUCKET}/plain`)).headers.get("etag")?.slice(1, -1);
  const { "@_xmlns": _, ...all } = await described("plain?attributes", ALL);
  expect(all).toEqual({ ETag: etag, StorageClass: "STANDARD", ObjectSize: "5" });
  const { "@_xmlns": __, ...size } = await described("plain?attributes", "ObjectSize");
  expect(size).toEqual({ ObjectSize: "5" });
});

test("GetObjectAttributes says the version and when it was made in headers", async () => {
  const head = await good(`HEAD ${BUCKET}/plain`);
  const response = await ask("plain?attributes", "ETag");
  for (const name of ["last-modified", "x-amz-version-id"]) {
    expect(response.headers.get(name)).toBe(head.headers.get(name));
  }
  const version = head.headers.get("x-amz-version-id");
  expect((await ask(`plain?attributes&versionId=${version}`, "ETag")).status).toBe(200);
});

test("GetObjectAttributes tells the checksum and the parts of an object that was put together from parts", async () => {
  const { Checksum, ObjectParts } = await described("parts?attributes", "Checksum, ObjectParts");
  expect(Checksum).toEqual({ ChecksumSHA1: "all-5", ChecksumType: "COMPOSITE" });
  expect(ObjectParts).toEqual({
    PartsCount: "5",
    PartNumberMarker: "0",
    NextPartNumberMarker: "5",
    MaxParts: "1000",
    IsTruncated: "false",
    Part: [1, 1, 3, 3, 2].map((size, i) => ({
      PartNumber: String(i + 1),
      Size: String(size),
      ChecksumSHA1: `c${i + 1}`,
    })),
  });
});

test.each([1, 2, 3, 5])("GetObjectAttributes pages through the parts, %i at a time", async (limit) => {
  const seen: string[] = [];
  let marker = "0";
  for (let more = true; more; ) {
    const headers = { "x-amz-max-parts": String(limit), "x-amz-part-number-marker": marker };
    const { ObjectParts } = await described("parts?attributes", "ObjectParts", headers);
    const parts = [ObjectParts.Part ?? []].flat();
    expect(parts.length).toBeLessThanOrEqual(limit);
    seen.push(
      ...parts.map((part: { PartNumber: string; Size: string }) => `${part.PartNumber}:${part.Size}`),
    );
    more = ObjectParts.IsTruncated === "true";
    marker = ObjectParts.NextPartNumberMarker;
  }
  expect(seen).toEqual(["1:1", "2:1", "3:3", "4:3", "5:2"]);
});

describe("GetObjectAttributes is refused", () => {
  test.each(["Size", "ETag,", "etag"])("for the attributes '%s'", async (wanted) => {
    expect(await failure(ask("plain?attributes", wanted))).toMatchObject({
      status: 400,
      Code: "InvalidArgument",
      Message: expect.stringContaining("ObjectSize"),
    });
  });

  test("if the header that lists them is missing or empty; if the object is missing, too, the answer says that", async () => {
    expect((await failure(s3(`GET ${BUCKET}/plain?attributes`))).Code).toBe("InvalidRequest");
    expect((await failure(ask("plain?attributes", ""))).Code).toBe("InvalidRequest");
    expect((await failure(ask("absent?attributes", ""))).Code).toBe("NoSuchKey");
    expect((await failure(ask("absent?attributes", "Size"))).Code).toBe("InvalidArgument");
  });

  test.each([
    { "x-amz-max-parts": "-1" },
    { "x-amz-max-parts": "x" },
    { "x-amz-part-number-marker": "x" },
  ])("for %o", async (headers) => {
    expect((await failure(ask("parts?attributes", "ObjectParts", headers))).Code).toBe("InvalidArgument");
  });

  test("for a key or a version that is not there, and without a signature", async () => {
    expect((await failure(ask("missing?attributes", "ETag"))).Code).toBe("NoSuchKey");
    expect((await failure(ask("plain?attributes&versionId=none", "ETag"))).Code).toBe("NoSuchVersion");
    const request = unsigned(`GET ${BUCKET}/plain?attributes`, { "x-amz-object-attributes": "ETag" });
    expect((await answer(request)).status).toBe(403);
  });
});
