import { describe, expect, test } from "vitest";
import { createChecksum } from "../../../worker/blobs/hash/checksum-hasher.ts";
import { CHECKSUM_ALGORITHMS, type ChecksumAlgorithm } from "../../../worker/core/checksums.ts";
import { hash, hex, randomBytes } from "./reference.ts";
import { pieces } from "./senders.ts";

const LENGTHS = [0, 1, 7, 8, 9, 16_383, 16_384, 16_385, 1_000_003];

function oneShot(algorithm: ChecksumAlgorithm, bytes: Uint8Array): string {
  const hasher = createChecksum(algorithm);
  hasher.update(bytes);
  return hex(hasher.digest());
}

/** Bit by bit, as the definition of a reflected CRC with all ones at start and end says. */
function crcByDefinition(
  bytes: Uint8Array,
  { polynomial, width }: { polynomial: bigint; width: number },
): string {
  const ones = (1n << BigInt(width)) - 1n;
  let crc = ones;
  for (const byte of bytes) {
    crc ^= BigInt(byte);
    for (let bit = 0; bit < 8; bit++) crc = crc & 1n ? (crc >> 1n) ^ polynomial : crc >> 1n;
  }
  return (crc ^ ones).toString(16).padStart(width / 4, "0");
}

/** Bytes of a linear congruential generator, which is begun with their number. */
function congruential(length: number): Uint8Array {
  let state = BigInt(length);
  return Uint8Array.from({ length }, () => {
    state = (state * 1103515245n + 12345n) & 0x7fffffffn;
    return Number((state >> 16n) & 0xffn);
  });
}

