import { env } from "cloudflare:test";
import { createHash } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { contentName } from "../../../../protocol/content.ts";
import type { BranchApi } from "../../../../worker/branch/contract/api.ts";
import { clientOf } from "../../../../worker/objects/facets.ts";
import { answer, failure, good, s3, scopedKey, unsigned, xml } from "../support.ts";

const BUCKET = "/master.partcopies";
const OTHER = "/other.partsources";
const MIB = 1024 * 1024;
const branch = clientOf<BranchApi>(env.BRANCH.getByName("master.partcopies"));
const noise = (bytes: number, seed: number): Uint8Array<ArrayBuffer> =>
  new Uint8Array(bytes).map((_, i) => ((i * 31) >> 3) + (i >> 16) * seed);
const LARGE = noise(6 * MIB + 5, 3);

beforeAll(async () => {
  for (const bucket of [BUCKET, OTHER]) {
    await good(`PUT ${bucket}`);
    await good(`PUT ${bucket}/large`, { body: LARGE });
    await good(`PUT ${bucket}/small`, { body: "0123456789" });
    await good(`PUT ${bucket}/empty`, { body: "" });
  }
});

async function begin(key: string, headers: Record<string, string> = {}): Promise<string> {
  const { InitiateMultipartUploadResult } = await xml(good(`POST ${BUCKET}/${key}?uploads`, { headers }));
  return InitiateMultipartUploadResult.UploadId;
}

interface PartCopy {
  readonly key: string;
  readonly upload: string;
  readonly number: number;
  readonly source: string;
  readonly headers?: Record<string, string>;
}

const copyPart = ({ key, upload, number, source, headers = {} }: PartCopy) =>
  s3(`PUT ${BUCKET}/${key}?uploadId=${upload}&partNumber=${number}`, {
    headers: { "x-amz-copy-source": source, ...headers },
  });
const range = (first: number, last: number) => ({ "x-amz-copy-source-range": `bytes=${first}-${last}` });

async function complete(key: string, upload: string, parts: readonly number[]): Promise<Response> {
  const { ListPartsResult } = await xml(good(`GET ${BUCKET}/${key}?uploadId=${upload}`));
  const etags = new Map(
    ListPartsResult.Part.map((part: { PartNumber: string; ETag: string }) => [
      Number(part.PartNumber),
      part.ETag,
    ]),
  );
  const body = parts
    .map((n) => `<Part><PartNumber>${n}</PartNumber><ETag>${etags.get(n)}</ETag></Part>`)
    .join("");
  return good(`POST ${BUCKET}/${key}?uploadId=${upload}`, {
    body: `<CompleteMultipartUpload>${body}</CompleteMultipartUpload>`,
  });
}

const bytesOf = async (key: string) =>
  new Uint8Array(await (await good(`GET ${BUCKET}/${key}`)).arrayBuffer());
/** Byte by byte, a comparison of this many takes seconds. */
const hashOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

describe.each([
  ["the same branch", "master.partcopies"],
  ["another branch", "other.partsources"],
])("parts copied from %s", (_where, from) => {
  test.each([
    ["that lie on leaves", 5 * MIB],
    ["that lie across leaves", 5 * MIB + 12_345],
  ])("%s make the object that they were", async (_how, cut) => {
    const key = `${from}-${cut}`;
    const upload = await begin(key);
    for (const [number, first, last] of [
      [1, 0, cut - 1],
      [2, cut, LARGE.length - 1],
    ] as const) {
      const response = await copyPart({
        key,
        upload,
        number,
        source: `${from}/large`,
        headers: range(first, last),
      });
      const { CopyPartResult } = await xml(response);
      expect(CopyPartResult).toMatchObject({
        ETag: expect.stringMatching(new RegExp(`-${last - first + 1}"$`)),
        LastModified: expect.stringMatching(/Z$/),
      });
    }
    await complete(key, upload, [1, 2]);
    const large = await good(`HEAD ${BUCKET}/large`);
    expect((await good(`HEAD ${BUCKET}/${key}`)).headers.get("etag")).toBe(large.headers.get("etag"));
    expect(hashOf(await bytesOf(key))).toBe(hashOf(LARGE));
  });

  test("may be whole objects, also small and empty ones, in any order", async () => {
    const key = `whole-${from}`;
    const upload = await begin(key);
    for (const [number, name] of [
      [3, "empty"],
      [2, "small"],
      [1, "large"],
    ] as const) {
      const response = await copyPart({ key, upload, number, source: `/${from}/${name}` });
      expect(response.status).toBe(200);
      expect(response.headers.get("x-amz-copy-source-version-id")).not.toBeNull();
    }
    await complete(key, upload, [1, 2]);
    const bytes = await bytesOf(key);
    expect(bytes.length).toBe(LARGE.length + 10);
    expect(new TextDecoder().decode(bytes.subarray(LARGE.length))).toBe("0123456789");
  });

  test("take a plus in the name of their source for a space, and else for a plus", async () => {
    const key = `plus-${from}`;
    for (const name of ["a%20b", "a%2Bb", "only%2Bplus"]) await good(`PUT /${from}/${name}`, { body: name });
    const upload = await begin(key);
    for (const [source, name] of [
      ["a+b", "a%20b"],
      ["a%2Bb", "a%2Bb"],
      ["only+plus", "only%2Bplus"],
    ] as const) {
      const { CopyPartResult } = await xml(copyPart({ key, upload, number: 1, source: `${from}/${source}` }));
      expect(CopyPartResult.ETag).toBe((await good(`HEAD /${from}/${name}`)).headers.get("etag"));
    }
    const neither = copyPart({ key, upload, number: 1, source: `${from}/neither+nor` });
    expect(await failure(neither)).toMatchObject({ status: 404, Code: "NoSuchKey" });
  });

  test("have the checksum that the upload was begun for", async () => {
    const key = `summed-${from}`;
    const upload = await begin(key, { "x-amz-checksum-algorithm": "SHA256" });
    const ask = { key, upload, number: 1, source: `${from}/large`, headers: range(7, 2 * MIB + 7) };
    const { CopyPartResult } = await xml(copyPart(ask));
    const sha256 = await crypto.subtle.digest("SHA-256", LARGE.subarray(7, 2 * MIB + 8));
    expect(CopyPartResult.ChecksumSHA256).toBe(btoa(String.fromCharCode(...new Uint8Array(sha256))));
  });

  test("of a small object may be a range of it", async () => {
    const key = `piece-${from}`;
    const upload = await begin(key);
    await copyPart({ key, upload, number: 1, source: `${from}/small`, headers: range(2, 5) });
    await complete(key, upload, [1]);
    expect(new TextDecoder().decode(await bytesOf(key))).toBe("2345");
  });
});

