import { type ContentId, contentName } from "../../protocol/content.ts";

/** A content on its way into the cache. */
export interface Coming {
  /** Whether it was erased since it set out: these bytes are not to be kept. */
  readonly erased: boolean;
  /** It has arrived, or never will. */
  end(): void;
}

/**
 * Contents on their way into the cache. One that set out before this agent heard of its erasure may arrive after it was
 * taken out, and would then stay.
 */
export class Underway {
  readonly #all = new Set<{ readonly name: string; erased: boolean }>();

  /** Call this before the gateway is asked for it. */
  begin(content: ContentId): Coming {
    const coming = { name: contentName(content), erased: false };
    this.#all.add(coming);
    return {
      get erased() {
        return coming.erased;
      },
      end: () => void this.#all.delete(coming),
    };
  }

  /** Those of these names, or all, are not to be kept when they come. */
  erase(names: ReadonlySet<string> | "all"): void {
    for (const coming of this.#all) if (names === "all" || names.has(coming.name)) coming.erased = true;
  }
}
