import { createReadStream } from "node:fs";
import { open, readFile, rm } from "node:fs/promises";
import { type ContentId, contentName, INLINE_LIMIT_BYTES } from "../../protocol/content.ts";
import type { BranchAddress } from "../../protocol/names.ts";
import type { Outcome, Task } from "../../protocol/runner.ts";
import type { Gateway, Grant, UploadCalls } from "../gateway/gateway.ts";
import { ContentBroken, contentBytes } from "../gateway/resumable.ts";
import { retrying } from "../gateway/retry.ts";
import { forEachLimited } from "../lib/concurrency.ts";
import { writeAt } from "../lib/system-calls.ts";
import { hashPieces } from "../lib/tree-hash.ts";
import { sendOutputs } from "../pfs/upload.ts";

type MergeTask = Extract<Task, { kind: "merge" }>;

export type MergeCalls = UploadCalls & Pick<Gateway, "content">;

/** A task, and what it may use. */
export interface TaskWork<T extends Task> {
  readonly task: T;
  /** The pipeline's output branch: what a task reads is there, and what it makes goes there. */
  readonly output: BranchAddress;
  /** Path for a file that may be made for it, and is gone afterwards. */
  readonly file: string;
  /** With it contents are read and sent. */
  readonly grant?: Grant | undefined;
  /** Stops the work; its outcome is then of no interest. */
  readonly signal: AbortSignal;
}

type Merged = Pick<Extract<Outcome, { state: "merged" }>, "content" | "bytes" | "upload">;

const FETCHES_AT_ONCE = 8;
const MAX_TRIES = 5;
const READ_BYTES = 1024 * 1024;

/**
 * Puts the parts one after the other into one content, and brings it to the output branch under the lease. The
 * whole is built in a file, so that memory is bounded whatever its size.
 */
export async function mergeParts(gateway: MergeCalls, work: TaskWork<MergeTask>): Promise<Merged> {
  const { file, output, task, grant, signal } = work;
  const { lease } = task;
  try {
    await build(gateway, work);
    const content = await hashPieces(createReadStream(file, { highWaterMark: READ_BYTES, signal }));
    const bytes = content.size <= INLINE_LIMIT_BYTES ? await readFile(file) : null;
    const collected = [{ path: "", content, bytes, source: file }];
    const { outputs, upload } = await sendOutputs(gateway, { collected, output, lease, grant, signal });
    const carried = outputs[0]?.bytes;
    return {
      content,
      ...(carried !== undefined && { bytes: carried }),
      ...(upload !== undefined && { upload }),
    };
  } finally {
    await rm(file, { force: true });
  }
}

/** A content and its places in the whole. There are several if several datums wrote the same bytes. */
interface Piece {
  readonly content: ContentId;
  readonly offsets: number[];
}

async function build(
  gateway: MergeCalls,
  { task, file, output, grant, signal }: TaskWork<MergeTask>,
): Promise<void> {
  const whole = await open(file, "wx", 0o600);
  /** Writes a content to all of its places. A second try writes over the first. */
  const fetchPiece = async ({ content, offsets }: Piece) => {
    let done = 0;
    for await (const chunk of contentBytes(gateway, { ...output, content, grant }, signal)) {
      for (const offset of offsets) await writeAt(whole, { bytes: chunk, position: offset + done });
      done += chunk.length;
    }
  };
  // A failure that is not the gateway's is one of this machine's disk: full, or read-only.
  const classify = (error: unknown) => (error instanceof ContentBroken ? error.failure : "final");
  const retry = { signal, classify, maxTransient: MAX_TRIES };
  try {
    await forEachLimited(piecesOf(task.parts), {
      limit: FETCHES_AT_ONCE,
      work: (piece) => retrying(() => fetchPiece(piece), retry),
    });
  } finally {
    await whole.close();
  }
}

function piecesOf(parts: readonly ContentId[]): Piece[] {
  const pieces = new Map<string, Piece>();
  let offset = 0;
  for (const content of parts) {
    const name = contentName(content);
    const piece = pieces.get(name) ?? { content, offsets: [] };
    pieces.set(name, piece);
    piece.offsets.push(offset);
    offset += content.size;
  }
  return [...pieces.values()];
}
