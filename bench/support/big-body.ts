import { createHash } from "node:crypto";

/** Of which body it is, and where in it: makes every 1 MiB of every body different. */
const STAMP_BYTES = 64;
const PIECE_BYTES = 1024 * 1024;
const FILLER = Buffer.alloc(PIECE_BYTES - STAMP_BYTES, "All work and no play makes Jack a dull boy. ");

/** A body of any size that takes no memory: stamps between one buffer that is sent again and again. */
export interface BigBody {
  readonly size: number;
  pieces(): Iterable<Buffer>;
}

/** `size`: a multiple of 1 MiB. No two bodies with different seeds have a 1 MiB piece in common. */
export function bigBody(size: number, { seed }: { seed: string }): BigBody {
  return {
    size,
    *pieces() {
      for (let at = 0; at < size; at += PIECE_BYTES) {
        yield Buffer.alloc(STAMP_BYTES, `${seed} ${at} `);
        yield FILLER;
      }
    },
  };
}

/** The plain SHA-256, in hex. */
export function sha256Of(body: BigBody): string {
  const hash = createHash("sha256");
  for (const piece of body.pieces()) hash.update(piece);
  return hash.digest("hex");
}
