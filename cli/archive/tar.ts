/** Headers of a tar file (POSIX.1-2017, pax, "ustar Interchange Format"): of regular files alone, as archives of repos have them. */

/** Headers and what is behind them fill whole blocks. */
export const BLOCK_BYTES = 512;
/** The most that eleven octal digits say; above it the number is binary, as GNU tar and bsdtar read it. */
const MOST_OCTAL = 8 ** 11 - 1;
const NAME_BYTES = 100;
const SIZE = { at: 124, bytes: 12 } as const;
const SUM = { at: 148, bytes: 8 } as const;

/** A file in a tar: its name, and how many bytes it has. */
export interface TarEntry {
  readonly name: string;
  readonly size: number;
}

/** The header of a file. `time`: seconds since 1970. */
export function tarHeader({ name, size }: TarEntry, time: number): Buffer {
  const header = Buffer.alloc(BLOCK_BYTES);
  if (Buffer.byteLength(name) > NAME_BYTES) throw new Error(`the name ${name} is too long for a tar file`);
  header.write(name, 0);
  header.write("0000644\0", 100);
  header.write("0000000\0", 108);
  header.write("0000000\0", 116);
  if (size <= MOST_OCTAL) header.write(octal(size, SIZE.bytes), SIZE.at);
  else {
    header[SIZE.at] = 0x80;
    header.writeBigUInt64BE(BigInt(size), SIZE.at + 4);
  }
  header.write(octal(Math.floor(time), 12), 136);
  header.write("0", 156);
  header.write("ustar\x0000", 257);
  header.write(`${sumOf(header).toString(8).padStart(6, "0")}\0 `, SUM.at);
  return header;
}

/** What a header says; null: it is the end of the file; undefined: it is no header, or was damaged. */
export function readTarHeader(header: Buffer): TarEntry | null | undefined {
  if (header.length < BLOCK_BYTES) return undefined;
  if (header.every((byte) => byte === 0)) return null;
  const sum = Number.parseInt(header.toString("latin1", SUM.at, SUM.at + 6), 8);
  if (sum !== sumOf(header) || header.toString("latin1", 257, 262) !== "ustar") return undefined;
  const end = header.indexOf(0);
  const name = header.toString("utf8", 0, Math.min(end < 0 ? NAME_BYTES : end, NAME_BYTES));
  const isBinary = ((header[SIZE.at] ?? 0) & 0x80) !== 0;
  const size = isBinary
    ? Number(header.readBigUInt64BE(SIZE.at + 4))
    : Number.parseInt(header.toString("latin1", SIZE.at, SIZE.at + SIZE.bytes - 1), 8);
  return Number.isSafeInteger(size) && size >= 0 ? { name, size } : undefined;
}

/** How many bytes are behind a file until the next header. */
export function paddingOf(size: number): number {
  return (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES;
}

/** Two empty blocks. */
export const TAR_END = Buffer.alloc(2 * BLOCK_BYTES);

function octal(number: number, bytes: number): string {
  return `${number.toString(8).padStart(bytes - 1, "0")}\0`;
}

/** The sum of the header's bytes, those of the sum itself counted as spaces. */
function sumOf(header: Buffer): number {
  let sum = 0;
  for (let at = 0; at < BLOCK_BYTES; at++) {
    const isSum = at >= SUM.at && at < SUM.at + SUM.bytes;
    sum += isSum ? 0x20 : (header[at] ?? 0);
  }
  return sum;
}
