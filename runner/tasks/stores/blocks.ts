import { randomUUID } from "node:crypto";
import type { Readable } from "node:stream";
import type { BlockBlobClient } from "@azure/storage-blob";

export interface BlocksPut {
  readonly body: Readable;
  readonly blockBytes: number;
  readonly atOnce: number;
  readonly metadata: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/**
 * Puts a blob block by block. The SDK's own way of doing this never ends if it is aborted: it waits for streams of its
 * own that nobody reads any more.
 */
export async function putBlocks(blob: BlockBlobClient, put: BlocksPut): Promise<void> {
  const { signal: abortSignal } = put;
  // A worker that was taken for dead may be uploading this blob, too: its blocks must not get between these.
  const upload = randomUUID();
  const ids: string[] = [];
  const blocks = blocksOf(put.body, put.blockBytes);
  let failed = false;
  const lane = async () => {
    for (let next = await blocks.next(); !next.done && !failed; next = await blocks.next()) {
      const { index, bytes } = next.value;
      const id = blockId(upload, index);
      ids[index] = id;
      await blob.stageBlock(id, bytes, bytes.length, { abortSignal });
    }
  };
  const guarded = async () => {
    await lane().catch((error: unknown) => {
      failed = true;
      throw error;
    });
  };
  const lanes = await Promise.allSettled(Array.from({ length: put.atOnce }, guarded));
  const broken = lanes.find((result) => result.status === "rejected");
  if (broken) throw broken.reason;
  await blob.commitBlockList(ids, { metadata: { ...put.metadata }, abortSignal });
}

/** The id of a block. Azure wants all ids of a blob to have one length. */
function blockId(upload: string, index: number): string {
  return Buffer.from(`${upload}-${String(index).padStart(5, "0")}`).toString("base64");
}

interface Block {
  readonly index: number;
  readonly bytes: Buffer;
}

/** A stream in pieces of `blockBytes`; the last one has what is left. */
async function* blocksOf(body: Readable, blockBytes: number): AsyncGenerator<Block> {
  let index = 0;
  let pieces: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    pieces.push(chunk);
    size += chunk.length;
    while (size >= blockBytes) {
      const whole = Buffer.concat(pieces);
      yield { index, bytes: whole.subarray(0, blockBytes) };
      index += 1;
      pieces = [whole.subarray(blockBytes)];
      size -= blockBytes;
    }
  }
  if (size > 0) yield { index, bytes: Buffer.concat(pieces) };
}
