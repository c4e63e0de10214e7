import type { ContentId } from "../../../protocol/content.ts";
import type { Sql } from "../../sqlite/sql.ts";
import type { CompleteMultipart, Part, PartBody } from "../contract.ts";
import { readBody, type StoredBody } from "../tree/stored-body.ts";

/** Bytes of bodies as they are stored that one answer holds: well below what one call can carry. */
const ANSWER_BYTES = 8 * 1024 * 1024;

/** The parts of multipart uploads. Their contents are held by the uploads. */
export class PartStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  content(upload: string, number: number): ContentId | undefined {
    return this.#sql.first<ContentId>`
      SELECT lower(hex(digest)) AS digest, size FROM parts WHERE upload = ${upload} AND number = ${number}`;
  }

  /** Whether any part of the upload has this content. */
  anyHas(upload: string, { digest, size }: ContentId): boolean {
    const found = this.#sql.first`
      SELECT 1 FROM parts WHERE upload = ${upload} AND digest = unhex(${digest}) AND size = ${size} LIMIT 1`;
    return found !== undefined;
  }

  put(upload: string, { number, digest, size, checksum, modifiedAt }: Part): void {
    this.#sql.run`
      INSERT OR REPLACE INTO parts (upload, number, digest, size, checksum, modified_at)
      VALUES (${upload}, ${number}, unhex(${digest}), ${size}, ${checksum}, ${modifiedAt})`;
  }

  /** By number, greater than `after`. */
  list(upload: string, { after, limit }: { after: number; limit: number }): Part[] {
    return this.#sql.all<Part>`
      SELECT number, lower(hex(digest)) AS digest, size, checksum, modified_at AS modifiedAt FROM parts
      WHERE upload = ${upload} AND number > ${after} ORDER BY number LIMIT ${limit}`;
  }

  /** Whether each of these parts is there with its content. */
  areThere(upload: string, named: CompleteMultipart["parts"]): boolean {
    const there = new Map<number, ContentId>();
    const rows = this.#sql.all<ContentId & { number: number }>`
      SELECT number, lower(hex(digest)) AS digest, size FROM parts WHERE upload = ${upload}`;
    for (const { number, ...content } of rows) there.set(number, content);
    return named.every(({ number, digest, size }) => {
      const part = there.get(number);
      return part?.digest === digest && part.size === size;
    });
  }

  /** Where the bytes of these parts are, in this order, as far as one answer goes. */
  bodies(upload: string, { gen, numbers }: { gen: number; numbers: readonly number[] }): PartBody[] {
    const fitting = this.#fitting(upload, { gen, numbers });
    const rows = this.#sql.all<ContentId & StoredBody & { number: number }>`
      SELECT number, lower(hex(parts.digest)) AS digest, parts.size AS size, kind, body
      FROM json_each(${JSON.stringify(fitting)}) AS asked
      CROSS JOIN parts ON parts.upload = ${upload} AND parts.number = asked.value
      CROSS JOIN contents
        ON contents.digest = parts.digest AND contents.size = parts.size AND contents.gen = ${gen}`;
    return rows.map(({ number, digest, size, ...row }) => ({ number, digest, size, body: readBody(row) }));
  }

  /** The first of these parts that are there and whose bodies fit one answer together; at least one. */
  #fitting(upload: string, { gen, numbers }: { gen: number; numbers: readonly number[] }): number[] {
    const rows = this.#sql.all<{ number: number; bytes: number }>`
      SELECT number, octet_length(body) AS bytes FROM json_each(${JSON.stringify(numbers)}) AS asked
      CROSS JOIN parts ON parts.upload = ${upload} AND parts.number = asked.value
      CROSS JOIN contents
        ON contents.digest = parts.digest AND contents.size = parts.size AND contents.gen = ${gen}`;
    let room = ANSWER_BYTES;
    const tooMany = rows.findIndex(({ bytes }, index) => {
      room -= bytes;
      return index > 0 && room < 0;
    });
    return rows.slice(0, tooMany < 0 ? rows.length : tooMany).map(({ number }) => number);
  }

  forget(upload: string): void {
    this.#sql.run`DELETE FROM parts WHERE upload = ${upload}`;
  }
}
