import { waitUntil } from "cloudflare:workers";
import type { Catalogue } from "../catalogue/catalogue.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
/** After a write that failed, the next one of the key is this long in coming; milliseconds. */
const RETRY_MS = 5 * 60 * 1000;
/** Most keys of which an isolate remembers that their day is written down. */
const MAX_REMEMBERED = 20_000;

export interface KeyUsesParts {
  readonly catalogue: Pick<Catalogue, "keys">;
  readonly now: () => number;
  /** Lets work go on after the answer. */
  readonly later?: (work: Promise<void>) => void;
}

/**
 * Writes down on which day a key was last used, so that its owner sees what nobody needs any more. An isolate writes it once
 * for each key and day, and no request waits for it or fails with it. If the isolate ends first, or D1 does not take it, a
 * later request writes it. Other isolates may have written the day already: the statement then changes no row.
 */
export class KeyUses {
  readonly #parts: KeyUsesParts;
  /** Counted from 1970. */
  #day = -1;
  /** By the id of a key: until when there is nothing to write. Of the present day alone. */
  readonly #written = new Map<string, number>();

  constructor(parts: KeyUsesParts) {
    this.#parts = parts;
  }

  /** The key of the id has signed a request just now. */
  note(id: string): void {
    const { now, later = waitUntil } = this.#parts;
    const at = now();
    const day = Math.floor(at / DAY_MS);
    if (day !== this.#day) {
      this.#day = day;
      this.#written.clear();
    }
    const until = this.#written.get(id);
    if (until !== undefined && at < until) return;
    this.#remember(id, Number.POSITIVE_INFINITY);
    later(this.#write(id, at));
  }

  async #write(id: string, at: number): Promise<void> {
    try {
      await this.#parts.catalogue.keys.noteUse(id, new Date(at).toISOString().slice(0, 10));
    } catch (error) {
      this.#remember(id, at + RETRY_MS);
      console.warn(`the use of the access key ${id} is not written down yet`, error);
    }
  }

  #remember(id: string, until: number): void {
    this.#written.delete(id);
    this.#written.set(id, until);
    if (this.#written.size <= MAX_REMEMBERED) return;
    const [oldest] = this.#written.keys();
    if (oldest !== undefined) this.#written.delete(oldest);
  }
}
