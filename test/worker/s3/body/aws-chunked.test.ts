import { describe, expect, test } from "vitest";
import type { S3Error } from "../../../../worker/s3/answer/errors.ts";
import {
  AwsChunkedSource,
  ChunkDecoder,
  ChunkSignatures,
  Trailer,
} from "../../../../worker/s3/body/aws-chunked.ts";
import { seededBytes, seededRandom, testSeed } from "../../../support/random.ts";
import {
  ArrivingBytes,
  drained,
  type Framing,
  faultOf,
  framed,
  joined,
  opened,
  SIGNED,
  SIGNED_TRAILER,
  SIGNING,
  UNSIGNED_TRAILER,
} from "./support.ts";

const CRC = ["x-amz-checksum-crc32", "AAAAAA=="] as const;

/** The source over bytes that come in pieces of any size. */
function sourceOf(raw: ArrivingBytes, { decodedSize, signing, trailer }: Framing & { decodedSize: number }) {
  const signatures = signing && new ChunkSignatures(signing);
  const reader = new Trailer({
    announced: trailer?.[0]?.[0],
    valueFault: () => undefined,
    signatures: trailer && signatures,
  });
  const decoder = new ChunkDecoder({ decodedSize, signatures, trailer: reader });
  return { source: new AwsChunkedSource(raw, decoder), trailer: reader };
}

function randomSizes(
  total: number,
  { random, atLeast }: { random: () => number; atLeast: number },
): number[] {
  const sizes: number[] = [];
  for (let left = total; left > 0; ) {
    const size = Math.min(left, atLeast + Math.floor(random() ** 4 * 100_000));
    sizes.push(size);
    left -= size;
  }
  return sizes;
}

test.each([
  { name: "unsigned, without trailer" },
  { name: "unsigned, with trailer", trailer: [CRC] },
  { name: "signed", signing: SIGNING },
  { name: "signed, with trailer", signing: SIGNING, trailer: [CRC] },
])("chunks $name come out the same however they are cut, arrive and are read", async ({
  name,
  ...framing
}) => {
  const random = seededRandom(testSeed());
  for (let round = 0; round < 60; round++) {
    const bytes = new Uint8Array(seededBytes(Math.floor(random() ** 3 * 400_000), round));
    const atLeast = framing.signing ? 8192 : 1;
    const raw = framed(bytes, { ...framing, sizes: randomSizes(bytes.length, { random, atLeast }) });
    const { source, trailer } = sourceOf(new ArrivingBytes(raw, random), {
      ...framing,
      decodedSize: bytes.length,
    });
    const out = await drained(source, random);
    expect(
      out.length === bytes.length && out.every((byte, at) => byte === bytes[at]),
      `${name} ${round}`,
    ).toBe(true);
    expect(source.fault()).toBeUndefined();
    expect(trailer.value).toBe(framing.trailer ? "AAAAAA==" : undefined);
  }
});

test("a body cut off anywhere is never taken for whole", async () => {
  const bytes = new Uint8Array(seededBytes(20_000, 3));
  const framing = { signing: SIGNING, trailer: [CRC] };
  const raw = framed(bytes, { ...framing, sizes: [10_000, 10_000] });
  const random = seededRandom(testSeed());
  // The empty line behind the last signature may be missing: AWS's own example has none.
  const whole = raw.length - 2;
  const cuts = [0, 1, 50, 97, 98, 5000, 10_097, 10_099, 20_200, whole - 1, whole - 2];
  for (let at = whole - 200; at < whole - 2; at += 1) cuts.push(at);
  for (const cut of cuts) {
    const arriving = new ArrivingBytes(raw.subarray(0, cut), random);
    const { source } = sourceOf(arriving, { ...framing, decodedSize: bytes.length });
    const code = await drained(source, random).then(
      () => "whole",
      (error: S3Error) => error.code,
    );
    expect(["IncompleteBody", "MalformedTrailerError"], `cut at ${cut}`).toContain(code);
    expect(source.fault()?.code).toBe(code);
    expect(arriving.cancelled).toBe(true);
  }
});

test("many small chunks cost few reads of the body", async () => {
  const bytes = new Uint8Array(seededBytes(4 * 1024 * 1024, 5));
  const raw = new ArrivingBytes(
    framed(bytes, { sizes: Array.from({ length: 64 }, () => 64 * 1024) }),
    () => 0.999,
  );
  const { source } = sourceOf(raw, { decodedSize: bytes.length });
  const out = await source.read(new Uint8Array(bytes.length + 1), bytes.length + 1);
  expect(out.length).toBe(bytes.length);
  expect(raw.reads).toBeLessThan(8);
});

test("a body that was cancelled has no fault of its own", async () => {
  const raw = new ArrivingBytes(framed(new Uint8Array(10), { sizes: [10] }).subarray(0, 6), () => 0);
  const { source } = sourceOf(raw, { decodedSize: 10 });
  const read = source.read(new Uint8Array(100), 11);
  await source.cancel();
  await expect(read.then(() => "read")).rejects.toThrow();
  expect(source.fault()).toBeUndefined();
});

