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

describe("a checksum", () => {
  const known = {
    CRC32: "cbf43926",
    CRC32C: "e3069283",
    CRC64NVME: "ae8b14860a799888",
    SHA1: "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
    SHA256: "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
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
