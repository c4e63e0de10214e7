import { expectedEtag } from "../../../support/expected-etag.ts";
import { describeWhole, selfDescribing } from "../../../support/self-describing.ts";

/** What all contents say that they are: a copy has the bytes of another key. */
const LABEL = "bytes";

export interface Content {
  readonly bytes: Buffer;
  readonly digest: string;
  /** As answers have it. */
  readonly etag: string;
}

export function contentOf(bytes: Buffer): Content {
  const etag = expectedEtag(bytes);
  return { bytes, etag, digest: etag.slice(1, 65) };
}

/** The content of a number and a size. */
export function numbered(nonce: number, size: number): Content {
  return contentOf(selfDescribing({ key: LABEL, nonce, size }));
}

/** The digest of bytes that came; throws if they are not those of one write. */
export function wholeDigest(bytes: Buffer): string {
  describeWhole(LABEL, bytes);
  return contentOf(bytes).digest;
}
