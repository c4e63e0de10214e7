import type { ByteRange } from "../../blobs/port.ts";

const SINGLE = /^bytes=\s*([0-9]*)-([0-9]*)\s*$/;

/**
 * The bytes that a `Range` header asks for of a content of `size` bytes. Null: the whole, also where the header
 * is not one range of bytes, which RFC 9110 §14.2 lets a server ignore, as S3 does with several ranges.
 */
export function parseRange(header: string | undefined, size: number): ByteRange | null | "unsatisfiable" {
  const parts = header === undefined ? null : SINGLE.exec(header.trim());
  if (!parts) return null;
  const [, first = "", last = ""] = parts;
  if (first === "") return last === "" ? null : suffix(Number(last), size);
  const offset = Number(first);
  const end = last === "" ? Number.POSITIVE_INFINITY : Number(last);
  if (end < offset) return null;
  return offset >= size ? "unsatisfiable" : { offset, length: Math.min(end, size - 1) - offset + 1 };
}

function suffix(wanted: number, size: number): ByteRange | "unsatisfiable" {
  const length = Math.min(wanted, size);
  return length === 0 ? "unsatisfiable" : { offset: size - length, length };
}

/** `Content-Range` of a partial answer. */
export function contentRange({ offset, length }: ByteRange, size: number): string {
  return `bytes ${offset}-${offset + length - 1}/${size}`;
}
