import fc from "fast-check";
import { type ChunkKey, hmac, sha256 } from "./signing.ts";

/** How a body is put into the chunks of aws-chunked, and what is wrong with that. */
export interface Framing {
  readonly signed: boolean;
  readonly trailer: Trailer | undefined;
  /** Sizes of chunks, in bytes, taken one after the other until the body is over. */
  readonly sizes: readonly number[];
  readonly flaw: Flaw | undefined;
}

interface Trailer {
  readonly announced: string;
  readonly name: string;
  readonly value: string;
}

const FLAWS = [
  "cut",
  "extra-bytes",
  "size-too-large",
  "size-too-small",
  "size-is-no-hex",
  "no-last-chunk",
  "no-line-ends",
  "other-signature",
  "no-signature",
  "long-line",
  "decoded-length-too-large",
  "decoded-length-too-small",
  "trailer-signature",
  "trailer-twice",
] as const;
export type Flaw = (typeof FLAWS)[number];

const trailer = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constant({
      announced: "x-amz-checksum-crc32",
      name: "x-amz-checksum-crc32",
      value: "{crc32}",
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      announced: fc.constantFrom("x-amz-checksum-crc32", "x-amz-checksum-sha256", "x-other"),
      name: fc.constantFrom("x-amz-checksum-crc32", "x-amz-checksum-sha256", "x-other", ""),
      value: fc.constantFrom("{crc32}", "AAAAAA==", "", "no base64"),
    }),
  },
);

export const framing: fc.Arbitrary<Framing> = fc.record({
  signed: fc.boolean(),
  trailer: fc.option(trailer, { nil: undefined, freq: 2 }),
  sizes: fc.array(fc.constantFrom(1, 100, 8192, 8193, 20_000, 65_536), { minLength: 1, maxLength: 4 }),
  flaw: fc.option(fc.constantFrom(...FLAWS), { nil: undefined, freq: 2 }),
});

/** One without a flaw. */
export const soundFraming: fc.Arbitrary<Framing> = fc.record({
  signed: fc.boolean(),
  trailer: fc.constantFrom(undefined, {
    announced: "x-amz-checksum-crc32",
    name: "x-amz-checksum-crc32",
    value: "{crc32}",
  }),
  sizes: fc.array(fc.constantFrom(8192, 8193, 20_000, 65_536), { minLength: 1, maxLength: 4 }),
  flaw: fc.constant(undefined),
});

/** The body in its frame. `crc32`: its checksum, in base64. */
export function frame(
  body: Buffer,
  { sizes, signed, trailer: behind, flaw }: Framing,
  { chunks: key, crc32 }: { chunks: ChunkKey; crc32: string },
): Buffer {
  const chain = new Chain(key);
  const lineEnd = flaw === "no-line-ends" ? "" : "\r\n";
  const pieces: (string | Buffer)[] = [];
  const head = (chunk: Buffer, size: string): string => {
    const tail = signed && flaw !== "no-signature" ? `;chunk-signature=${chain.chunk(chunk)}` : "";
    const other =
      flaw === "other-signature" ? tail.replace(/.$/, (digit) => (digit === "0" ? "1" : "0")) : tail;
    return `${size}${flaw === "long-line" ? ";x=".padEnd(2000, "y") : ""}${other}${lineEnd}`;
  };
  for (const [index, chunk] of cut(body, sizes).entries()) {
    pieces.push(
      head(chunk, index === 0 ? sizeText(chunk.length, flaw) : chunk.length.toString(16)),
      chunk,
      lineEnd,
    );
  }
  if (flaw !== "no-last-chunk") pieces.push(head(Buffer.alloc(0), "0"));
  if (behind !== undefined) {
    const value = behind.value.replace("{crc32}", crc32);
    const line = `${behind.name}:${value}`;
    pieces.push(line, lineEnd, ...(flaw === "trailer-twice" ? [line, lineEnd] : []));
    const signature = chain.trailer(`${behind.name}:${value}\n`);
    if (signed && flaw !== "trailer-signature") pieces.push(`x-amz-trailer-signature:${signature}`, lineEnd);
  }
  pieces.push(lineEnd);
  if (flaw === "extra-bytes") pieces.push("more bytes");
  const whole = Buffer.concat(
    pieces.map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece)),
  );
  return flaw === "cut" ? whole.subarray(0, whole.length >> 1) : whole;
}

/** What x-amz-decoded-content-length says of a body. */
export function decodedLength(body: Buffer, { flaw }: Framing): number {
  const more = flaw === "decoded-length-too-large" ? 1 : flaw === "decoded-length-too-small" ? -1 : 0;
  return Math.max(0, body.length + more);
}

function sizeText(size: number, flaw: Flaw | undefined): string {
  if (flaw === "size-is-no-hex") return "xyz";
  const more = flaw === "size-too-large" ? 1 : flaw === "size-too-small" ? -1 : 0;
  return Math.max(0, size + more).toString(16);
}

function cut(body: Buffer, sizes: readonly number[]): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0, turn = 0; at < body.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1;
    // A body of many small chunks is slow to sign, and no other than one of a few.
    const end = turn < 50 ? at + size : body.length;
    chunks.push(body.subarray(at, end));
    at = end;
  }
  return chunks;
}

/** Each signature covers the one before it. */
class Chain {
  readonly #key: ChunkKey;
  #previous: string;

  constructor(key: ChunkKey) {
    this.#key = key;
    this.#previous = key.seed;
  }

  chunk(bytes: Buffer): string {
    return this.#next("AWS4-HMAC-SHA256-PAYLOAD", `${sha256("")}\n${sha256(bytes)}`);
  }

  trailer(text: string): string {
    return this.#next("AWS4-HMAC-SHA256-TRAILER", sha256(text));
  }

  #next(name: string, hashes: string): string {
    const { key, time, scope } = this.#key;
    this.#previous = hmac(key, `${name}\n${time}\n${scope}\n${this.#previous}\n${hashes}`).toString("hex");
    return this.#previous;
  }
}
