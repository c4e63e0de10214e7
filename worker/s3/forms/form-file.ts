import type { ByteSource } from "../../blobs/body-reader.ts";
import { S3Error } from "../answer/errors.ts";
import { behindDelimiter, type Delimiter } from "./delimiter.ts";
import { malformed } from "./form-head.ts";

/** How much is read ahead if the reader has little room. */
const AHEAD_BYTES = 16 * 1024;

type ByteView = Uint8Array<ArrayBuffer>;

/** What the file of a form is read from. */
export interface FormFileOptions {
  readonly raw: ByteSource;
  readonly delimiter: Delimiter;
  /** What came with the head, behind it. */
  readonly ahead: ByteView;
  /** Most bytes that are given out. What has more is refused. */
  readonly max: number;
  /** The refusal. */
  readonly tooLarge: () => S3Error;
}

/**
 * The bytes of a form's file: they end at the delimiter, and what comes behind it is ignored, as S3 does. A large read goes
 * straight into the reader's buffer, and only what may be the beginning of a delimiter is held back.
 */
export class FormFile implements ByteSource {
  readonly #options: FormFileOptions;
  /** Raw bytes that are not given out. */
  #ahead: ByteView;
  #state: "open" | "raw-ended" | "ended" | "cancelled" = "open";
  #given = 0;
  #fault: S3Error | undefined;

  constructor(options: FormFileOptions) {
    this.#options = options;
    this.#ahead = options.ahead;
  }

  /** What is wrong with the form. The read that met it rejects, too. */
  fault(): S3Error | undefined {
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
    return this.#options.raw.cancel(how);
  }

  async #read(space: ByteView, atLeast: number): Promise<ByteView> {
    const { byteOffset, length } = space;
    let { buffer } = space;
    let filled = 0;
    while (filled < atLeast && this.#state !== "ended") {
      const room = new Uint8Array(buffer, byteOffset + filled, length - filled);
      if (this.#ahead.length > 0) {
        filled += await this.#takeAhead(room);
      } else if (this.#state !== "open") {
        throw malformed("it ends before the boundary that ends the file");
      } else if (room.length < AHEAD_BYTES) {
        this.#ahead = await this.#readRaw(new Uint8Array(AHEAD_BYTES), atLeast - filled);
      } else {
        const raw = await this.#readRaw(room, atLeast - filled);
        buffer = raw.buffer;
        const { at } = this.#options.delimiter.find(raw);
        this.#ahead = raw.slice(at);
        filled += this.#give(at);
      }
    }
    return new Uint8Array(buffer, byteOffset, filled);
  }

  /** How many bytes went from those read ahead into the room; none if more must be read to know whether they are the file's. */
  async #takeAhead(room: ByteView): Promise<number> {
    const { delimiter } = this.#options;
    const { at, whole } = delimiter.find(this.#ahead);
    if (at > 0) {
      const bytes = this.#ahead.subarray(0, Math.min(at, room.length));
      const given = this.#give(bytes.length);
      room.set(bytes);
      this.#ahead = this.#ahead.subarray(given);
      return given;
    }
    const { what } = whole
      ? behindDelimiter(this.#ahead.subarray(delimiter.bytes.length))
      : { what: "unknown" };
    if (what === "broken") throw malformed("a boundary has something behind it in its line");
    if (what !== "unknown") this.#state = "ended";
    else await this.#readMore();
    return 0;
  }

  async #readMore(): Promise<void> {
    if (this.#state !== "open") throw malformed("it ends before the boundary that ends the file");
    const before = this.#ahead;
    const more = await this.#readRaw(new Uint8Array(AHEAD_BYTES), 1);
    this.#ahead = new Uint8Array(before.length + more.length);
    this.#ahead.set(before);
    this.#ahead.set(more, before.length);
  }

  /** Counts bytes that are about to be given out. Throws if they are more than may be. */
  #give(count: number): number {
    this.#given += count;
    if (this.#given > this.#options.max) throw this.#options.tooLarge();
    return count;
  }

  /** There are never fewer raw bytes to come than those of the file. */
  async #readRaw(space: ByteView, atLeast: number): Promise<ByteView> {
    const wanted = Math.min(atLeast, space.length);
    const bytes = await this.#options.raw.read(space, wanted);
    if (bytes.length < wanted && this.#state === "open") this.#state = "raw-ended";
    return bytes;
  }
}
