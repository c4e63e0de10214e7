import { createReadStream } from "node:fs";
import { type FileHandle, open, readFile, rm } from "node:fs/promises";
import { type ContentId, contentName, INLINE_LIMIT_BYTES } from "../../protocol/content.ts";
import type { BranchAddress } from "../../protocol/names.ts";
import type { Outcome, Task } from "../../protocol/runner.ts";
import type { Failure } from "../gateway/client.ts";
import type { Gateway, Grant, UploadCalls } from "../gateway/gateway.ts";
import { ContentBroken, contentBytes } from "../gateway/resumable.ts";
import { retrying } from "../gateway/retry.ts";
import { forEachLimited } from "../lib/concurrency.ts";
import { writeAt } from "../lib/system-calls.ts";
import { hashPieces } from "../lib/tree-hash.ts";
import { sendOutputs } from "../pfs/upload.ts";

type MergeTask = Extract<Task, { kind: "merge" }>;

export type MergeCalls = UploadCalls & Pick<Gateway, "content">;

export interface MergeRequest {
  readonly task: MergeTask;
  /** The branch that has the parts and gets the whole. */
  readonly output: BranchAddress;
  /** Path for a file that is made here and is gone afterwards. */
  readonly file: string;
  readonly grant?: Grant | undefined;
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
export async function mergeParts(gateway: MergeCalls, request: MergeRequest): Promise<Merged> {
  const { file, output, task, grant, signal } = request;
  const { lease } = task;
  try {
    await build(gateway, request);
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
  { task, file, output, grant, signal }: MergeRequest,
): Promise<void> {
  const whole = await open(file, "wx", 0o600);
  try {
    await forEachLimited(piecesOf(task.parts), {
      limit: FETCHES_AT_ONCE,
      work: (piece) =>
        retrying(() => fetchPiece(gateway, { piece, whole, output, grant, signal }), {
          signal,
          classify: failureOf,
          maxTransient: MAX_TRIES,
        }),
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

interface PieceRequest {
  readonly piece: Piece;
  readonly whole: FileHandle;
  readonly output: BranchAddress;
  readonly grant: Grant | undefined;
  readonly signal: AbortSignal;
}

/** Writes a content to all of its places. A second try writes over the first. */
async function fetchPiece(
  gateway: MergeCalls,
  { piece: { content, offsets }, whole, output, grant, signal }: PieceRequest,
): Promise<void> {
  let done = 0;
  for await (const chunk of contentBytes(gateway, { address: output, content, grant, signal })) {
    for (const offset of offsets) await writeAt(whole, { bytes: chunk, position: offset + done });
    done += chunk.length;
  }
}

/** A failure that is not the gateway's is one of this machine's disk: full, or read-only. */
function failureOf(error: unknown): Failure {
  return error instanceof ContentBroken ? error.failure : "final";
}
