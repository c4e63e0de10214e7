import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { DiskBlobStore } from "../../../../worker/blobs/stores.ts";
import { renderError } from "../../../../worker/s3/answer/render-error.ts";
import { failure, good, s3, xml } from "../support.ts";

const BUCKET = "/master.puts";

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
});

const text = async (path: string): Promise<string> => (await good(`GET ${path}`)).text();
const put = (path: string, body: string, headers: Record<string, string> = {}) =>
  s3(`PUT ${path}`, { body, headers });

describe("a condition", () => {
  test("If-None-Match: * lets a key be made, and not be overwritten", async () => {
    const path = `${BUCKET}/new`;
    expect((await put(path, "first", { "if-none-match": "*" })).status).toBe(200);
    for (const body of ["second", "x".repeat(10_000)]) {
      expect(await failure(put(path, body, { "if-none-match": "*" }))).toMatchObject({
        status: 412,
        Code: "PreconditionFailed",
        Message: expect.stringContaining("If-None-Match"),
      });
    }
    expect(await text(path)).toBe("first");
    await good(`DELETE ${path}`);
    expect((await put(path, "again", { "if-none-match": "*" })).status).toBe(200);
  });

  test("If-Match lets a key be overwritten that is as it was", async () => {
    const path = `${BUCKET}/matched`;
    const first = await good(`PUT ${path}`, { body: "first" });
    const etag = first.headers.get("etag") ?? "";
    expect((await put(path, "second", { "if-match": etag })).status).toBe(200);
    for (const stale of [etag, etag.slice(1, -1), '"d41d8cd98f00b204e9800998ecf8427e"', `W/${etag}`]) {
      expect(await failure(put(path, "third", { "if-match": stale }))).toMatchObject({
        status: 412,
        Code: "PreconditionFailed",
      });
    }
    const now = (await good(`HEAD ${path}`)).headers.get("etag") ?? "";
    expect((await put(path, "third", { "if-match": `${etag}, ${now.slice(1, -1)}` })).status).toBe(200);
    expect((await put(path, "fourth", { "if-match": "*" })).status).toBe(200);
    expect(await text(path)).toBe("fourth");
  });

  test("If-Match of a key that is not there is NoSuchKey", async () => {
    for (const tag of ["*", '"x"']) {
      expect(await failure(put(`${BUCKET}/absent`, "x", { "if-match": tag }))).toMatchObject({
        status: 404,
        Code: "NoSuchKey",
      });
    }
  });

  test("of many writers at once lets one through", async () => {
    const path = `${BUCKET}/raced`;
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) => put(path, `writer ${index}`, { "if-none-match": "*" })),
    );
    const won = answers.flatMap(({ status }, index) => (status === 200 ? [index] : []));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(412)]);
    expect(await text(path)).toBe(`writer ${won[0]}`);
  });
});

describe("a checksum", () => {
  const bytes = new TextEncoder().encode("checked");
  const value = crc32(bytes);
  const crc = btoa(String.fromCharCode(value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255));

  test("that is sent is checked, answered, kept, and told when asked", async () => {
    const path = `${BUCKET}/checked`;
    const done = await good(`PUT ${path}`, { body: "checked", headers: { "x-amz-checksum-crc32": crc } });
    expect(Object.fromEntries(done.headers)).toMatchObject({
      "x-amz-checksum-crc32": crc,
      "x-amz-checksum-type": "FULL_OBJECT",
    });
    const head = await good(`HEAD ${path}`, { headers: { "x-amz-checksum-mode": "ENABLED" } });
    expect(head.headers.get("x-amz-checksum-crc32")).toBe(crc);
    expect(await failure(put(path, "other", { "x-amz-checksum-crc32": crc }))).toMatchObject({
      status: 400,
      Code: "BadDigest",
    });
    expect(await text(path)).toBe("checked");
  });

  test.each([
    "x-amz-sdk-checksum-algorithm",
    "x-amz-checksum-algorithm",
  ])("that %s asks for is worked out", async (header) => {
    const done = await good(`PUT ${BUCKET}/wanted`, { body: "checked", headers: { [header]: "SHA256" } });
    const sha256 = createHash("sha256").update(bytes).digest();
    expect(done.headers.get("x-amz-checksum-sha256")).toBe(btoa(String.fromCharCode(...sha256)));
  });
});

