import type { FeedEvent } from "../../../../worker/branch/contract/pipelines.ts";
import type { Tree } from "./naive-tree.ts";

export interface Position {
  readonly generation: number;
  readonly seq: number;
}

/** A commit, or the deletion of the branch, and what was there after it. */
export interface NaiveEvent extends Position {
  readonly id: string;
  readonly createdAt: number;
  readonly kind: FeedEvent["kind"];
  readonly tree: Tree;
}

const EMPTY: Tree = new Map();

/** All that ever happened to a branch. */
export class NaiveBranch {
  readonly events: NaiveEvent[] = [];
  #generation = 0;
  #exists = false;

  get exists(): boolean {
    return this.#exists;
  }

  get tree(): Tree {
    return this.events.at(-1)?.tree ?? EMPTY;
  }

  /** Where a reader begins who comes now. */
  get head(): Position {
    const last = this.events.at(-1);
    return last?.generation === this.#generation ? last : { generation: this.#generation, seq: 0 };
  }

  create(): void {
    this.#generation++;
    this.#exists = true;
  }

  /** Takes the id and the time from what really happened, and the tree from what should have. */
  record({ generation, seq, id, createdAt, kind }: FeedEvent, tree: Tree): void {
    if (generation !== this.#generation || seq !== this.head.seq + 1)
      throw new Error(`event ${generation}.${seq} follows ${JSON.stringify(this.head)}`);
    this.events.push({ generation, seq, id, createdAt, kind, tree: kind === "deletion" ? EMPTY : tree });
    if (kind === "deletion") this.#exists = false;
  }
}
