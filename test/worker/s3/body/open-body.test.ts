import { describe, expect, test } from "vitest";
import type { Payload } from "../../../../worker/app.ts";
import { S3Error } from "../../../../worker/s3/answer/errors.ts";
import { storedContentEncoding } from "../../../../worker/s3/objects/attributes.ts";
import { drained, framed, joined, opened, SIGNED, UNSIGNED_TRAILER } from "./support.ts";

const PLAIN: Payload = { form: "plain", sha256: null };
const SHA256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

function refusal(payload: Payload, headers: Record<string, string>): { code: string; message: string } {
  try {
    opened(payload, { headers, body: joined("hello") });
  } catch (error) {
    if (error instanceof S3Error) return { code: error.code, message: error.message };
    throw error;
  }
  throw new Error("the headers are good");
}

describe("a plain body", () => {
  test("says what its headers say", () => {
    const headers = {
      "content-length": "5",
      "content-md5": "XUFAKrxLKna5cZ2REBfFkg==",
      "x-amz-checksum-crc32": "NhCmhg==",
      "x-amz-sdk-checksum-algorithm": "crc32",
    };
    const body = opened({ form: "plain", sha256: SHA256 }, { headers, body: joined("hello") });
    expect(body).toMatchObject({ declaredSize: 5, checksum: "CRC32" });
    expect(body.expect).toMatchObject({ sha256: SHA256, checksum: { algorithm: "CRC32" } });
    expect(body.expect.md5).toHaveLength(16);
    expect(body.expect.checksum?.value()).toBe("NhCmhg==");
    expect(body.fault()).toBeUndefined();
  });

  test("without any header has no size and expects nothing", async () => {
    const body = opened(PLAIN, { body: joined("hello") });
    expect(body).toMatchObject({ declaredSize: undefined, checksum: undefined, expect: {} });
    if (body.source === null) throw new Error("no body");
    expect(new TextDecoder().decode(await drained(body.source, () => 0.5))).toBe("hello");
  });

  test("may be none at all", () => {
    expect(opened(PLAIN, { headers: { "content-length": "0" } })).toMatchObject({
      source: null,
      declaredSize: 0,
    });
  });

  test("whose checksum the client only wants computed expects none", () => {
    const body = opened(PLAIN, {
      headers: { "x-amz-sdk-checksum-algorithm": "SHA256" },
      body: joined("hello"),
    });
    expect(body).toMatchObject({ checksum: "SHA256", expect: {} });
  });

  test.each([
    ["CRC32", "NhCmhg=="],
    ["CRC32C", "mnG7TA=="],
    ["CRC64NVME", "M3eFcAZSQlc="],
    ["SHA1", "qvTGHdzF6KLavt4PO0gs2a6pQ00="],
    ["SHA256", "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="],
    ["SHA512", "m3HSJL1i83hdltRq0+o9czGb+8KJDKra4t/3JRlnPKcjI8PZm6XBHXx6zG4UuMXaDEZjR1wuXDre9G9zvN7AQw=="],
    ["MD5", "XUFAKrxLKna5cZ2REBfFkg=="],
    ["XXHASH64", "JseCfYifbaM="],
    ["XXHASH3", "lVXoVVxi3P0="],
    ["XXHASH128", "tenBrQcbPn/Hec+qXlI4GA=="],
  ])("may have a %s", (algorithm, value) => {
    const body = opened(PLAIN, {
      headers: { [`x-amz-checksum-${algorithm.toLowerCase()}`]: value },
      body: joined("hello"),
    });
    expect(body.checksum).toBe(algorithm);
    expect(body.expect.checksum?.value()).toBe(value);
  });
});

