import { createHash, type Hash } from "node:crypto";
import type { ContentId } from "../../protocol/content.ts";
import { LEAF_BYTES, type Sha256, toHex, treeRoot } from "../../protocol/digest.ts";

/** Plain SHA-256. */
export const sha256: Sha256 = (bytes) => createHash("sha256").update(bytes).digest();

/** Which hashes over the whole content are wanted next to its tree digest. */
export interface WantedHashes {
  readonly md5: boolean;
  readonly sha256: boolean;
}

/** What a content is, and those of its other hashes that were wanted. */
export interface ContentHashes {
  readonly id: ContentId;
  /** 16 bytes. */
  readonly md5: Uint8Array | null;
  /** Plain SHA-256, lower-case hex. */
  readonly sha256: string | null;
}

/** Hashes a content of at most LEAF_BYTES, whose digest is its plain SHA-256. For small content the cheapest way. */
export async function hashSmall(bytes: Uint8Array, wanted: WantedHashes): Promise<ContentHashes> {
  const md5 = wanted.md5 ? new Uint8Array(await crypto.subtle.digest("MD5", bytes)) : null;
  const digest = toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
  return { id: { digest, size: bytes.length }, md5, sha256: wanted.sha256 ? digest : null };
}

/** Hashes a content as it streams by. Holds a few hash states and O(log size) hashes, never bytes. */
export class ContentHasher {
  readonly #tree = new TreeStack();
  readonly #md5: Hash | undefined;
  readonly #wantsPlain: boolean;
  /** Plain SHA-256 of everything. It branches off the first leaf, whose bytes are so hashed once. */
  #plain: Hash | undefined;
  #leaf: Hash | undefined;
  #leafBytes = 0;
  #chunkLeaves: Uint8Array[] = [];
  #size = 0;

  constructor(wanted: WantedHashes) {
    this.#md5 = wanted.md5 ? createHash("md5") : undefined;
    this.#wantsPlain = wanted.sha256;
  }

  /** The next bytes, split wherever they come. */
  update(bytes: Uint8Array): void {
    this.#md5?.update(bytes);
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

  /** To be called once, at the end. */
  finish(): ContentHashes {
    this.#closeLeaf();
    const digest = toHex(this.#tree.root());
    const plain = this.#plain?.digest("hex") ?? digest;
    return {
      id: { digest, size: this.#size },
      md5: this.#md5?.digest() ?? null,
      sha256: this.#wantsPlain ? plain : null,
    };
  }

  #closeLeaf(): void {
    if (!this.#leaf) return;
    if (this.#wantsPlain) this.#plain ??= this.#leaf.copy();
    const hash = this.#leaf.digest();
    this.#tree.push(hash);
    this.#chunkLeaves.push(hash);
    this.#leaf = undefined;
    this.#leafBytes = 0;
  }
}

/**
 * The root that `treeRoot` gives, leaf by leaf: a stack of full subtrees, the largest first, that holds at most
 * one of each height.
 */
class TreeStack {
  readonly #subtrees: { hash: Uint8Array; height: number }[] = [];

  push(leaf: Uint8Array): void {
    let top = { hash: leaf, height: 0 };
    for (let left = this.#subtrees.at(-1); left?.height === top.height; left = this.#subtrees.at(-1)) {
      this.#subtrees.pop();
      top = { hash: treeRoot([left.hash, top.hash], sha256), height: top.height + 1 };
    }
    this.#subtrees.push(top);
  }

  /** What is left over on the right is hashed into its larger neighbour on the left, one after the other. */
  root(): Uint8Array {
    const [last = sha256(new Uint8Array(0)), ...lefts] = this.#subtrees.map(({ hash }) => hash).reverse();
    return lefts.reduce((right, left) => treeRoot([left, right], sha256), last);
  }
}
