import { type ContentId, contentName } from "../../../protocol/content.ts";
import { chunkOfBlob } from "../../blobs/blob-name.ts";
import type { Body } from "../../blobs/content.ts";
import type { SqlValue } from "../../objects/sql.ts";

const BODY_KINDS = ["inline", "chunks", "manifest"] as const satisfies readonly Body["kind"][];

/** The kind of a body whose bytes are in its row. */
export const INLINE_KIND = BODY_KINDS.indexOf("inline");

/** The bytes of an empty directory. */
export const NOTHING = { kind: "inline", bytes: new Uint8Array(0) } as const;

/** A body as a row of `contents` has it. */
export interface StoredBody {
  readonly kind: number;
  readonly body: ArrayBuffer | string;
}

/** A body. If `keeps` is not null, others own the blobs that it lists, but for those that were `made` for it. */
interface OwnedBody {
  readonly body: Body;
  readonly keeps: string | null;
  readonly made: readonly string[];
}

export function readBody({ kind, body }: StoredBody): Body {
  if (typeof body !== "string") return { kind: "inline", bytes: new Uint8Array(body) };
  const stored = JSON.parse(body);
  return kind === BODY_KINDS.indexOf("chunks")
    ? { kind: "chunks", chunks: stored }
    : { kind: "manifest", ...stored };
}

/** The columns `kind` and `body`. */
export function writeBody(body: Body): [number, SqlValue] {
  const kind = BODY_KINDS.indexOf(body.kind);
  if (body.kind === "inline") return [kind, body.bytes];
  if (body.kind === "chunks") return [kind, JSON.stringify(body.chunks)];
  return [kind, JSON.stringify({ blob: body.blob, length: body.length })];
}

/** The blobs that go with a content. Those that a manifest lists are found through it. */
export function ownBlobs({ body, keeps, made }: OwnedBody): string[] {
  if (body.kind === "manifest") return [body.blob, ...made];
  if (body.kind === "inline" || keeps !== null) return [...made];
  return [...new Set(body.chunks.map(({ blob }) => blob))];
}

/** Those of them that have a row of `blobs`: one that is the whole of the content is found by its name, and by the content's row. */
export function registeredBlobs(content: ContentId & OwnedBody): string[] {
  const blobs = ownBlobs(content);
  if (content.body.kind !== "chunks" || content.keeps !== null) return blobs;
  return blobs.filter((blob) => {
    const chunk = chunkOfBlob(blob);
    return !chunk || contentName(chunk) !== contentName(content);
  });
}

/** Whether it has a manifest that lists blobs of others. */
export function isBorrowed({ body, keeps }: Pick<OwnedBody, "body" | "keeps">): boolean {
  return body.kind === "manifest" && keeps !== null;
}
