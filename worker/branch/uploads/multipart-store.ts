import type { ContentId } from "../../../protocol/content.ts";
import type { Attributes } from "../../../protocol/files.ts";
import { comparePaths } from "../../core/path-order.ts";
import type { Sql } from "../../objects/sql.ts";
import { contentOf } from "../contents/content-store.ts";
import { readBody, type StoredBody } from "../contents/stored-body.ts";
import type { Annotation } from "../contract/answers.ts";
import type {
  CompleteMultipart,
  ListMultiparts,
  MultipartList,
  MultipartStatus,
  Part,
  PartBody,
} from "../contract/multipart.ts";
import { UNFINISHED_BELOW } from "../open-commits/open-commit-store.ts";
import { BranchStore } from "../store.ts";
import { annotationText, readAnnotation } from "../tree/annotation.ts";
import { attributesText, readAttributes } from "../tree/attributes.ts";
import { justAfter, rangeOf } from "../tree/path-ranges.ts";

/** Bytes of bodies as they are stored that one answer holds: well below what one call can carry. */
const ANSWER_BYTES = 8 * 1024 * 1024;

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
  /** Of the commit of its completion. */
  readonly annotation: Annotation | undefined;
}

interface StoredRow {
  readonly upload: string;
  readonly path: string;
  readonly initiatedAt: number;
  readonly checksum: string | null;
}

interface MultipartRow extends StoredRow, Pick<Multipart, "openCommit"> {
  readonly attributes: string | null;
  readonly annotation: string | null;
}

/** Multipart uploads in progress. `UploadStore` says whether one is open, and ends it. */
export class MultipartStore extends BranchStore {
  readonly parts: PartStore;

  constructor(sql: Sql) {
    super(sql);
    this.parts = new PartStore(sql);
  }

  add({ upload, gen, path, initiatedAt, checksum, attributes, openCommit, annotation }: Multipart): void {
    const wanted = checksum && JSON.stringify(checksum);
    this.sql.run`
      INSERT INTO multiparts (upload, gen, path, initiatedAt, checksum, attributes, openCommit, annotation)
      VALUES (${upload}, ${gen}, ${path}, ${initiatedAt}, ${wanted}, ${attributesText(attributes)}, ${openCommit},
        ${annotationText(annotation)})`;
  }

  /** One of this generation, unless it is for an open commit that has ended. */
  find(upload: string, gen: number): Multipart | undefined {
    const row = this.sql.first<MultipartRow>`
      SELECT upload, path, initiatedAt, checksum, attributes, openCommit, annotation
      FROM multiparts WHERE upload = ${upload} AND gen = ${gen}`;
    if (!row || !this.#takesUploads(row.openCommit, gen)) return undefined;
    const { attributes, annotation } = row;
    return {
      ...row,
      gen,
      checksum: readChecksum(row),
      attributes: readAttributes(attributes),
      annotation: readAnnotation(annotation),
    };
  }

  /** Uploads of a generation that are for this open commit, or for none, by path, then by id. */
  list(gen: number, { openCommit, prefix, after, limit }: ListMultiparts): MultipartList {
    if (!this.#takesUploads(openCommit ?? null, gen)) return { ok: true, uploads: [], truncated: false };
    const { lower, upper } = rangeOf(prefix);
    const from = pageStart(lower, after);
    const rows = this.sql.all<StoredRow>`
      SELECT upload, path, initiatedAt, checksum FROM multiparts INDEXED BY multiparts_by_path
      WHERE gen = ${gen} AND openCommit IS ${openCommit ?? null} AND (path, upload) > (${from.path}, ${from.upload}) AND path < ${upper}
      ORDER BY path, upload LIMIT ${limit + 1}`;
    const uploads = rows.slice(0, limit).map((row) => ({ ...row, checksum: readChecksum(row) }));
    return { ok: true, uploads, truncated: rows.length > limit };
  }

  /** Whether an upload into the branch itself is in progress whose path starts so. */
  anyBegun(gen: number, prefix: string): boolean {
    const { lower, upper } = rangeOf(prefix);
    return this.sql.has`
      SELECT 1 FROM multiparts INDEXED BY multiparts_by_path
      WHERE gen = ${gen} AND openCommit IS NULL AND path >= ${lower} AND path < ${upper} LIMIT 1`;
  }

  /** Not an open commit that is finished or has ended: what is uploaded into it has nowhere to go. */
  #takesUploads(openCommit: string | null, gen: number): boolean {
    if (openCommit === null) return true;
    return this.sql
      .has`SELECT 1 FROM open_commits WHERE id = ${openCommit} AND gen = ${gen} AND state < ${UNFINISHED_BELOW}`;
  }

  progress(upload: string): string | null {
    const row = this.sql.first<{ progress: string | null }>`
      SELECT progress FROM multiparts WHERE upload = ${upload}`;
    return row?.progress ?? null;
  }

  saveProgress(upload: string, progress: string): void {
    this.sql.run`UPDATE multiparts SET progress = ${progress} WHERE upload = ${upload}`;
  }

  /** Its parts are not forgotten. */
  forget(upload: string): void {
    this.sql.run`DELETE FROM multiparts WHERE upload = ${upload}`;
  }
}

/** The first upload of a page is greater than this. No upload has an empty id. */
function pageStart(lower: string, after: ListMultiparts["after"]): { path: string; upload: string } {
  if (!after || comparePaths(after.path, lower) < 0) return { path: lower, upload: "" };
  const { path, upload } = after;
  return upload === undefined ? { path: justAfter(path), upload: "" } : { path, upload };
}

function readChecksum({ checksum }: StoredRow): WantedChecksum {
  return checksum === null ? null : JSON.parse(checksum);
}

/** The parts of multipart uploads. Their contents are held by the uploads. */
/** Of (?1 gen, ?2 upload, ?3 JSON of numbers): parts in this order, with their contents. */
const ASKED_PARTS = `
  FROM json_each(?3) AS asked CROSS JOIN parts ON parts.upload = ?2 AND parts.number = asked.value
  CROSS JOIN ${contentOf("parts", "?1")}`;
const BODIES = `
  SELECT number, lower(hex(parts.digest)) AS digest, parts.size AS size, kind, body, life ${ASKED_PARTS}`;
const BODY_BYTES = `SELECT number, octet_length(body) AS bytes ${ASKED_PARTS}`;

class PartStore extends BranchStore {
  content(upload: string, number: number): ContentId | undefined {
    return this.sql.first<ContentId>`
      SELECT lower(hex(digest)) AS digest, size FROM parts WHERE upload = ${upload} AND number = ${number}`;
  }

