import type { Attributes } from "../../../protocol/files.ts";
import { comparePaths } from "../../core/path-order.ts";
import type { Sql } from "../../sqlite/sql.ts";
import type { ListMultiparts, MultipartList, MultipartStatus } from "../contract.ts";
import { attributesText, readAttributes } from "../tree/attributes.ts";
import { justAfter, rangeOf } from "../tree/path-ranges.ts";
import { PartStore } from "./parts.ts";

type WantedChecksum = MultipartStatus["checksum"];

/** What was said when a multipart upload began. */
export interface Multipart {
  readonly upload: string;
  readonly gen: number;
  readonly path: string;
  readonly initiatedAt: number;
  readonly checksum: WantedChecksum;
  readonly attributes: Attributes;
  /** The open commit that it is for. */
  readonly openCommit: string | null;
}

interface StoredRow {
  readonly upload: string;
  readonly path: string;
  readonly initiatedAt: number;
  readonly checksum: string | null;
}

/** Multipart uploads in progress. That they are open is for `UploadStore` to say, which ends them, too. */
export class MultipartStore {
  readonly parts: PartStore;
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
    this.parts = new PartStore(sql);
  }

  add({ upload, gen, path, initiatedAt, checksum, attributes, openCommit }: Multipart): void {
    const wanted = checksum && JSON.stringify(checksum);
    this.#sql.run`
      INSERT INTO multiparts (upload, gen, path, initiated_at, checksum, attributes, session)
      VALUES (${upload}, ${gen}, ${path}, ${initiatedAt}, ${wanted}, ${attributesText(attributes)}, ${openCommit})`;
  }

  find(upload: string, gen: number): Multipart | undefined {
    const row = this.#sql.first<StoredRow & Pick<Multipart, "openCommit"> & { attributes: string | null }>`
      SELECT upload, path, initiated_at AS initiatedAt, checksum, attributes, session AS openCommit FROM multiparts
      WHERE upload = ${upload} AND gen = ${gen}`;
    return row && { ...row, gen, checksum: readChecksum(row), attributes: readAttributes(row.attributes) };
  }

  /** Those of a generation that are for this open commit, or for none, by path, then by id. */
  list(gen: number, { openCommit, prefix, after, limit }: ListMultiparts): MultipartList {
    const { lower, upper } = rangeOf(prefix);
    const from = pageStart(lower, after);
    const rows = this.#sql.all<StoredRow>`
      SELECT upload, path, initiated_at AS initiatedAt, checksum FROM multiparts INDEXED BY multiparts_by_path
      WHERE gen = ${gen} AND session IS ${openCommit ?? null} AND (path, upload) > (${from.path}, ${from.upload}) AND path < ${upper}
      ORDER BY path, upload LIMIT ${limit + 1}`;
    const uploads = rows.slice(0, limit).map((row) => ({ ...row, checksum: readChecksum(row) }));
    return { ok: true, uploads, truncated: rows.length > limit };
  }

  progress(upload: string): string | null {
    const row = this.#sql.first<{ progress: string | null }>`
      SELECT progress FROM multiparts WHERE upload = ${upload}`;
    return row?.progress ?? null;
  }

  saveProgress(upload: string, progress: string): void {
    this.#sql.run`UPDATE multiparts SET progress = ${progress} WHERE upload = ${upload}`;
  }

  forget(upload: string): void {
    this.#sql.run`DELETE FROM multiparts WHERE upload = ${upload}`;
    this.parts.forget(upload);
  }
}

/** What the first upload of a page is greater than. No upload has an empty id. */
function pageStart(lower: string, after: ListMultiparts["after"]): { path: string; upload: string } {
  if (!after || comparePaths(after.path, lower) < 0) return { path: lower, upload: "" };
  const { path, upload } = after;
  return upload === undefined ? { path: justAfter(path), upload: "" } : { path, upload };
}

function readChecksum({ checksum }: StoredRow): WantedChecksum {
  return checksum === null ? null : JSON.parse(checksum);
}
