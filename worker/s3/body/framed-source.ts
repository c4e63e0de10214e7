import type { ByteSource } from "../../blobs/body-reader.ts";
import { S3Error } from "../answer/errors.ts";

/** Read ahead if the reader has little room: else what stands between the bytes would be read byte by byte. */
export const AHEAD_BYTES = 16 * 1024;

export type ByteView = Uint8Array<ArrayBuffer>;

/**
 * The bytes in a body that has more than them. A large read goes straight into the reader's buffer, and what is not to come
 * out is taken out in place: each byte is moved once at most.
 */
export abstract class FramedSource implements ByteSource {
  protected state: "open" | "raw-ended" | "ended" | "cancelled" = "open";
  /** Raw bytes that were read ahead, and are not given out. */
  protected ahead: ByteView;
  readonly #raw: ByteSource;
  #fault: S3Error | undefined;

  constructor(raw: ByteSource, ahead: ByteView = new Uint8Array(0)) {
    this.#raw = raw;
    this.ahead = ahead;
  }

  /** Gives out some of what was read ahead. Returns how many bytes; none if more must be read to know. */
  protected abstract takeAhead(room: ByteView): number | Promise<number>;
  /** Keeps of these raw bytes those that come out, at their start. Returns how many. */
  protected abstract takeInPlace(raw: ByteView): number;
  /** Called once all raw bytes are taken. Sets the state, or throws if more should have come. */
  protected abstract atRawEnd(): void;

  /** What is wrong with what the body is in. The read that met it rejects, too. */
  fault(): S3Error | undefined {
    return this.#fault;
  }

  async read(space: ByteView, atLeast: number): Promise<ByteView> {
    try {
      return await this.#read(space, atLeast);
    } catch (error) {
      // After a cancel the body may end anywhere: that is no fault of the client's.
      if (error instanceof S3Error && this.state !== "cancelled") {
        this.#fault = error;
        await this.cancel().catch(() => {});
      }
      throw error;
    }
  }

  cancel(how?: { readonly atOnce: boolean }): Promise<void> {
    this.state = "cancelled";
    return this.#raw.cancel(how);
  }

  async #read(space: ByteView, atLeast: number): Promise<ByteView> {
    const { byteOffset, length } = space;
    let { buffer } = space;
    let filled = 0;
    while (filled < atLeast && this.state !== "ended") {
      const room = new Uint8Array(buffer, byteOffset + filled, length - filled);
      if (this.ahead.length > 0) {
        filled += await this.takeAhead(room);
      } else if (this.state !== "open") {
        this.atRawEnd();
      } else if (room.length < AHEAD_BYTES) {
        this.ahead = await this.readRaw(new Uint8Array(AHEAD_BYTES), atLeast - filled);
      } else {
        const raw = await this.readRaw(room, atLeast - filled);
        buffer = raw.buffer;
        filled += this.takeInPlace(raw);
      }
    }
    return new Uint8Array(buffer, byteOffset, filled);
  }

  /** There are never fewer raw bytes to come than those that come out. */
  protected async readRaw(space: ByteView, atLeast: number): Promise<ByteView> {
    const wanted = Math.min(atLeast, space.length);
    const bytes = await this.#raw.read(space, wanted);
    if (bytes.length < wanted && this.state === "open") this.state = "raw-ended";
    return bytes;
  }
}