  /** Whether any part of the upload has this content. */
  anyHas(upload: string, { digest, size }: ContentId): boolean {
    const found = this.sql.first`
      SELECT 1 FROM parts WHERE upload = ${upload} AND digest = unhex(${digest}) AND size = ${size} LIMIT 1`;
    return found !== undefined;
  }

  put(upload: string, { number, digest, size, checksum, modifiedAt }: Part): void {
    this.sql.run`
      INSERT OR REPLACE INTO parts (upload, number, digest, size, checksum, modifiedAt)
      VALUES (${upload}, ${number}, unhex(${digest}), ${size}, ${checksum}, ${modifiedAt})`;
  }

  /** By number, greater than `after`. */
  list(upload: string, { after, limit }: { after: number; limit: number }): Part[] {
    return this.sql.all<Part>`
      SELECT number, lower(hex(digest)) AS digest, size, checksum, modifiedAt FROM parts
      WHERE upload = ${upload} AND number > ${after} ORDER BY number LIMIT ${limit}`;
  }

  /** Whether each of these parts is there with its content. */
  areThere(upload: string, named: CompleteMultipart["parts"]): boolean {
    const there = new Map<number, ContentId>();
    const rows = this.sql.all<ContentId & { number: number }>`
      SELECT number, lower(hex(digest)) AS digest, size FROM parts WHERE upload = ${upload}`;
    for (const { number, ...content } of rows) there.set(number, content);
    return named.every(({ number, digest, size }) => {
      const part = there.get(number);
      return part?.digest === digest && part.size === size;
    });
  }

  /** Where the bytes of these parts are, in this order, as many as fit one answer. */
  bodies(upload: string, { gen, numbers }: { gen: number; numbers: readonly number[] }): PartBody[] {
    const fitting = this.#fitting(upload, { gen, numbers });
    const values = [gen, upload, JSON.stringify(fitting)];
    const rows = this.sql.query<Omit<PartBody, "body"> & StoredBody>(BODIES, values);
    return rows.map(({ kind, body, ...part }) => ({ ...part, body: readBody({ kind, body }) }));
  }

  /** The first of these parts that are there and whose bodies fit one answer together; at least one. */
  #fitting(upload: string, { gen, numbers }: { gen: number; numbers: readonly number[] }): number[] {
    const values = [gen, upload, JSON.stringify(numbers)];
    const rows = this.sql.query<{ number: number; bytes: number }>(BODY_BYTES, values);
    let room = ANSWER_BYTES;
    const tooMany = rows.findIndex(({ bytes }, index) => {
      room -= bytes;
      return index > 0 && room < 0;
    });
    return rows.slice(0, tooMany < 0 ? rows.length : tooMany).map(({ number }) => number);
  }

  /** Forgets so many of an upload at most, and returns how many those were. */
  forget(upload: string, atMost: number): number {
    const forgotten = this.sql.all`
      DELETE FROM parts WHERE upload = ${upload}
        AND number IN (SELECT number FROM parts WHERE upload = ${upload} LIMIT ${atMost}) RETURNING number`;
    return forgotten.length;
  }
}

/** How long a completed multipart upload is remembered for clients that ask again; milliseconds. */
const COMPLETION_KEPT_MS = 24 * 60 * 60 * 1000;

/** Multipart uploads that were completed lately. */
export class CompletionStore extends BranchStore {
  add(upload: string, { gen, status, now }: { gen: number; status: MultipartStatus; now: number }): void {
    this.sql.run`
      INSERT INTO completions (upload, gen, due, status)
      VALUES (${upload}, ${gen}, ${now + COMPLETION_KEPT_MS}, ${JSON.stringify(status)})`;
    this.wake("housekeeping", now + COMPLETION_KEPT_MS);
  }

  find(upload: string, gen: number): MultipartStatus | undefined {
    const row = this.sql.first<{ status: string }>`
      SELECT status FROM completions WHERE upload = ${upload} AND gen = ${gen}`;
    return row && JSON.parse(row.status);
  }

  /** Forgets some of those whose time is over. */
  forgetOld(now: number, limit: number): void {
    this.sql.run`
      DELETE FROM completions WHERE upload IN (
        SELECT upload FROM completions INDEXED BY completions_by_due WHERE due <= ${now} ORDER BY due LIMIT ${limit}
      )`;
  }

  /** When the next one is to be forgotten; undefined if there is none. */
  nextDue(): number | undefined {
    return this.sql.first<{ due: number }>`
      SELECT due FROM completions INDEXED BY completions_by_due WHERE due >= 0 ORDER BY due LIMIT 1`?.due;
  }
}