describe("a body in chunks", () => {
  test("has the size of its bytes without the framing, and its checksum once it ended", async () => {
    const bytes = new TextEncoder().encode("hello");
    const headers = {
      "content-length": "60",
      "x-amz-decoded-content-length": "5",
      "x-amz-trailer": "x-amz-checksum-crc32",
      "x-amz-sdk-checksum-algorithm": "CRC32",
    };
    const body = opened(UNSIGNED_TRAILER, {
      headers,
      body: framed(bytes, { sizes: [5], trailer: [["x-amz-checksum-crc32", "NhCmhg=="]] }),
    });
    expect(body).toMatchObject({ declaredSize: 5, checksum: "CRC32" });
    expect(body.expect.checksum?.value()).toBeNull();
    if (body.source === null) throw new Error("no body");
    expect(await drained(body.source, () => 0.3)).toEqual(bytes);
    expect(body.expect.checksum?.value()).toBe("NhCmhg==");
  });

  test("may be empty", async () => {
    const body = opened(UNSIGNED_TRAILER, {
      headers: { "x-amz-decoded-content-length": "0" },
      body: joined("0\r\n\r\n"),
    });
    if (body.source === null) throw new Error("no body");
    expect(await drained(body.source, () => 0)).toHaveLength(0);
    expect(body.fault()).toBeUndefined();
  });
});

test.each([
  ["a length that is no number", PLAIN, { "content-length": "abc" }, "InvalidArgument"],
  ["a negative length", PLAIN, { "content-length": "-1" }, "InvalidArgument"],
  ["a malformed Content-MD5", PLAIN, { "content-md5": "abc" }, "InvalidDigest"],
  ["a malformed checksum", PLAIN, { "x-amz-checksum-crc32": "NhCm" }, "InvalidRequest"],
  ["a checksum of another length", PLAIN, { "x-amz-checksum-sha256": "NhCmhg==" }, "InvalidRequest"],
  [
    "two checksums",
    PLAIN,
    { "x-amz-checksum-crc32": "NhCmhg==", "x-amz-checksum-crc32c": "mnG7TA==" },
    "InvalidRequest",
  ],
  [
    "a checksum in header and trailer",
    UNSIGNED_TRAILER,
    {
      "x-amz-decoded-content-length": "5",
      "x-amz-checksum-crc32": "NhCmhg==",
      "x-amz-trailer": "x-amz-checksum-crc32",
    },
    "InvalidRequest",
  ],
  [
    "another algorithm than the checksum's",
    PLAIN,
    { "x-amz-checksum-crc32": "NhCmhg==", "x-amz-sdk-checksum-algorithm": "SHA1" },
    "InvalidRequest",
  ],
  ["an unknown algorithm", PLAIN, { "x-amz-sdk-checksum-algorithm": "MD6" }, "InvalidRequest"],
  ["a trailer that is no checksum", UNSIGNED_TRAILER, { "x-amz-trailer": "x-amz-meta-a" }, "InvalidRequest"],
  ["a trailer to a plain body", PLAIN, { "x-amz-trailer": "x-amz-checksum-crc32" }, "InvalidRequest"],
  [
    "a trailer where the form has none",
    SIGNED,
    { "x-amz-trailer": "x-amz-checksum-crc32" },
    "InvalidRequest",
  ],
  ["chunks of no known size", SIGNED, {}, "MissingContentLength"],
  [
    "chunks of a size that is none",
    SIGNED,
    { "x-amz-decoded-content-length": "5.0" },
    "MissingContentLength",
  ],
] as const)("%s is refused before a byte is read", (_, payload, headers, code) => {
  const refused = refusal(payload, headers);
  expect(refused.code).toBe(code);
  expect(refused.message).toMatch(/content-length|Content-MD5|x-amz-/i);
});

test("a body in chunks that is not there is refused", () => {
  const headers = { "x-amz-decoded-content-length": "0" };
  expect(() => opened(SIGNED, { headers })).toThrow(expect.objectContaining({ code: "IncompleteBody" }));
});

test.each([
  ["aws-chunked", undefined],
  ["AWS-chunked", undefined],
  ["aws-chunked,gzip", "gzip"],
  ["gzip, aws-chunked", "gzip"],
  ["aws-chunked, br, gzip", "br, gzip"],
  ["gzip", "gzip"],
  ["", undefined],
  [undefined, undefined],
])("of the Content-Encoding %s is kept %s", (sent, kept) => {
  const headers = new Map(sent === undefined ? [] : [["content-encoding", sent]]);
  expect(storedContentEncoding(headers)).toBe(kept);
});
