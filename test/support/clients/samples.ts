import { createCipheriv, createHash } from "node:crypto";
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";

const PIECE_BYTES = 8 * 1024 * 1024;

/** Writes a file of bytes that look random and are the same for the same seed, piece by piece. */
export function writeSample(file: string, { sizeBytes, seed }: { sizeBytes: number; seed: string }): void {
  const key = createHash("sha256").update(seed).digest();
  const keystream = createCipheriv("aes-256-ctr", key, Buffer.alloc(16));
  const zeros = Buffer.alloc(PIECE_BYTES);
  const target = openSync(file, "w");
  for (let left = sizeBytes; left > 0; left -= PIECE_BYTES) {
    writeSync(target, keystream.update(zeros.subarray(0, Math.min(PIECE_BYTES, left))));
  }
  closeSync(target);
}

/** The SHA-256 of a file, in hex, read piece by piece. */
export function fileHash(file: string): string {
  const hash = createHash("sha256");
  const piece = Buffer.allocUnsafe(PIECE_BYTES);
  const source = openSync(file, "r");
  for (;;) {
    const length = readSync(source, piece);
    if (length === 0) break;
    hash.update(piece.subarray(0, length));
  }
  closeSync(source);
  return hash.digest("hex");
}

/** Some bytes of a file, `first` to `last`, both included. */
export function fileRange(file: string, { first, last }: { first: number; last: number }): Buffer {
  const bytes = Buffer.alloc(last - first + 1);
  const source = openSync(file, "r");
  readSync(source, bytes, { position: first });
  closeSync(source);
  return bytes;
}

/** Writes files into a folder, which is made: each by its path there. */
export function writeFolder(folder: string, files: Readonly<Record<string, string | Buffer>>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
}

/** Every file under a folder: its path there, in byte order, and the SHA-256 of what it holds. */
export function readFolder(folder: string): Record<string, string> {
  const files = readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
  return Object.fromEntries(
    inByteOrder(files).map((path) => [path, sha256(readFileSync(join(folder, path)))]),
  );
}

/** As S3 orders keys. */
export function inByteOrder(keys: readonly string[]): string[] {
  return [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

function sha256(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}
