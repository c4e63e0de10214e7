import type { Attributes } from "../../protocol/files.ts";

/** A row of `files` as it is read: the digest in hex. */
export interface FileRow {
  readonly [column: string]: SqlStorageValue;
  readonly path: string;
  readonly kind: number;
  readonly digest: string;
  readonly size: number;
  readonly attributes: string;
}

/** What is selected of `files` to make a FileRow. */
export const FILE_COLUMNS = "path, kind, lower(hex(digest)) AS digest, size, attributes";

export const FILE = 0;
export const DIRECTORY = 1;

export function kindName(kind: number): "file" | "dir" {
  return kind === DIRECTORY ? "dir" : "file";
}

/** Attributes in one spelling, so that equal ones compare equal as text. */
export function attributesText({ contentType, metadata }: Attributes): string {
  const sorted = Object.fromEntries(Object.entries(metadata ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)));
  return JSON.stringify({
    ...(contentType === undefined ? {} : { contentType }),
    ...(Object.keys(sorted).length === 0 ? {} : { metadata: sorted }),
  });
}

/** The least path behind every path that starts with `prefix`, which ends in "/": "0" is the byte after "/". */
export function afterDirectory(prefix: string): string {
  return `${prefix.slice(0, -1)}0`;
}
