import type { FileHandle } from "node:fs/promises";

/** Writes all of the bytes at a place in the file. */
export async function writeAt(
  file: FileHandle,
  { bytes, position }: { bytes: Uint8Array; position: number },
): Promise<void> {
  let written = 0;
  while (written < bytes.length) {
    const { bytesWritten } = await file.write(bytes, written, bytes.length - written, position + written);
    written += bytesWritten;
  }
}