describe("a checksum", () => {
  const known = {
    CRC32: "cbf43926",
    CRC32C: "e3069283",
    CRC64NVME: "ae8b14860a799888",
    SHA1: "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
    SHA256: "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
    SHA512:
      "d9e6762dd1c8eaf6d61b3c6192fc408d4d6d5f1176d0c29169bc24e71c3f274ad27fcd5811b313d681f7e55ec02d73d499c95455b6b5bb503acf574fba8ffe85",
    MD5: "25f9e794323b453885f5181f1b624d0b",
    XXHASH64: "8cb841db40e6ae83",
    XXHASH3: "72dcb18b67a17dff",
    XXHASH128: "33119477ede5dcd5e9716427681d5860",
  } satisfies Record<ChecksumAlgorithm, string>;

  for (const algorithm of CHECKSUM_ALGORITHMS) {
    test(`has its published check value: ${algorithm}`, () => {
      expect(oneShot(algorithm, new TextEncoder().encode("123456789"))).toBe(known[algorithm]);
    });

    test(`does not depend on how the bytes are split: ${algorithm}`, () => {
      for (const length of LENGTHS) {
        const bytes = randomBytes(length, length);
        for (const seed of [1, 2, 3]) {
          const hasher = createChecksum(algorithm);
          for (const piece of pieces(bytes, seed)) hasher.update(piece);
          expect(hex(hasher.digest())).toBe(oneShot(algorithm, bytes));
        }
      }
    });
  }

  test("is what its definition says", async () => {
    for (const length of [0, 1, 7, 8, 9, 1003]) {
      const bytes = randomBytes(length, length + 1);
      const crc32 = { polynomial: 0xedb88320n, width: 32 };
      const crc32c = { polynomial: 0x82f63b78n, width: 32 };
      const crc64nvme = { polynomial: 0x9a6c9329ac4bc9b5n, width: 64 };
      expect(oneShot("CRC32", bytes)).toBe(crcByDefinition(bytes, crc32));
      expect(oneShot("CRC32C", bytes)).toBe(crcByDefinition(bytes, crc32c));
      expect(oneShot("CRC64NVME", bytes)).toBe(crcByDefinition(bytes, crc64nvme));
      expect(oneShot("SHA256", bytes)).toBe(hex(await hash("SHA-256", bytes)));
    }
  });

  // Each length that an XXH has a way of its own for, and those around them; worked out by xxhash 0.8.4, in C.
  test.each([
    [0, "ef46db3751d8e999", "2d06800538d394c2", "99aa06d3014798d86001c324468d497f"],
    [1, "d2da77930f69647c", "e5e62017e96f839c", "9a0f174ae92e6df2e5e62017e96f839c"],
    [3, "f7c3874fb30326e5", "d1e7c169017d54e8", "1bd0fad1cf73c45fd1e7c169017d54e8"],
    [4, "f0a0b6ba2ff0bd1b", "12b68b0454406321", "0615efa4f4ab8a8b2abfdcee93b7a23f"],
    [8, "26fc932bda030b91", "6cfc42392af15278", "3e7ccd9d608a5fe3278c8c1774c7aafb"],
    [9, "33a940c2a753b4e0", "9ad184e594f66fc9", "0d85d90f15ba988b6fb5d6e6a6aacf02"],
    [16, "189d51f3251ce948", "45e75eaab2283162", "e71b45fefec7ca8f79038eb88ac14076"],
    [17, "ce885095beb54257", "d5b980282a4e3637", "f9bb5717ef16a9deccb38d4ca85f520e"],
    [31, "55a5ea35e1538ffb", "1d29b11b87087fab", "04b61697327e6eb93c10ad590435108f"],
    [32, "ce41bc499fe654cd", "3d4fe466716ce03a", "7968e6bb44040cf588fea46996fdfca7"],
    [33, "66971509713e3291", "e28f42150228e708", "b23dd549229d026ae7d7e0d1e5cdd914"],
    [128, "2e1d74e6048c5aaf", "022c5062a4bbee09", "96507e15e35d7ce1cb46ec39e5c3c8e3"],
    [129, "2d5537e37943ce93", "e6047819121d956d", "c6a23e010e4c69c6474179a213fca7ed"],
    [240, "c6a9a9dcb8a848e9", "ed559119e7a0e294", "8f8b757228882f388eed7264807f21aa"],
    [241, "bfbdd65c36a36565", "abed199c078d1bb5", "42af5fab7ffc1e39abed199c078d1bb5"],
    [256, "8e37c860f46aac46", "ab74aff6c8c2318c", "5c6c1a488ecca644ab74aff6c8c2318c"],
    [1024, "725bd48b7946b8f8", "e70f60f739705f16", "cfb79f9c22f90886e70f60f739705f16"],
    [1025, "437da1d8de27685d", "59f0d547be411a42", "f94f0331c18d471d59f0d547be411a42"],
    [16384, "5182cf7ab1356ac7", "a7b0be1d6bdab560", "80f8115fccbe68fea7b0be1d6bdab560"],
    [16385, "5a19f264ee6eb35e", "189a91a63dd82edb", "6354a5ad9066640a189a91a63dd82edb"],
    [70001, "a327ce71d499c5b1", "946228e976cc6cce", "63385a25655ecf62946228e976cc6cce"],
  ])("of %i bytes is the XXH64, the XXH3 and the XXH128 of the reference", (length, xxh64, xxh3, xxh128) => {
    const bytes = congruential(length);
    expect(oneShot("XXHASH64", bytes)).toBe(xxh64);
    expect(oneShot("XXHASH3", bytes)).toBe(xxh3);
    expect(oneShot("XXHASH128", bytes)).toBe(xxh128);
  });

  test("does not mix with others that are computed at the same time", () => {
    const jobs = CHECKSUM_ALGORITHMS.flatMap((algorithm) =>
      [1, 2, 3].map((seed) => {
        const bytes = randomBytes(50_000 * seed, seed);
        const rest = pieces(bytes, seed + 10);
        return { hasher: createChecksum(algorithm), rest, expected: oneShot(algorithm, bytes) };
      }),
    );
    for (let going = true; going; ) {
      going = false;
      for (const { hasher, rest } of jobs) {
        const { done, value } = rest.next();
        if (done) continue;
        hasher.update(value);
        going = true;
      }
    }
    for (const { hasher, expected } of jobs) expect(hex(hasher.digest())).toBe(expected);
  });
});