describe("framing is refused", () => {
  const size = (decoded: number) => ({ "x-amz-decoded-content-length": String(decoded) });
  const A = "a".repeat(64);

  test.each([
    ["a chunk without a size", "hello\r\n"],
    ["an empty size", "\r\n"],
    ["a negative size", "-5\r\nhello\r\n0\r\n\r\n"],
    ["a size of too many digits", `${"f".repeat(20)}\r\n`],
    ["a size with 0x", "0x5\r\nhello\r\n0\r\n\r\n"],
    ["a line without end", "5".repeat(5000)],
    ["a chunk longer than its size", "4\r\nhello\r\n0\r\n\r\n"],
    ["a chunk shorter than its size", "6\r\nhello\r\n0\r\n\r\n"],
    ["fewer bytes than announced", "4\r\nhell\r\n0\r\n\r\n"],
    ["more bytes than announced", "6\r\nhello!\r\n0\r\n\r\n"],
    ["far more bytes than announced", "ffffffffffff\r\nhello"],
    ["no last chunk", "5\r\nhello\r\n"],
    ["no bytes at all", ""],
    ["no framing", "hello"],
  ])("%s", async (_, text) => {
    const fault = await faultOf(() => opened(UNSIGNED_TRAILER, { headers: size(5), body: joined(text) }));
    expect(fault.code).toBe("IncompleteBody");
    expect(fault.message.length).toBeGreaterThan(20);
  });

  test.each([
    ["a chunk without signature", "5\r\nhello\r\n0\r\n\r\n", "IncompleteBody"],
    ["a signature that is no hex", "5;chunk-signature=xyz\r\nhello\r\n", "IncompleteBody"],
    [
      "another signature",
      `5;chunk-signature=${A}\r\nhello\r\n0;chunk-signature=${A}\r\n\r\n`,
      "SignatureDoesNotMatch",
    ],
  ])("where chunks are signed, %s", async (_, text, code) => {
    const fault = await faultOf(() => opened(SIGNED, { headers: size(5), body: joined(text) }));
    expect(fault.code).toBe(code);
  });

  test("a signed chunk below 8 KiB that is not the last", async () => {
    const bytes = new Uint8Array(20_000);
    const body = framed(bytes, { sizes: [8191, 11_809], signing: SIGNING });
    const fault = await faultOf(() => opened(SIGNED, { headers: size(bytes.length), body }));
    expect(fault.code).toBe("InvalidChunkSizeError");
  });

  test("a trailer where none is expected", async () => {
    const body = framed(new Uint8Array(5), { sizes: [5], signing: SIGNING, trailer: [CRC] });
    expect((await faultOf(() => opened(SIGNED, { headers: size(5), body }))).code).toBe(
      "MalformedTrailerError",
    );
  });
});

describe("a trailer is refused", () => {
  const headers = { "x-amz-decoded-content-length": "5", "x-amz-trailer": "x-amz-checksum-crc32" };
  const CRC_LINE = "x-amz-checksum-crc32:NhCmhg==\r\n";

  test.each([
    ["absent", ""],
    ["of another name", "x-amz-checksum-sha1:NhCmhg==\r\n"],
    ["twice", CRC_LINE + CRC_LINE],
    ["with more than was announced", `${CRC_LINE}x-amz-meta-a:1\r\n`],
    ["without a colon", "x-amz-checksum-crc32\r\n"],
    ["without a name", ":NhCmhg==\r\n"],
    ["with a signature where nothing is signed", `${CRC_LINE}x-amz-trailer-signature:${"a".repeat(64)}\r\n`],
    ["longer than 8 KiB", "\r\n".repeat(5000)],
    ["with a long line", `x-amz-checksum-crc32:${"A".repeat(5000)}\r\n`],
  ])("%s", async (_, lines) => {
    const body = joined("5\r\nhello\r\n0\r\n", lines, "\r\n");
    const fault = await faultOf(() => opened(UNSIGNED_TRAILER, { headers, body }));
    expect(fault.code).toBe("MalformedTrailerError");
  });

  test("with a value that cannot be a checksum", async () => {
    const body = joined("5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCm\r\n\r\n");
    const fault = await faultOf(() => opened(UNSIGNED_TRAILER, { headers, body }));
    expect(fault).toEqual({
      code: "InvalidRequest",
      message: expect.stringContaining("x-amz-checksum-crc32"),
    });
  });

  test("unsigned where chunks are signed", async () => {
    const trailer = [["x-amz-checksum-crc32", "NhCmhg=="]] as const;
    const bytes = new TextEncoder().encode("hello");
    const whole = new TextDecoder().decode(framed(bytes, { sizes: [5], signing: SIGNING, trailer }));
    const body = joined(whole.replace(/x-amz-trailer-signature.*\r\n/, ""));
    const fault = await faultOf(() => opened(SIGNED_TRAILER, { headers, body }));
    expect(fault.code).toBe("MalformedTrailerError");
  });

  test("with a header behind its signature", async () => {
    const whole = framed(new TextEncoder().encode("hello"), {
      sizes: [5],
      signing: SIGNING,
      trailer: [["x-amz-checksum-crc32", "NhCmhg=="]],
    });
    const body = joined(whole.subarray(0, -2), "x-amz-meta-a:1\r\n\r\n");
    expect((await faultOf(() => opened(SIGNED_TRAILER, { headers, body }))).code).toBe(
      "MalformedTrailerError",
    );
  });
});
