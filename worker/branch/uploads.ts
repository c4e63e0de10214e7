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

  /** Opens an upload, or answers the id of the one that the lease has already. */
  open({ id, gen, lease, now }: UploadRow & { now: number }): string {
    this.#closeExpired(now);
    const earlier = lease === null ? undefined : this.#byLease(lease);
    if (earlier?.gen === gen) return earlier.id;
    if (earlier) this.close(earlier.id, now);
    const due = lease === null ? now + UPLOAD_LEASE_MS : null;
    this.#sql.run`INSERT INTO uploads (id, gen, lease, due) VALUES (${id}, ${gen}, ${lease}, ${due})`;
    return id;
  }

  /** The upload, where it is open and of this generation. */
  find(id: string, gen: number): UploadRow | undefined {
    return this.#sql.first<UploadRow>`SELECT id, gen, lease FROM uploads WHERE id = ${id} AND gen = ${gen}`;
  }

  renew(id: string, now: number): void {
    this.#sql.run`UPDATE uploads SET due = ${now + UPLOAD_LEASE_MS} WHERE id = ${id} AND due IS NOT NULL`;
  }

  /** The pipeline is gone: its uploads run out like others. */
  forgetLeases(now: number): void {
    this.#sql.run`UPDATE uploads SET lease = NULL, due = ${now + UPLOAD_LEASE_MS} WHERE lease >= ''`;
  }

  /** Registers contents and keeps them for the upload. */
  add(upload: UploadRow, { contents, now }: { contents: readonly Content[]; now: number }): void {
    this.renew(upload.id, now);
    for (const content of contents) {
      if (this.#hold(upload, content)) this.#contents.bring(content, { gen: upload.gen, now });
      else this.#contents.spurn(content, now);
    }
  }

  /** Keeps what is there; answers what is not. */
  reserve(
    upload: UploadRow,
    { contents, now }: { contents: readonly ContentId[]; now: number },
  ): ContentId[] {
    this.renew(upload.id, now);
    const missing: ContentId[] = [];
    for (const { digest, size } of contents) {
      const content = { digest, size, gen: upload.gen };
      if (!this.#contents.has(content)) missing.push({ digest, size });
      else if (this.#hold(upload, content)) this.#contents.keep(content);
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

  #byLease(lease: string): UploadRow | undefined {
    return this.#sql.first<UploadRow>`SELECT id, gen, lease FROM uploads WHERE lease = ${lease}`;
  }

  /** Closes some of those whose lease ran out: each opening pays for what earlier ones left behind. */
  #closeExpired(now: number): void {
    const expired = this.#sql.all<{ id: string }>`
      SELECT id FROM uploads INDEXED BY uploads_by_due
      WHERE due IS NOT NULL AND due < ${now} ORDER BY due LIMIT ${EXPIRED_PER_OPENING}`;
    for (const { id } of expired) this.close(id, now);
  }

  /** False where the upload holds it already. */
  #hold({ id }: UploadRow, { digest, size }: ContentId): boolean {
    const held = this.#sql.first`
      INSERT INTO holds (upload, digest, size) VALUES (${id}, unhex(${digest}), ${size})
      ON CONFLICT DO NOTHING RETURNING 1`;
    return held !== undefined;
  }
}
