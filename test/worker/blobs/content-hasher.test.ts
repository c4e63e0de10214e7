import { describe, expect, test } from "vitest";
import { treeRoot } from "../../../protocol/digest.ts";
import { ContentHasher, hashSmall } from "../../../worker/blobs/hash/content-hasher.ts";
import { sha256 } from "../../../worker/blobs/hash/tree-stack.ts";
import { CHECKSUM_ALGORITHMS, type ChecksumAlgorithm } from "../../../worker/core/checksums.ts";
import { checksumOf } from "./checksums.ts";
import { hash, hex, MIB, randomBytes, referenceDigest } from "./reference.ts";
import { pieces } from "./senders.ts";

const ALL = { md5: true, sha256: true, checksums: CHECKSUM_ALGORITHMS };

function checksumsOf(bytes: Uint8Array): Map<ChecksumAlgorithm, string> {
  return new Map(CHECKSUM_ALGORITHMS.map((algorithm) => [algorithm, checksumOf(algorithm, bytes)]));
}

describe("the hashes of a streamed content", () => {
  test("do not depend on how it is split", async () => {
    for (const size of [0, 1, MIB - 1, MIB, MIB + 1, 2 * MIB, 3 * MIB + 7, 5 * MIB]) {
      const bytes = randomBytes(size, size);
      const expected = {
        id: { digest: await referenceDigest(bytes), size },
        md5: hex(await hash("MD5", bytes)),
        sha256: hex(await hash("SHA-256", bytes)),
        checksums: checksumsOf(bytes),
      };
      for (const seed of [1, 2]) {
        const hasher = new ContentHasher(ALL);
        for (const piece of pieces(bytes, seed)) hasher.update(piece);
        const { md5, ...others } = hasher.finish();
        expect({ md5: hex(md5 ?? new Uint8Array(0)), ...others }).toEqual(expected);
      }
    }
  });

  test("have the root that the rule gives, for every number of leaves", () => {
    const leaf = new Uint8Array(MIB);
    const hashes: Uint8Array[] = [];
    for (let leaves = 1; leaves <= 17; leaves++) {
      hashes.push(sha256(leaf));
      const hasher = new ContentHasher({ md5: false, sha256: false });
      for (let index = 0; index < leaves; index++) hasher.update(leaf);
      expect(hasher.finish()).toMatchObject({
        id: { digest: hex(treeRoot(hashes, sha256)) },
        md5: null,
        sha256: null,
      });
    }
  });

  test("come chunk by chunk, too", async () => {
    const bytes = randomBytes(2 * MIB + 10, 1);
    const hasher = new ContentHasher(ALL);
    const chunks = [bytes.slice(0, 2 * MIB), bytes.slice(2 * MIB)];
    for (const chunk of chunks) {
      hasher.update(chunk);
      const { digest, leaves } = hasher.endChunk();
      expect(digest).toBe(await referenceDigest(chunk));
      expect(leaves.length).toBe(Math.ceil(chunk.length / MIB));
    }
    expect(hasher.finish()).toMatchObject({
      id: { digest: await referenceDigest(bytes) },
      sha256: hex(await hash("SHA-256", bytes)),
    });
  });

  test("are the same for a small content, hashed in one go", () => {
    for (const size of [0, 1, 4096]) {
      const bytes = randomBytes(size, 5);
      const hasher = new ContentHasher(ALL);
      hasher.update(bytes);
      const { md5, ...others } = hasher.finish();
      const small = hashSmall(bytes, ALL);
      expect({ ...small, md5: hex(small.md5 ?? new Uint8Array(0)) }).toEqual({
        ...others,
        md5: hex(md5 ?? new Uint8Array(0)),
      });
      expect(hashSmall(bytes, {})).toMatchObject({ md5: null, sha256: null, checksums: new Map() });
    }
  });
});
