import { NODE_TTL_MS } from "../../../protocol/runner.ts";
import type { Catalogue } from "../../catalogue/catalogue.ts";

/** How long an answer is used again. */
const FRESH_MS = 2_000;

/** The nodes that live: those that take work, and those that are being drained. */
export interface Fleet {
  readonly live: number;
  readonly draining: number;
}

/** How many nodes live. Asked of the catalogue at most every FRESH_MS; where it can't be reached, the last answer stands. */
export class LiveNodes {
  readonly #nodes: Catalogue["nodes"];
  #asked: Promise<Fleet> | undefined;
  #askedAt = 0;
  #last: Fleet = { live: 0, draining: 0 };

  constructor(nodes: Catalogue["nodes"]) {
    this.#nodes = nodes;
  }

  async count(now: number): Promise<Fleet> {
    if (!this.#asked || now - this.#askedAt >= FRESH_MS) {
      this.#askedAt = now;
      this.#asked = this.#ask(now);
    }
    return this.#asked;
  }

  async #ask(now: number): Promise<Fleet> {
    try {
      const nodes = await this.#nodes.seenSince(now - NODE_TTL_MS);
      const draining = nodes.filter((node) => node.draining).length;
      this.#last = { live: nodes.length - draining, draining };
    } catch (error) {
      console.warn("the catalogue can't be asked for live nodes", error);
    }
    return this.#last;
  }
}
