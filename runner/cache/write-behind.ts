import type { FileHandle } from "node:fs/promises";
import { writeAt } from "../lib/write-at.ts";

/** Bytes that are written together: a call for each piece of a body would cost more than the bytes. */
const TOGETHER_BYTES = 1024 * 1024;
/** Far below what one call may take (IOV_MAX of writev(2)). */
const TOGETHER_PIECES = 256;

/** Writes a body from the beginning of a file, in order. The next pieces, a MiB or two at most, gather while one write is under way. */
export class WriteBehind {
  readonly #file: FileHandle;
  #pieces: Uint8Array[] = [];
  #bytes = 0;
  #position = 0;
  #writing: Promise<void> = Promise.resolve();

  constructor(file: FileHandle) {
    this.#file = file;
  }

  /** Takes a piece, which must not change from then on. Throws what an earlier write threw. */
  async add(bytes: Uint8Array): Promise<void> {
    this.#pieces.push(bytes);
    this.#bytes += bytes.length;
    if (this.#bytes < TOGETHER_BYTES && this.#pieces.length < TOGETHER_PIECES) return;
    await this.#writing;
    this.#write();
  }

  /** Writes what is left. */
  async end(): Promise<void> {
    await this.#writing;
    this.#write();
    await this.#writing;
  }

  /** Waits for the write that is under way, however it ends. The file may then be closed. */
  async idle(): Promise<void> {
    await this.#writing.catch(() => undefined);
  }

  #write(): void {
    const [pieces, position] = [this.#pieces, this.#position];
    this.#position += this.#bytes;
    this.#pieces = [];
    this.#bytes = 0;
    this.#writing = writeAll(this.#file, { pieces, position });
    // The next call awaits it and throws what it throws.
    this.#writing.catch(() => undefined);
  }
}

async function writeAll(
  file: FileHandle,
  { pieces, position }: { pieces: readonly Uint8Array[]; position: number },
): Promise<void> {
  if (pieces.length === 0) return;
  let { bytesWritten: done } = await file.writev(pieces, position);
  let start = position;
  for (const piece of pieces) {
    const written = Math.min(done, piece.length);
    // If the disk took less, writing the rest throws the reason.
    if (written < piece.length)
      await writeAt(file, { bytes: piece.subarray(written), position: start + written });
    done -= written;
    start += piece.length;
  }
}
