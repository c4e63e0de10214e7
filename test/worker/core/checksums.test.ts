import { describe, expect, test } from "vitest";
import { ArchivedAttributes, ExportedFiles, SoundFiles } from "../../../protocol/archives.ts";
import { createChecksum } from "../../../worker/blobs/hash/checksum-hasher.ts";
import { encodeBase64 } from "../../../worker/core/base64.ts";
import {
  CHECKSUM_ALGORITHMS,
  type ChecksumAlgorithm,
  checksumTypes,
  combineChecksums,
  compositeOf,
  defaultChecksumType,
  isCrc,
  parseChecksum,
} from "../../../worker/core/checksums.ts";
import { seededRandom } from "../../support/random.ts";
import { randomBytes } from "../blobs/reference.ts";

const CRCS = CHECKSUM_ALGORITHMS.filter(isCrc);

function hash(algorithm: ChecksumAlgorithm, bytes: Uint8Array): Uint8Array {
  const hasher = createChecksum(algorithm);
  hasher.update(bytes);
  return Uint8Array.from(hasher.digest());
}

describe("a checksum in a header", () => {
  const cases: [ChecksumAlgorithm, string][] = [
    ["CRC32", "y/Q5Jg=="],
    ["CRC32C", "4waSgw=="],
    ["CRC64NVME", "rosUhgp5mIg="],
    ["SHA1", "98O8HYCOBHMq32eZZczDTKeuNEE="],
    ["SHA256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="],
    ["SHA512", "2eZ2LdHI6vbWGzxhkvxAjU1tXxF20MKRabwk5xw/J0rSf81YEbMT1oH35V7ALXPUmclUVba1u1A6z1dPuo/+hQ=="],
    ["MD5", "JfnnlDI7RTiF9RgfG2JNCw=="],
    ["XXHASH64", "jLhB20DmroM="],
    ["XXHASH3", "ctyxi2ehff8="],
    ["XXHASH128", "MxGUd+3l3NXpcWQnaB1YYA=="],
  ];
  for (const [algorithm, text] of cases)
    test(`is read as ${algorithm} and as nothing else`, () => {
      expect(parseChecksum(algorithm, text)).toEqual(hash(algorithm, new TextEncoder().encode("123456789")));
      for (const [other] of cases.filter(([, { length }]) => length !== text.length))
        expect(parseChecksum(other, text)).toBeNull();
      for (const wrong of ["", text.slice(1), `${text}-2`, ` ${text}`, text.replace("=", "")])
        expect(parseChecksum(algorithm, wrong), wrong).toBeNull();
    });
});

describe("the checksum over all bytes of an object", () => {
  for (const algorithm of CRCS)
    test(`follows from those of its parts, however these are cut: ${algorithm}`, () => {
      const random = seededRandom(7);
      const bytes = randomBytes(100_000, 3);
      for (let turn = 0; turn < 30; turn++) {
        const parts: { value: string; size: number }[] = [];
        for (let at = 0; at < bytes.length; ) {
          const size = Math.floor(random() ** 4 * 70_000);
          const part = bytes.subarray(at, at + size);
          parts.push({ value: encodeBase64(hash(algorithm, part)), size: part.length });
          at += size;
        }
        expect(combineChecksums({ algorithm, parts })).toBe(encodeBase64(hash(algorithm, bytes)));
      }
    });

  for (const algorithm of CRCS)
    test(`follows from them also where they are larger than 4 GiB: ${algorithm}`, () => {
      const zeroes = new Uint8Array(1024 * 1024);
      const hasher = createChecksum(algorithm);
      const one = { value: encodeBase64(hash(algorithm, zeroes)), size: zeroes.length };
      let doubled = one;
      for (let turn = 0; turn < 13; turn++)
        doubled = {
          value: combineChecksums({ algorithm, parts: [doubled, doubled] }),
          size: doubled.size * 2,
        };
      const tail = { value: encodeBase64(hash(algorithm, randomBytes(10, 1))), size: 10 };
      const oneByOne = combineChecksums({ algorithm, parts: [...Array(8192).fill(one), tail] });
      expect(combineChecksums({ algorithm, parts: [doubled, tail] })).toBe(oneByOne);
      expect(combineChecksums({ algorithm, parts: [tail, doubled] })).not.toBe(oneByOne);
      for (let turn = 0; turn < 4; turn++) hasher.update(zeroes);
      const four = combineChecksums({ algorithm, parts: Array(4).fill(one) });
      expect(four).toBe(encodeBase64(hasher.digest()));
    });

  test("of no parts is that of no bytes", () => {
    for (const algorithm of CRCS)
      expect(combineChecksums({ algorithm, parts: [] })).toBe(
        encodeBase64(hash(algorithm, new Uint8Array(0))),
      );
  });

  test("is not made up from values that are none", () => {
    const parts = [{ value: "rosUhgp5mIg=", size: 9 }];
    expect(() => combineChecksums({ algorithm: "CRC32", parts })).toThrow(/rosUhgp5mIg=.*CRC32/);
  });
});

