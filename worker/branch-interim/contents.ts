import type { ContentId } from "../../protocol/content.ts";
import type { Body, Content } from "../blobs/content.ts";

/** How long a condemned blob stays for those who still read it. */
const READER_GRACE_MS = 60 * 60 * 1000;

interface ContentRow {
  readonly [column: string]: SqlStorageValue;
  readonly bytes: ArrayBuffer | null;
  readonly body: string | null;
}

/** The bytes of a hex digest, as they are stored. */
export function digestBytes(hex: string): ArrayBuffer {
  const bytes = new Uint8Array(hex.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16);
  return bytes.buffer;
}

/** Where the bytes of a content are, in whatever generation; null where the branch does not have it. */
export function contentBody(sql: SqlStorage, { digest, size }: ContentId): Body | null {
  const query = "SELECT bytes, body FROM contents WHERE digest = ? AND size = ? LIMIT 1";
  const row = sql.exec<ContentRow>(query, digestBytes(digest), size).toArray()[0];
  return row ? bodyOf(row) : null;
}

export function hasContent(sql: SqlStorage, gen: number, { digest, size }: ContentId): boolean {
  const query = "SELECT 1 FROM contents WHERE digest = ? AND size = ? AND gen = ?";
  return sql.exec(query, digestBytes(digest), size, gen).toArray().length > 0;
}

/**
 * Makes a content known. Where the branch has it already, the one it has stays and the blobs that came now are
 * condemned: no name refers to them.
 */
export function registerContent(sql: SqlStorage, { gen, content, now }: { gen: number; content: Content; now: number }): void {
  const inline = content.body.kind === "inline" ? content.body.bytes : null;
  const body = content.body.kind === "inline" ? null : JSON.stringify(content.body);
  const inserted = sql
    .exec(
      `INSERT INTO contents (gen, digest, size, bytes, body, refs) VALUES (?, ?, ?, ?, ?, 0)
       ON CONFLICT DO NOTHING RETURNING 1`,
      gen,
      digestBytes(content.digest),
      content.size,
      inline === null ? null : exactBuffer(inline),
      body,
    )
    .toArray();
  for (const blob of blobsOf(content.body)) {
    if (inserted.length > 0) referToBlob(sql, { gen, blob });
    else condemnUnlessNamed(sql, { blob, now });
  }
}

/** One more row of `files` is this content. */
export function referToContent(sql: SqlStorage, gen: number, { digest, size }: ContentId): void {
  sql.exec("UPDATE contents SET refs = refs + 1 WHERE digest = ? AND size = ? AND gen = ?", digestBytes(digest), size, gen);
}

function referToBlob(sql: SqlStorage, { gen, blob }: { gen: number; blob: string }): void {
  sql.exec(
    "INSERT INTO blobs (name, gen, refs) VALUES (?, ?, 1) ON CONFLICT (name) DO UPDATE SET refs = refs + 1",
    blob,
    gen,
  );
}

/** The same content may be registered twice with the very same blobs: those stay. */
function condemnUnlessNamed(sql: SqlStorage, { blob, now }: { blob: string; now: number }): void {
  sql.exec(
    `INSERT INTO condemned (blob, due) SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE name = ?1)
     ON CONFLICT DO NOTHING`,
    blob,
    now + READER_GRACE_MS,
  );
}

function blobsOf(body: Body): string[] {
  if (body.kind === "chunks") return [...new Set(body.chunks.map(({ blob }) => blob))];
  return body.kind === "manifest" ? [body.blob] : [];
}

function bodyOf({ bytes, body }: ContentRow): Body {
  return body === null ? { kind: "inline", bytes: new Uint8Array(bytes ?? new ArrayBuffer(0)) } : JSON.parse(body);
}

function exactBuffer(bytes: Uint8Array): ArrayBuffer {
  return bytes.slice().buffer;
}