test("a part inside the branch refers to the blobs of its source, and outlives it", async () => {
  await good(`PUT ${BUCKET}/source`, { body: LARGE.slice(0, 6 * MIB) });
  const source = await branch.files.read({ path: "source" });
  if (!source.ok || source.body.kind !== "chunks") throw new Error("no chunks");
  const upload = await begin("outlives");
  await copyPart({
    key: "outlives",
    upload,
    number: 1,
    source: "master.partcopies/source",
    headers: range(MIB, 6 * MIB - 1),
  });
  const bodies = await branch.multipart.bodies({ upload, numbers: [1] });
  const [part] = bodies.ok ? bodies.parts : [];
  if (part?.body.kind !== "chunks") throw new Error("no chunks");
  const blobs = new Set(source.body.chunks.map(({ blob }) => blob));
  expect(part.body.chunks.every(({ blob }) => blobs.has(blob))).toBe(true);
  expect(contentName(part)).toMatch(new RegExp(`-${5 * MIB}$`));
  await good(`DELETE ${BUCKET}/source`);
  await complete("outlives", upload, [1]);
  expect(hashOf(await bytesOf("outlives"))).toBe(hashOf(LARGE.subarray(MIB, 6 * MIB)));
});

describe("UploadPartCopy is refused", () => {
  let upload = "";
  beforeAll(async () => {
    upload = await begin("refused");
  });
  const ask = (more: Partial<PartCopy>) =>
    failure(copyPart({ key: "refused", upload, number: 1, source: "master.partcopies/small", ...more }));

  test.each([
    ["bytes=0-", 400, "InvalidArgument"],
    ["0-2", 400, "InvalidArgument"],
    ["bytes=5-3", 400, "InvalidArgument"],
    ["bytes=0-10", 400, "InvalidArgument"],
  ])("for the range '%s'", async (text, status, Code) => {
    const headers = { "x-amz-copy-source-range": text };
    expect(await ask({ headers })).toMatchObject({ status, Code });
  });

  test("where a condition on the source does not hold", async () => {
    const headers = { "x-amz-copy-source-if-match": '"other"' };
    expect(await ask({ headers })).toMatchObject({ status: 412, Code: "PreconditionFailed" });
  });

  test.each([
    ["master.partcopies/missing", 404, "NoSuchKey"],
    ["master.nowhere/key", 404, "NoSuchBucket"],
    ["nonsense", 400, "InvalidArgument"],
    ["no&bucket/key", 400, "InvalidArgument"],
  ])("for the source '%s'", async (source, status, Code) => {
    expect(await ask({ source })).toMatchObject({ status, Code });
  });

  test.each([0, 10_001])("for the part number %i", async (number) => {
    expect(await ask({ number })).toMatchObject({ status: 400, Code: "InvalidArgument" });
  });

  test("for an upload that is not there, or is another key's", async () => {
    expect(await ask({ upload: "master.partcopies.01ARZ3NDEKTSV4RRFFQ69G5FAV" })).toMatchObject({
      status: 404,
      Code: "NoSuchUpload",
    });
    expect(await ask({ key: "other-key" })).toMatchObject({ status: 404, Code: "NoSuchUpload" });
  });

  test("for a source in a repo that the key may not read", async () => {
    const key = scopedKey({ level: "write", repos: ["partcopies"] });
    const part = (source: string) =>
      s3(`PUT ${BUCKET}/refused?uploadId=${upload}&partNumber=1`, {
        headers: { "x-amz-copy-source": source },
        key,
      });
    expect(await failure(part("other.partsources/small"))).toMatchObject({
      status: 403,
      Code: "AccessDenied",
    });
    expect((await part("master.partcopies/small")).status).toBe(200);
  });

  test("without a signature", async () => {
    const target = `PUT ${BUCKET}/refused?uploadId=${upload}&partNumber=1`;
    const request = unsigned(target, { "x-amz-copy-source": "master.partcopies/small" });
    expect((await answer(request)).status).toBe(403);
  });
});
