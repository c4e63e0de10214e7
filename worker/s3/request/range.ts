import type { ByteRange } from "../../blobs/port.ts";
import { s3Error } from "../answer/errors.ts";

const SINGLE = /^bytes=([0-9]*)-([0-9]*)\s*$/;

/**
 * The bytes that a `Range` header asks for of a content of `size` bytes. Null: the whole, also if the header is not
 * one range of bytes. RFC 9110 §14.2 lets a server ignore such a header, and S3 ignores several ranges.
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

/** RFC 9110 §14.1.2: the end of a content of no bytes is the whole, only the last no bytes are never there. */
function suffix(wanted: number, size: number): ByteRange | null | "unsatisfiable" {
  if (wanted === 0) return "unsatisfiable";
  const length = Math.min(wanted, size);
  return length === 0 ? null : { offset: size - length, length };
}

/** `Content-Range` of a partial answer. */
export function contentRange({ offset, length }: ByteRange, size: number): string {
  return `bytes ${offset}-${offset + length - 1}/${size}`;
}

const RANGE = /^bytes=([0-9]{1,15})-([0-9]{1,15})$/;

/**
 * The bytes that `x-amz-copy-source-range` names; undefined for the whole. Unlike a GET's Range, it must give both
 * ends and lie inside the source. Throws InvalidArgument, as S3 does in both cases.
 */
export function parseCopyRange(header: string | undefined, size: number): ByteRange | undefined {
  if (header === undefined) return undefined;
  const [, first, last] = RANGE.exec(header) ?? [];
  if (first === undefined || last === undefined || Number(first) > Number(last)) {
    throw s3Error.InvalidArgument(
      `x-amz-copy-source-range is '${header}': it must be 'bytes=<first>-<last>', where the first byte of the source is 0.`,
    );
  }
  if (Number(last) >= size) {
    throw s3Error.InvalidArgument(
      `x-amz-copy-source-range is '${header}', but the source has ${size} bytes: it must lie inside.`,
    );
  }
  return { offset: Number(first), length: Number(last) - Number(first) + 1 };
}
