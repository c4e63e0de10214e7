import type { ContentId } from "../../../../protocol/content.ts";
import { idOf } from "../bytes.ts";

/** What the files of a history hold, found by their digests. */
export class Texts {
  readonly #byDigest = new Map<string, string>();

  id(text: string): ContentId {
    const id = idOf(text);
    this.#byDigest.set(id.digest, text);
    return id;
  }

  of(digest: string): string {
    return this.#byDigest.get(digest) ?? `a content that nobody wrote, ${digest}`;
  }
}
