import type { ContentId } from "../../protocol/content.ts";
import type { Body, Content } from "../blobs/content.ts";
import type { Sql, SqlValue } from "./sql.ts";

/** How long a condemned blob stays for those who read it just now; milliseconds. */
const CONDEMNED_GRACE_MS = 60 * 60 * 1000;

const BODY_KINDS = ["inline", "chunks", "manifest"] as const satisfies readonly Body["kind"][];

/** A content of one generation. */
export type OwnedContent = ContentId & { readonly gen: number };

interface StoredBody {
  readonly kind: number;
  readonly body: ArrayBuffer | string;
}

/** What contents are, and the blobs that they are made of. Equal contents need not have equal chunks: the first one stays. */
export class ContentStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  has({ digest, size, gen }: OwnedContent): boolean {
    const found = this.#sql.first`
      SELECT 1 FROM contents WHERE digest = unhex(${digest}) AND size = ${size} AND gen = ${gen}`;
    return found !== undefined;
  }

  /** Where its bytes are, in the newest generation that has it. */
  body({ digest, size }: ContentId): Body | undefined {
    const row = this.#sql.first<StoredBody>`
      SELECT kind, body FROM contents
      WHERE digest = unhex(${digest}) AND size = ${size} ORDER BY gen DESC LIMIT 1`;
    return row && readBody(row);
  }

  /**
   * One more file or upload has a content that comes with its bytes. Where the branch has it already, that one stays
   * and the blobs of this one are condemned.
   */
  bring(content: Content, { gen, now }: { gen: number; now: number }): void {
    const { digest, size, body } = content;
    const [kind, stored] = writeBody(body);
    const row = this.#sql.first<{ refs: number }>`
      INSERT INTO contents (digest, size, gen, refs, kind, body)
      VALUES (unhex(${digest}), ${size}, ${gen}, 1, ${kind}, ${stored})
      ON CONFLICT DO UPDATE SET refs = refs + 1 RETURNING refs`;
    if (row?.refs === 1) this.#registerBlobs(body);
    else this.spurn(content, now);
  }

  /** The content is here already: the blobs that this one brought are condemned, unless they are the ones that are used. */
  spurn({ body }: Content, now: number): void {
    if (body.kind !== "inline") this.#condemn(JSON.stringify(blobsOf(body)), now);
  }

  /** One more file or upload has a content that is here. */
  keep({ digest, size, gen }: OwnedContent): void {
    this.#sql.run`
      UPDATE contents SET refs = refs + 1
      WHERE digest = unhex(${digest}) AND size = ${size} AND gen = ${gen}`;
  }

  /** One less has it; what nothing has any more goes, and blobs that then nothing has are condemned. */
  release({ digest, size, gen }: OwnedContent, now: number): void {
    const row = this.#sql.first<StoredBody & { id: number; refs: number }>`
      UPDATE contents SET refs = refs - 1
      WHERE digest = unhex(${digest}) AND size = ${size} AND gen = ${gen}
      RETURNING rowid AS id, refs, kind, body`;
    if (!row || row.refs > 0) return;
    this.#sql.run`DELETE FROM contents WHERE rowid = ${row.id}`;
    const body = readBody(row);
    if (body.kind === "inline") return;
    const blobs = JSON.stringify(blobsOf(body));
    this.#sql.run`UPDATE blobs SET refs = refs - 1 WHERE name IN (SELECT value FROM json_each(${blobs}))`;
    this.#sql.run`DELETE FROM blobs WHERE name IN (SELECT value FROM json_each(${blobs})) AND refs = 0`;
    this.#condemn(blobs, now);
  }

  #registerBlobs(body: Body): void {
    if (body.kind === "inline") return;
    const blobs = JSON.stringify(blobsOf(body));
    this.#sql.run`
      INSERT INTO blobs (name, refs) SELECT value, 1 FROM json_each(${blobs}) WHERE true
      ON CONFLICT DO UPDATE SET refs = refs + 1`;
  }

  /** `blobs`: JSON of their names. Those that a content has are spared. */
  #condemn(blobs: string, now: number): void {
    this.#sql.run`
      INSERT INTO condemned (blob, due) SELECT value, ${now + CONDEMNED_GRACE_MS} FROM json_each(${blobs})
      WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE name = value) ON CONFLICT DO NOTHING`;
  }
}

function readBody({ kind, body }: StoredBody): Body {
  if (typeof body !== "string") return { kind: "inline", bytes: new Uint8Array(body) };
  const stored = JSON.parse(body);
  return kind === BODY_KINDS.indexOf("chunks")
    ? { kind: "chunks", chunks: stored }
    : { kind: "manifest", ...stored };
}

function writeBody(body: Body): [number, SqlValue] {
  const kind = BODY_KINDS.indexOf(body.kind);
  if (body.kind === "inline") return [kind, body.bytes];
  if (body.kind === "chunks") return [kind, JSON.stringify(body.chunks)];
  return [kind, JSON.stringify({ blob: body.blob, length: body.length })];
}

/** The blobs that a body names itself; those that a manifest lists are found through it. */
function blobsOf(body: Body): string[] {
  if (body.kind === "inline") return [];
  if (body.kind === "manifest") return [body.blob];
  return [...new Set(body.chunks.map(({ blob }) => blob))];
}
