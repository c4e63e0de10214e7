import type { ByteRange } from "../../blobs/port.ts";
import { S3Error } from "../answer/errors.ts";

const RANGE = /^bytes=([0-9]{1,15})-([0-9]{1,15})$/;

/**
 * The bytes that `x-amz-copy-source-range` names; undefined for the whole. Unlike a GET's Range, it must give both
 * ends and lie inside the source. Throws InvalidArgument and InvalidRange.
 */
export function parseCopyRange(header: string | undefined, size: number): ByteRange | undefined {
  if (header === undefined) return undefined;
  const [, first, last] = RANGE.exec(header) ?? [];
  if (first === undefined || last === undefined || Number(first) > Number(last)) {
    throw new S3Error("InvalidArgument", {
      message: `x-amz-copy-source-range is '${header}': it must be 'bytes=<first>-<last>', where the first byte of the source is 0.`,
    });
  }
  if (Number(last) >= size) {
    throw new S3Error("InvalidRange", {
      message: `x-amz-copy-source-range is '${header}', but the source has ${size} bytes: it must lie inside.`,
    });
  }
  return { offset: Number(first), length: Number(last) - Number(first) + 1 };
}
