import { hash } from "node:crypto";
import { readSync } from "node:fs";
import { availableParallelism } from "node:os";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { LEAF_BYTES } from "../../protocol/digest.ts";
import { errorCode } from "./fault.ts";

/** A range of a file that is open. */
export interface FileRange {
  /** Must stay open until the leaves are there: otherwise the thread would read another file of the same number. */
  readonly descriptor: number;
  /** A multiple of LEAF_BYTES. */
  readonly from: number;
  readonly to: number;
}

/**
 * Hashes the leaves of a range of a file on another thread, which reads the bytes by itself: handing them over would cost
 * this thread more than hashing them. Each thread holds one leaf. Rejects with what reading throws, and if the file
 * ends before the range does.
 */
export async function leavesOf(range: FileRange): Promise<Uint8Array[]> {
  return await nextThread().leavesOf(range);
}

/** One processor is left to the thread that brings the bytes; more than a few threads would outrun any disk. */
const MOST_THREADS = Math.max(1, Math.min(4, availableParallelism() - 1));
const threads = new Set<LeafThread>();

/** The thread with the least to do. */
function nextThread(): LeafThread {
  const [idlest] = [...threads].sort((one, other) => one.asked - other.asked);
  if (idlest && (idlest.asked === 0 || threads.size >= MOST_THREADS)) return idlest;
  const thread = new LeafThread(() => threads.delete(thread));
  threads.add(thread);
  return thread;
}

/** What a thread answers, in the order in which it was asked. An error that is sent as it is would lose its code. */
type Answer =
  | { readonly leaves: Uint8Array[] }
  | { readonly failure: { readonly message: string; readonly code: string | undefined } };

/** This side of a thread. It keeps no process from ending. */
class LeafThread {
  readonly #worker = new Worker(import.meta.filename, { workerData: LEAF_THREAD });
  readonly #waiting: PromiseWithResolvers<Uint8Array[]>[] = [];

  /** `onEnd`: called if the thread has ended, and takes no more work. */
  constructor(onEnd: () => void) {
    this.#worker.unref();
    this.#worker.on("message", (answer: Answer) => {
      const asked = this.#waiting.shift();
      if (this.#waiting.length === 0) this.#worker.unref();
      if ("leaves" in answer) asked?.resolve(answer.leaves);
      else asked?.reject(Object.assign(new Error(answer.failure.message), { code: answer.failure.code }));
    });
    const end = (error: Error) => {
      onEnd();
      for (const asked of this.#waiting.splice(0)) asked.reject(error);
    };
    this.#worker.on("error", end);
    this.#worker.on("exit", () => end(new Error("the thread that hashes has ended")));
  }

  /** How many ranges it has still to hash. */
  get asked(): number {
    return this.#waiting.length;
  }

  leavesOf(range: FileRange): Promise<Uint8Array[]> {
    const asked = Promise.withResolvers<Uint8Array[]>();
    this.#waiting.push(asked);
    this.#worker.ref();
    this.#worker.postMessage(range);
    return asked.promise;
  }
}

/** Says to this module that it is the other side. */
const LEAF_THREAD = "leaf-thread";

if (!isMainThread && workerData === LEAF_THREAD) {
  const buffer = Buffer.allocUnsafeSlow(LEAF_BYTES);
  parentPort?.on("message", (range: FileRange) => {
    let answer: Answer;
    try {
      answer = { leaves: hashed(range, buffer) };
    } catch (error) {
      answer = { failure: { message: (error as Error).message, code: errorCode(error) } };
    }
    parentPort?.postMessage(answer);
  });
}

function hashed({ descriptor, from, to }: FileRange, buffer: Buffer): Uint8Array[] {
  const leaves: Uint8Array[] = [];
  for (let start = from; start < to; start += LEAF_BYTES) {
    const leaf = buffer.subarray(0, Math.min(LEAF_BYTES, to - start));
    for (let filled = 0; filled < leaf.length; ) {
      const read = readSync(descriptor, leaf, filled, leaf.length - filled, start + filled);
      if (read === 0) throw new Error(`the file ends after ${start + filled} bytes`);
      filled += read;
    }
    leaves.push(hash("sha256", leaf, "buffer"));
  }
  return leaves;
}
