import { createHash } from "node:crypto";
import type { ContentId } from "../../../protocol/content.ts";
import type { Content } from "../../../worker/blobs/content.ts";

const ids = new Map<string, ContentId>();

export function idOf(text: string): ContentId {
  const known = ids.get(text);
  if (known) return known;
  const bytes = Buffer.from(text);
  const id = { digest: createHash("sha256").update(bytes).digest("hex"), size: bytes.length };
  if (ids.size < 10_000) ids.set(text, id);
  return id;
}

export function digestOf(text: string): string {
  return idOf(text).digest;
}

/** A content whose bytes are in a row. */
export function inline(text: string): Content {
  return { ...idOf(text), body: { kind: "inline", bytes: new TextEncoder().encode(text) } };
}

/** A content whose bytes are in a blob. */
export function inBlob(text: string, blob: string): Content {
  const id = idOf(text);
  return { ...id, body: { kind: "chunks", chunks: [{ blob, offset: 0, length: id.size, leaves: "" }] } };
}