describe("a file that has a checksum", () => {
  for (const algorithm of CHECKSUM_ALGORITHMS)
    test(`is taken out of an archive with it: ${algorithm}`, () => {
      const checksum = {
        algorithm,
        type: "FULL_OBJECT",
        value: encodeBase64(hash(algorithm, randomBytes(9, 1))),
      };
      expect(ArchivedAttributes.parse({ checksum })).toEqual({ checksum });
      const parts = { sizes: [[9, 1]], checksums: [checksum.value] };
      expect(ArchivedAttributes.parse({ checksum, parts })).toEqual({ checksum, parts });
    });
});

test("a file of 10,000 parts of different sizes, each with the longest checksum, is kept in an archive and taken out of it", () => {
  const longest = encodeBase64(hash("SHA512", randomBytes(9, 1)));
  const sizes = Array.from({ length: 10_000 }, (_, index) => [5 * 2 ** 30 - index, 1]);
  const attributes = JSON.stringify({
    metadata: { n: "x".repeat(2000) },
    checksum: { algorithm: "SHA512", type: "COMPOSITE", value: `${longest}-10000` },
    parts: { sizes, checksums: sizes.map(() => longest) },
  });
  const page = { files: [["large", 1, null, "0".repeat(64), 9, attributes, null]], contents: [] };
  expect(ExportedFiles.parse({ ...page, next: null }).files[0]?.[5]).toBe(attributes);
  expect(SoundFiles.parse(page).files[0]?.[5]).toBe(attributes);
});

describe("a composite checksum", () => {
  for (const algorithm of CHECKSUM_ALGORITHMS)
    test(`is that of the raw checksums of the parts, with their number behind it: ${algorithm}`, () => {
      const sums = [1, 2, 3].map((seed) => hash(algorithm, randomBytes(100 * seed, seed)));
      const joined = Uint8Array.from(sums.flatMap((sum) => [...sum]));
      const values = sums.map(encodeBase64);
      const composite = compositeOf({ algorithm, values, hash: (bytes) => hash(algorithm, bytes) });
      expect(composite).toBe(`${encodeBase64(hash(algorithm, joined))}-3`);
    });
});

describe("the types of a multipart upload's checksum", () => {
  test("are those that S3 documents", () => {
    expect(Object.fromEntries(CHECKSUM_ALGORITHMS.map((each) => [each, checksumTypes(each)]))).toEqual({
      CRC32: ["COMPOSITE", "FULL_OBJECT"],
      CRC32C: ["COMPOSITE", "FULL_OBJECT"],
      CRC64NVME: ["FULL_OBJECT"],
      SHA1: ["COMPOSITE"],
      SHA256: ["COMPOSITE"],
      SHA512: ["COMPOSITE"],
      MD5: ["COMPOSITE"],
      XXHASH64: ["COMPOSITE"],
      XXHASH3: ["COMPOSITE"],
      XXHASH128: ["COMPOSITE"],
    });
    expect(defaultChecksumType("CRC64NVME")).toBe("FULL_OBJECT");
    expect(defaultChecksumType("CRC32")).toBe("COMPOSITE");
  });
});
