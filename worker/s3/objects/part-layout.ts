import type { ByteRange } from "../../blobs/port.ts";
import type { PartLayout } from "../../branch/contract/files.ts";

/** How many parts an object was put together from. */
export function partCount({ sizes }: PartLayout): number {
  let count = 0;
  for (const [, parts] of sizes) count += parts;
  return count;
}

/** The place of a part in its object. Numbers begin at 1. Returns undefined if the object has no such part. */
export function partRange({ sizes }: PartLayout, number: number): ByteRange | undefined {
  let offset = 0;
  let before = 0;
  for (const [length, parts] of sizes) {
    const index = number - before - 1;
    if (index < parts) return { offset: offset + index * length, length };
    offset += length * parts;
    before += parts;
  }
  return undefined;
}

/** The sizes of the parts after a number, at most `limit` of them. */
export function partSizes(
  { sizes }: PartLayout,
  { after, limit }: { readonly after: number; readonly limit: number },
): number[] {
  const page: number[] = [];
  let before = 0;
  for (const [length, parts] of sizes) {
    const skipped = Math.min(parts, Math.max(0, after - before));
    const taken = Math.min(parts - skipped, limit - page.length);
    for (let part = 0; part < taken; part++) page.push(length);
    before += parts;
  }
  return page;
}
