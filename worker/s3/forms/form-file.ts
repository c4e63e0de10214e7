import type { ByteSource } from "../../blobs/body-reader.ts";
import type { S3Error } from "../answer/errors.ts";
import { AHEAD_BYTES, type ByteView, FramedSource } from "../body/framed-source.ts";
import { behindDelimiter, type Delimiter } from "./delimiter.ts";
import { malformed } from "./form-head.ts";

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
 * The bytes of a form's file: they end at the delimiter, and what comes behind it is ignored, as S3 does. Only what may be the
 * beginning of a delimiter is held back.
 */
export class FormFile extends FramedSource {
  readonly #options: FormFileOptions;
  #given = 0;

  constructor(options: FormFileOptions) {
    super(options.raw, options.ahead);
    this.#options = options;
  }

  protected override async takeAhead(room: ByteView): Promise<number> {
    const { delimiter } = this.#options;
    const { at, whole } = delimiter.find(this.ahead);
    if (at > 0) {
      const bytes = this.ahead.subarray(0, Math.min(at, room.length));
      const given = this.#give(bytes.length);
      room.set(bytes);
      this.ahead = this.ahead.subarray(given);
      return given;
    }
    const { what } = whole
      ? behindDelimiter(this.ahead.subarray(delimiter.bytes.length))
      : { what: "unknown" };
    if (what === "broken") throw malformed("a boundary has something behind it in its line");
    if (what !== "unknown") this.state = "ended";
    else await this.#readMore();
    return 0;
  }

  protected override takeInPlace(raw: ByteView): number {
    const { at } = this.#options.delimiter.find(raw);
    this.ahead = raw.slice(at);
    return this.#give(at);
  }

  protected override atRawEnd(): never {
    throw malformed("it ends before the boundary that ends the file");
  }

  async #readMore(): Promise<void> {
    if (this.state !== "open") this.atRawEnd();
    const before = this.ahead;
    const more = await this.readRaw(new Uint8Array(AHEAD_BYTES), 1);
    this.ahead = new Uint8Array(before.length + more.length);
    this.ahead.set(before);
    this.ahead.set(more, before.length);
  }

  /** Counts bytes that are about to be given out. Throws if they are more than may be. */
  #give(count: number): number {
    this.#given += count;
    if (this.#given > this.#options.max) throw this.#options.tooLarge();
    return count;
  }
}
