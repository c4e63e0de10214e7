import fc from "fast-check";
import { S3Error } from "../../../worker/s3/answer/errors.ts";
import { ChunkDecoder, ChunkSignatures, Trailer } from "../../../worker/s3/body/aws-chunked.ts";
import { seededBytes } from "../../support/random.ts";
import { checksumsOf } from "../gateway/bytes.ts";
import { decodedLength, type Framing, frame, framing } from "../gateway/framing.ts";
import { type ChunkKey, hmac } from "../gateway/signing.ts";
import type { Tally } from "../tally.ts";

const KEY: ChunkKey = {
  key: Buffer.alloc(32, 7),
  time: "20130524T000000Z",
  scope: "20130524/us-east-1/s3/aws4_request",
  seed: "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
};

/** A body in its frame, a few bytes of that changed, and the sizes of the pieces in which it comes. */
export const framed = fc.record({
  size: fc.oneof(fc.nat(100), fc.constantFrom(8192, 20_000, 50_000)),
  framing,
  changes: fc.oneof(
    { weight: 2, arbitrary: fc.constant([]) },
    {
      weight: 1,
      arbitrary: fc.array(fc.tuple(fc.double({ min: 0, max: 0.9999, noNaN: true }), fc.nat(255)), {
        maxLength: 3,
      }),
    },
  ),
  pieces: fc.array(fc.constantFrom(1, 2, 7, 100, 5000, 100_000), { minLength: 1, maxLength: 4 }),
});
type Framed = typeof framed extends fc.Arbitrary<infer T> ? T : never;

/** What nobody may pass over where chunks are signed. */
const NEVER_TAKEN = [
  "cut",
  "decoded-length-too-large",
  "decoded-length-too-small",
  "no-last-chunk",
  "no-signature",
  "other-signature",
];

/** What comes out is what went in, whole, or there is a refusal with a code of S3's. A signed body is never another one. */
export function holdsFramed({ size, framing: how, changes, pieces }: Framed, tally: Tally): void {
  const body = seededBytes(size, size);
  const raw = frame(body, how, { chunks: KEY, crc32: checksumsOf(body)["{crc32}"] });
  for (const [at, byte] of changes) raw[Math.floor(at * raw.length)] = byte;
  const decodedSize = decodedLength(body, how);
  const out = decoded(raw, { how, decodedSize, pieces });
  tally.add(
    `framing, ${how.signed ? "signed" : "unsigned"}, ${how.flaw ?? "sound"}`,
    out === undefined ? "refused" : "good",
  );
  const isSound =
    how.flaw === undefined &&
    changes.length === 0 &&
    (how.trailer === undefined || how.trailer.announced === how.trailer.name);
  if (out === undefined) {
    if (isSound && hasFairChunks(how)) throw new Error("a sound body was refused");
    return;
  }
  if (how.signed && size > 0 && NEVER_TAKEN.includes(how.flaw ?? ""))
    throw new Error(`${how.flaw} was taken`);
  if (out.length !== decodedSize) throw new Error(`${out.length} bytes came out, of ${decodedSize}`);
  if ((isSound || how.signed) && !out.equals(body)) throw new Error("other bytes came out than went in");
}

/** Of signed chunks, all but the last have 8 KiB at least. */
function hasFairChunks({ signed, sizes }: Framing): boolean {
  return !signed || sizes.every((size) => size >= 8192);
}

/** Undefined if it is refused. */
function decoded(
  raw: Buffer,
  { how, decodedSize, pieces }: { how: Framing; decodedSize: number; pieces: readonly number[] },
): Buffer | undefined {
  const { key, ...signing } = KEY;
  const signatures = how.signed
    ? new ChunkSignatures({ ...signing, key: { sign: (text) => hmac(key, text) } })
    : undefined;
  const trailer = new Trailer({
    announced: how.trailer?.announced,
    valueFault: () => undefined,
    signatures: how.trailer && signatures,
  });
  const decoder = new ChunkDecoder({ decodedSize, signatures, trailer });
  const out: Buffer[] = [];
  try {
    for (let at = 0, turn = 0; at < raw.length; turn++) {
      const piece = raw.subarray(at, at + (turn < 2000 ? (pieces[turn % pieces.length] ?? 1) : raw.length));
      const room = Buffer.alloc(piece.length);
      const { read, written } = decoder.decode(piece, room);
      if (read === 0) throw new Error("nothing more goes in");
      out.push(room.subarray(0, written));
      at += read;
    }
    decoder.end();
    return Buffer.concat(out);
  } catch (error) {
    if (error instanceof S3Error) return undefined;
    throw error;
  }
}
