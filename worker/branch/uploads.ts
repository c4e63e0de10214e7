import type { ContentId } from "../../protocol/content.ts";
import type { Content } from "../blobs/content.ts";
import type { ContentStore } from "./contents.ts";
import { UPLOAD_LEASE_MS } from "./contract.ts";
import type { Sql } from "./sql.ts";

/** Most uploads that ran out which one opening closes. */
const EXPIRED_PER_OPENING = 10;

export interface UploadRow {
  readonly id: string;
  readonly gen: number;
  /** The datum lease it belongs to. */
  readonly lease: string | null;
}

/** Open uploads, and the contents that they keep until a file does. A closed upload has no row. */
export class UploadStore {
  readonly #sql: Sql;
  readonly #contents: ContentStore;

  constructor(sql: Sql, contents: ContentStore) {
    this.#sql = sql;
    this.#contents = contents;
  }

  open({ id, gen, lease, now }: UploadRow & { now: number }): void {
    const due = lease === null ? now + UPLOAD_LEASE_MS : null;
    this.#sql.run`INSERT INTO uploads (id, gen, lease, due) VALUES (${id}, ${gen}, ${lease}, ${due})`;
  }

  /** The upload, where it is open and of this generation. */
  find(id: string, gen: number): UploadRow | undefined {
    return this.#sql.first<UploadRow>`SELECT id, gen, lease FROM uploads WHERE id = ${id} AND gen = ${gen}`;
  }

  byLease(lease: string): UploadRow | undefined {
    return this.#sql.first<UploadRow>`SELECT id, gen, lease FROM uploads WHERE lease = ${lease}`;
  }

  renew(id: string, now: number): void {
    this.#sql.run`UPDATE uploads SET due = ${now + UPLOAD_LEASE_MS} WHERE id = ${id} AND due IS NOT NULL`;
  }

  /** Registers contents and keeps them for the upload. */
  add(upload: UploadRow, { contents, now }: { contents: readonly Content[]; now: number }): void {
    for (const content of contents) {
      this.#contents.add(content, { gen: upload.gen, now });
      this.#hold(upload, content);
    }
  }

  /** Keeps what is there; answers what is not. */
  reserve(upload: UploadRow, contents: readonly ContentId[]): ContentId[] {
    const missing: ContentId[] = [];
    for (const { digest, size } of contents) {
      if (this.#contents.has({ digest, size, gen: upload.gen })) this.#hold(upload, { digest, size });
      else missing.push({ digest, size });
    }
    return missing;
  }

  /** Ends an upload; what it alone kept goes. No-op where it is closed. */
  close(id: string, now: number): void {
    const upload = this.#sql.first<{ gen: number }>`DELETE FROM uploads WHERE id = ${id} RETURNING gen`;
    if (!upload) return;
    const held = this.#sql.all<ContentId>`
      DELETE FROM holds WHERE upload = ${id} RETURNING lower(hex(digest)) AS digest, size`;
    for (const content of held) this.#contents.release({ ...content, gen: upload.gen }, now);
  }

  /** Closes some of those whose lease ran out: each opening pays for what earlier ones left behind. */
  closeExpired(now: number): void {
    const expired = this.#sql.all<{ id: string }>`
      SELECT id FROM uploads INDEXED BY uploads_by_due
      WHERE due IS NOT NULL AND due < ${now} ORDER BY due LIMIT ${EXPIRED_PER_OPENING}`;
    for (const { id } of expired) this.close(id, now);
  }

  #hold({ id, gen }: UploadRow, { digest, size }: ContentId): void {
    const held = this.#sql.first`
      INSERT INTO holds (upload, digest, size) VALUES (${id}, unhex(${digest}), ${size})
      ON CONFLICT DO NOTHING RETURNING 1`;
    if (held) this.#contents.keep({ digest, size, gen });
  }
}
