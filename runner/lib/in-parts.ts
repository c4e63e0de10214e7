import { type ContentId, INLINE_LIMIT_BYTES } from "../../protocol/content.ts";
import { LEAF_BYTES } from "../../protocol/digest.ts";
import { MAX_PARTS_PER_CALL } from "../../protocol/files.ts";
import { forEachLimited } from "./concurrency.ts";

/** A run of bytes of a file. */
export interface Range {
  readonly offset: number;
  readonly length: number;
}

/** How parts are sent and put together. Both try again by themselves. */
export interface PartCalls {
  /** Brings a part to the upload. Returns what it is. */
  readonly send: (range: Range) => Promise<ContentId>;
  /** Puts parts together. `content`: what must come of it. */
  readonly compose: (request: { parts: ContentId[]; content?: ContentId }) => Promise<ContentId>;
}

const PARTS_AT_ONCE = 3;

/**
 * Brings a content to an upload in parts, several at a time, each below what proxies in front of a gateway take as one
 * body. They are then put together, in several steps if they are too many for one call.
 */
export async function sendInParts(
  { content, partBytes }: { content: ContentId; partBytes: number },
  { send, compose }: PartCalls,
): Promise<void> {
  const sent: ContentId[] = [];
  await forEachLimited(partRanges(content.size, partBytes).entries(), {
    limit: PARTS_AT_ONCE,
    work: async ([index, range]) => {
      sent[index] = await send(range);
    },
  });
  let parts = sent;
  while (parts.length > MAX_PARTS_PER_CALL) {
    const groups: ContentId[] = [];
    for (let start = 0; start < parts.length; start += MAX_PARTS_PER_CALL) {
      const [first, ...others] = parts.slice(start, start + MAX_PARTS_PER_CALL);
      if (first) groups.push(others.length === 0 ? first : await compose({ parts: [first, ...others] }));
    }
    parts = groups;
  }
  await compose({ parts, content });
}

/** The parts of a content that is longer than one. No part is so small that the gateway would keep it in a row. */
export function partRanges(size: number, partBytes: number): Range[] {
  const ranges: Range[] = [];
  for (let offset = 0; offset < size; ) {
    const rest = size - offset;
    const leaves =
      rest - partBytes > 0 && rest - partBytes <= INLINE_LIMIT_BYTES ? partBytes - LEAF_BYTES : partBytes;
    const length = Math.min(leaves, rest);
    ranges.push({ offset, length });
    offset += length;
  }
  return ranges;
}
