import { hash } from "node:crypto";
import { type Sha256, treeRoot } from "../../../protocol/digest.ts";

/** Plain SHA-256. */
export const sha256: Sha256 = (bytes) => hash("sha256", bytes, "buffer");

/** A full subtree: the hash over 2^height leaves. */
export interface Subtree {
  readonly hash: Uint8Array;
  readonly height: number;
}

/**
 * The root that `treeRoot` gives, leaf by leaf: a stack of full subtrees, the largest first, that holds at most
 * one of each height.
 */
export class TreeStack {
  readonly #subtrees: Subtree[];

  /** `subtrees`: where an earlier stack stopped. */
  constructor(subtrees: readonly Subtree[] = []) {
    this.#subtrees = [...subtrees];
  }

  /** All that the leaves so far come down to. */
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

  /** What is left over on the right is hashed into its larger neighbour on the left, one after the other. */
  root(): Uint8Array {
    const [last = sha256(new Uint8Array(0)), ...lefts] = this.#subtrees.map(({ hash }) => hash).reverse();
    return lefts.reduce((right, left) => treeRoot([left, right], sha256), last);
  }
}
