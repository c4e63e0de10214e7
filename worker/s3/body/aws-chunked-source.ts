import type { ByteSource } from "../../blobs/body-reader.ts";
import type { ChunkDecoder } from "./chunk-decoder.ts";
import { type ByteView, FramedSource } from "./framed-source.ts";

/** The bytes of an aws-chunked body. What may be wrong is its framing, a signature or the trailer. */
export class AwsChunkedSource extends FramedSource {
  readonly #decoder: ChunkDecoder;

  constructor(raw: ByteSource, decoder: ChunkDecoder) {
    super(raw);
    this.#decoder = decoder;
  }

  protected override takeAhead(room: ByteView): number {
    const { read, written } = this.#decoder.decode(this.ahead, room);
    this.ahead = this.ahead.subarray(read);
    return written;
  }

  protected override takeInPlace(raw: ByteView): number {
    return this.#decoder.decode(raw, raw).written;
  }

  protected override atRawEnd(): void {
    this.#decoder.end();
    this.state = "ended";
  }
}