// Of "123456789": the check values that are published of each.
describe.each([
  ["SHA512", "2eZ2LdHI6vbWGzxhkvxAjU1tXxF20MKRabwk5xw/J0rSf81YEbMT1oH35V7ALXPUmclUVba1u1A6z1dPuo/+hQ=="],
  ["MD5", "JfnnlDI7RTiF9RgfG2JNCw=="],
  ["XXHASH64", "jLhB20DmroM="],
  ["XXHASH3", "ctyxi2ehff8="],
  ["XXHASH128", "MxGUd+3l3NXpcWQnaB1YYA=="],
])("a checksum that is %s", (algorithm, value) => {
  const header = `x-amz-checksum-${algorithm.toLowerCase()}`;
  const path = `${BUCKET}/summed-${algorithm}`;
  const enabled = { "x-amz-checksum-mode": "ENABLED" };

  test("is checked, answered and kept as the others, and told of the object, its versions and its copies", async () => {
    const done = await good(`PUT ${path}`, { body: "123456789", headers: { [header]: value } });
    expect(Object.fromEntries(done.headers)).toMatchObject({
      [header]: value,
      "x-amz-checksum-type": "FULL_OBJECT",
    });
    expect(await failure(put(path, "other", { [header]: value }))).toMatchObject({
      status: 400,
      Code: "BadDigest",
    });
    expect(await failure(put(path, "other", { [header]: "AA==" }))).toMatchObject({ Code: "InvalidRequest" });
    for (const method of ["HEAD", "GET"])
      expect((await good(`${method} ${path}`, { headers: enabled })).headers.get(header)).toBe(value);
    const asked = { "x-amz-object-attributes": "Checksum" };
    const { GetObjectAttributesResponse } = await xml(good(`GET ${path}?attributes`, { headers: asked }));
    expect(GetObjectAttributesResponse.Checksum).toEqual({
      [`Checksum${algorithm}`]: value,
      ChecksumType: "FULL_OBJECT",
    });
    const { ListVersionsResult } = await xml(good(`GET ${BUCKET}?versions&prefix=summed-${algorithm}`));
    const [version] = [ListVersionsResult.Version].flat();
    expect([version.ChecksumAlgorithm, version.ChecksumType]).toEqual([algorithm, "FULL_OBJECT"]);
    await good(`PUT ${path}-copy`, { headers: { "x-amz-copy-source": path } });
    expect((await good(`HEAD ${path}-copy`, { headers: enabled })).headers.get(header)).toBe(value);
  });

  test("may come behind the body, or be asked for, also of a copy", async () => {
    const sent = (trailer: string) => ({
      body: `9\r\n123456789\r\n0\r\n${header}:${trailer}\r\n\r\n`,
      headers: {
        "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "x-amz-decoded-content-length": "9",
        "x-amz-trailer": header,
      },
    });
    const trailed = await good(`PUT ${path}-trailed`, sent(value));
    expect(trailed.headers.get(header)).toBe(value);
    const other = `${value.startsWith("A") ? "B" : "A"}${value.slice(1)}`;
    expect(await failure(s3(`PUT ${path}-trailed`, sent(other)))).toMatchObject({
      status: 400,
      Code: "BadDigest",
    });
    await good(`PUT ${path}-none`, { body: "123456789" });
    for (const name of ["x-amz-sdk-checksum-algorithm", "x-amz-checksum-algorithm"]) {
      const asked = await good(`PUT ${path}-asked`, { body: "123456789", headers: { [name]: algorithm } });
      expect(asked.headers.get(header)).toBe(value);
    }
    const headers = { "x-amz-copy-source": `${path}-none`, "x-amz-checksum-algorithm": algorithm };
    const { CopyObjectResult } = await xml(good(`PUT ${path}-of-copy`, { headers }));
    expect(CopyObjectResult[`Checksum${algorithm}`]).toBe(value);
  });
});

