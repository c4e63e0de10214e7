import type { ByteSource } from "../../blobs/body-reader.ts";
import { S3Error } from "../answer/errors.ts";
import type { ChunkDecoder } from "./chunk-decoder.ts";

/**
 * How much is read ahead if the reader has little room. Otherwise the lines between chunks would be read in crumbs, the
 * last ones byte by byte.
 */
const AHEAD_BYTES = 16 * 1024;

type ByteView = Uint8Array<ArrayBuffer>;

/**
 * The bytes of an aws-chunked body. A large read goes straight into the reader's buffer, and the framing is taken out in
 * place: decoding moves each byte at most once.
 */
export class AwsChunkedSource implements ByteSource {
  readonly #raw: ByteSource;
  readonly #decoder: ChunkDecoder;
  #state: "open" | "raw-ended" | "ended" | "cancelled" = "open";
  /** Read ahead and not yet decoded. */
  #ahead: ByteView = new Uint8Array(0);
  #fault: S3Error | undefined;

  constructor(raw: ByteSource, decoder: ChunkDecoder) {
    this.#raw = raw;
    this.#decoder = decoder;
  }

  /** What is wrong with the framing, a signature or the trailer. The read that met it rejects, too. */
  get fault(): S3Error | undefined {
    return this.#fault;
  }

  async read(space: ByteView, atLeast: number): Promise<ByteView> {
    try {
      return await this.#read(space, atLeast);
    } catch (error) {
      // After a cancel the body may end anywhere: that is no fault of the client's.
      if (error instanceof S3Error && this.#state !== "cancelled") {
        this.#fault = error;
        await this.cancel().catch(() => {});
      }
      throw error;
    }
  }

  cancel(how?: { readonly atOnce: boolean }): Promise<void> {
    this.#state = "cancelled";
    return this.#raw.cancel(how);
  }

  async #read(space: ByteView, atLeast: number): Promise<ByteView> {
    const { byteOffset, length } = space;
    let { buffer } = space;
    let filled = 0;
    while (filled < atLeast && this.#state !== "ended") {
      const room = new Uint8Array(buffer, byteOffset + filled, length - filled);
      if (this.#ahead.length > 0) {
        filled += this.#decodeAhead(room);
      } else if (this.#state !== "open") {
        this.#decoder.end();
        this.#state = "ended";
      } else if (room.length < AHEAD_BYTES) {
        this.#ahead = await this.#readRaw(new Uint8Array(AHEAD_BYTES), atLeast - filled);
      } else {
        const raw = await this.#readRaw(room, atLeast - filled);
        buffer = raw.buffer;
        filled += this.#decoder.decode(raw, raw).written;
      }
    }
    return new Uint8Array(buffer, byteOffset, filled);
  }

  #decodeAhead(room: ByteView): number {
    const { read, written } = this.#decoder.decode(this.#ahead, room);
    this.#ahead = this.#ahead.subarray(read);
    return written;
  }

  /** There are never fewer raw bytes to come than decoded ones. */
  async #readRaw(space: ByteView, atLeast: number): Promise<ByteView> {
    const bytes = await this.#raw.read(space, atLeast);
    if (bytes.length < atLeast && this.#state === "open") this.#state = "raw-ended";
    return bytes;
  }
}
