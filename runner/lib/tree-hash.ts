import { createHash, type Hash, hash } from "node:crypto";
import type { ContentId } from "../../protocol/content.ts";
import { LEAF_BYTES, treeRoot } from "../../protocol/digest.ts";

/** Computes the identity of bytes that come in pieces of any size: the tree hash of protocol/digest.ts and the count. */
export class TreeHash {
  readonly #leaves: Uint8Array[] = [];
  #leaf: Hash = createHash("sha256");
  #leafBytes = 0;
  #size = 0;

  /** Bytes so far. */
  get size(): number {
    return this.#size;
  }

  update(bytes: Uint8Array): void {
    this.#size += bytes.length;
    let rest = bytes;
    while (rest.length > 0) {
      const piece = rest.subarray(0, LEAF_BYTES - this.#leafBytes);
      this.#leaf.update(piece);
      this.#leafBytes += piece.length;
      rest = rest.subarray(piece.length);
      if (this.#leafBytes === LEAF_BYTES) this.#closeLeaf();
    }
  }

  /** To be called once, at the end. */
  finish(): ContentId {
    if (this.#leafBytes > 0) this.#closeLeaf();
    const root = treeRoot(this.#leaves, sha256);
    return { digest: Buffer.from(root).toString("hex"), size: this.#size };
  }

  #closeLeaf(): void {
    this.#leaves.push(this.#leaf.digest());
    this.#leaf = createHash("sha256");
    this.#leafBytes = 0;
  }
}

/** The identity of bytes that come one piece after the other. `onPiece` hears how long each is. */
export async function hashPieces(
  pieces: AsyncIterable<Uint8Array>,
  onPiece: (bytes: number) => void = () => undefined,
): Promise<ContentId> {
  const hash = new TreeHash();
  for await (const piece of pieces) {
    hash.update(piece);
    onPiece(piece.length);
  }
  return hash.finish();
}

/** The identity of bytes that are at hand, at most one leaf of them: up to there the tree hash is the plain SHA-256. */
export function contentIdOf(bytes: Uint8Array): ContentId {
  return { digest: hash("sha256", bytes, "hex"), size: bytes.length };
}

/** Plain SHA-256. */
export function sha256(bytes: Uint8Array): Uint8Array {
  return createHash("sha256").update(bytes).digest();
}
