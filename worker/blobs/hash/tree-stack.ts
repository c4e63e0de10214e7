import { hash } from "node:crypto";
import { type Sha256, treeRoot } from "../../../protocol/digest.ts";

/** Plain SHA-256. */
export const sha256: Sha256 = (bytes) => hash("sha256", bytes, "buffer");

/** A full subtree: the hash over 2^height leaves. */
export interface Subtree {
  readonly hash: Uint8Array;
  readonly height: number;
}

/** Computes `treeRoot` leaf by leaf: a stack of full subtrees, the largest first, one of each height at most. */
export class TreeStack {
  readonly #subtrees: Subtree[];

  /** `subtrees`: those of an earlier stack, to go on from. */
  constructor(subtrees: readonly Subtree[] = []) {
    this.#subtrees = [...subtrees];
  }

  /** The subtrees over the leaves so far. */
  get subtrees(): readonly Subtree[] {
    return this.#subtrees;
  }

  push(leaf: Uint8Array): void {
    let top: Subtree = { hash: leaf, height: 0 };
    for (let left = this.#subtrees.at(-1); left?.height === top.height; left = this.#subtrees.at(-1)) {
      this.#subtrees.pop();
      top = { hash: treeRoot([left.hash, top.hash], sha256), height: top.height + 1 };
    }
    this.#subtrees.push(top);
  }

  /** Hashes each subtree, from the right, with its larger neighbour on the left. */
  root(): Uint8Array {
    const [last = sha256(new Uint8Array(0)), ...lefts] = this.#subtrees.map(({ hash }) => hash).reverse();
    return lefts.reduce((right, left) => treeRoot([left, right], sha256), last);
  }
}
