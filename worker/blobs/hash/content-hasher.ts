import { createHash, type Hash, hash } from "node:crypto";
import type { ContentId } from "../../../protocol/content.ts";
import { LEAF_BYTES, toHex, treeRoot } from "../../../protocol/digest.ts";
import { encodeBase64 } from "../../core/base64.ts";
import type { ChecksumAlgorithm } from "../../core/checksums.ts";
import { fromHex } from "../../core/hex.ts";
import { type ChecksumHasher, createChecksum } from "./checksum-hasher.ts";
import { sha256, TreeStack } from "./tree-stack.ts";

/** Which hashes over the whole content are wanted next to its tree digest. */
export interface WantedHashes {
  readonly md5?: boolean;
  readonly sha256?: boolean;
  readonly checksums?: Iterable<ChecksumAlgorithm>;
}

/** A content's id, and those of its other hashes that were wanted. */
export interface ContentHashes {
  readonly id: ContentId;
  /** 16 bytes. */
  readonly md5: Uint8Array | null;
  /** Plain SHA-256, lower-case hex. */
  readonly sha256: string | null;
  /** Base64. */
  readonly checksums: ReadonlyMap<ChecksumAlgorithm, string>;
}

/** Hashes a content of at most LEAF_BYTES, whose digest is its plain SHA-256. For small content the cheapest way. */
export function hashSmall(bytes: Uint8Array, wanted: WantedHashes): ContentHashes {
  const plain = hash("sha256", bytes, "hex");
  const checksums = new WantedChecksums(wanted.checksums);
  checksums.update(bytes);
  return {
    id: { digest: plain, size: bytes.length },
    md5: wanted.md5 ? hash("md5", bytes, "buffer") : null,
    sha256: wanted.sha256 ? plain : null,
    checksums: checksums.digest(plain),
  };
}

/** Hashes a content as it streams by. Holds a few hash states and O(log size) hashes, never bytes. */
export class ContentHasher {
  readonly #tree = new TreeStack();
  readonly #wanted: WantedHashes;
  readonly #md5: Hash | undefined;
  readonly #checksums: WantedChecksums;
  readonly #needsPlain: boolean;
  /** Plain SHA-256 of everything. It branches off the first leaf, so that the first leaf's bytes are hashed only once. */
  #plain: Hash | undefined;
  #leaf: Hash | undefined;
  #leafBytes = 0;
  #chunkLeaves: Uint8Array[] = [];
  #size = 0;

  constructor(wanted: WantedHashes) {
    this.#wanted = wanted;
    this.#md5 = wanted.md5 ? createHash("md5") : undefined;
    this.#checksums = new WantedChecksums(wanted.checksums);
    this.#needsPlain = wanted.sha256 === true || this.#checksums.needPlain;
  }

  /** The next bytes, split wherever they come. */
  update(bytes: Uint8Array): void {
    this.#md5?.update(bytes);
    this.#checksums.update(bytes);
    let rest = bytes;
    while (rest.length > 0) {
      if (this.#leafBytes === LEAF_BYTES) this.#closeLeaf();
      this.#leaf ??= createHash("sha256");
      const part = rest.subarray(0, LEAF_BYTES - this.#leafBytes);
      this.#leaf.update(part);
      this.#plain?.update(part);
      this.#leafBytes += part.length;
      rest = rest.subarray(part.length);
    }
    this.#size += bytes.length;
  }

  /** Ends a chunk: the hashes of its leaves. Every chunk but the last must be whole leaves. */
  endChunk(): { leaves: Uint8Array[]; digest: string } {
    this.#closeLeaf();
    const leaves = this.#chunkLeaves;
    this.#chunkLeaves = [];
    return { leaves, digest: toHex(treeRoot(leaves, sha256)) };
  }

  /** Call it once, at the end. */
  finish(): ContentHashes {
    this.#closeLeaf();
    const digest = toHex(this.#tree.root());
    const plain = this.#plain?.digest("hex") ?? digest;
    return {
      id: { digest, size: this.#size },
      md5: this.#md5?.digest() ?? null,
      sha256: this.#wanted.sha256 ? plain : null,
      checksums: this.#checksums.digest(plain),
    };
  }

  #closeLeaf(): void {
    if (!this.#leaf) return;
    if (this.#needsPlain) this.#plain ??= this.#leaf.copy();
    const leaf = this.#leaf.digest();
    this.#tree.push(leaf);
    this.#chunkLeaves.push(leaf);
    this.#leaf = undefined;
    this.#leafBytes = 0;
  }
}

/** The additional checksums that are wanted. SHA256 is the plain SHA-256 and is not computed a second time. */
class WantedChecksums {
  readonly needPlain: boolean;
  readonly #hashers: ReadonlyMap<ChecksumAlgorithm, ChecksumHasher>;

  constructor(wanted: Iterable<ChecksumAlgorithm> = []) {
    const algorithms = new Set(wanted);
    this.needPlain = algorithms.delete("SHA256");
    this.#hashers = new Map([...algorithms].map((algorithm) => [algorithm, createChecksum(algorithm)]));
  }

  update(bytes: Uint8Array): void {
    for (const hasher of this.#hashers.values()) hasher.update(bytes);
  }

  /** `plain`: the plain SHA-256, in hex. */
  digest(plain: string): Map<ChecksumAlgorithm, string> {
    const values = new Map<ChecksumAlgorithm, string>();
    for (const [algorithm, hasher] of this.#hashers) values.set(algorithm, encodeBase64(hasher.digest()));
    if (this.needPlain) values.set("SHA256", encodeBase64(fromHex(plain)));
    return values;
  }
}