describe("x-amz-version-id", () => {
  test("is the commit of the PUT, or where nothing changed that of the one that wrote it", async () => {
    const path = `${BUCKET}/version`;
    const first = (await good(`PUT ${path}`, { body: "one" })).headers.get("x-amz-version-id");
    await good(`PUT ${BUCKET}/between`, { body: "x" });
    const again = (await good(`PUT ${path}`, { body: "one" })).headers.get("x-amz-version-id");
    expect(again).toBe(first);
    const second = (await good(`PUT ${path}`, { body: "two" })).headers.get("x-amz-version-id");
    expect(second).not.toBe(first);
    expect(await text(`${path}?versionId=${first}`)).toBe("one");
  });
});

describe("many writers at once", () => {
  test("lose nothing: 50 PUTs are 50 keys, and a commit each", async () => {
    const keys = Array.from({ length: 50 }, (_, index) => `many-${index}`);
    const bodies = keys.map((key, index) => (index % 10 === 0 ? key.repeat(2000) : key));
    const answers = await Promise.all(
      keys.map((key, index) => good(`PUT ${BUCKET}/${key}`, { body: bodies[index] ?? "" })),
    );
    expect(new Set(answers.map(({ headers }) => headers.get("x-amz-version-id"))).size).toBe(50);
    const read = await Promise.all(keys.map((key) => text(`${BUCKET}/${key}`)));
    expect(read).toEqual(bodies);
    const { ListBucketResult: listed } = await xml(good(`GET ${BUCKET}?prefix=many-`));
    expect(listed.Contents.length).toBe(50);
  });

  test("of one key: one of them wins whole", async () => {
    const bodies = [
      new Uint8Array(5_000_000).fill(1),
      new Uint8Array(5_000_001).fill(2),
      new Uint8Array(7).fill(3),
    ];
    for (let round = 0; round < 3; round++) {
      const answers = await Promise.all(bodies.map((body) => good(`PUT ${BUCKET}/one-key`, { body })));
      const get = await good(`GET ${BUCKET}/one-key`);
      const won = answers.findIndex(({ headers }) => headers.get("etag") === get.headers.get("etag"));
      const read = new Uint8Array(await get.arrayBuffer());
      expect(read.length).toBe(bodies[won]?.length);
      expect(read.every((byte) => byte === won + 1)).toBe(true);
    }
  });

  test("of one bucket: one makes it, and the others own it already", async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => s3("PUT /master.made-once")));
    const codes = await Promise.all(
      answers.map(async (response) => (response.ok ? "made" : (await failure(response)).Code)),
    );
    expect(codes.sort()).toEqual([...Array(19).fill("BucketAlreadyOwnedByYou"), "made"]);
  });
});

test("a store whose disk is full is said to take nothing, although the platform calls it overloaded", async () => {
  const fetch = () => Promise.reject(Object.assign(new Error("internal error"), { overloaded: true }));
  const put = new DiskBlobStore({ fetch } as unknown as Fetcher).put("b/blob", new Uint8Array(1));
  const error = await put.catch((error) => error);
  const asked = { method: "PUT", resource: `${BUCKET}/full`, requestId: "1", event: {} };
  expect(await failure(Promise.resolve(renderError(error, asked)))).toMatchObject({
    status: 503,
    Code: "StorageFull",
    Message: expect.stringContaining(
      "The gateway's disk is full, and nothing was written. 'sluice rm' alone",
    ),
  });
  // A database that can't grow says so by itself.
  const full = new Error("database or disk is full: SQLITE_FULL");
  expect(await failure(Promise.resolve(renderError(full, asked)))).toMatchObject({
    status: 503,
    Code: "StorageFull",
  });
});
