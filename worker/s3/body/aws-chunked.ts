import { createHash, type Hash } from "node:crypto";
import { EMPTY_DIGEST } from "../../../protocol/content.ts";
import type { ChunkSigning } from "../../app.ts";
import type { ByteSource } from "../../blobs/body-reader.ts";
import { type S3Error, s3Error } from "../answer/errors.ts";
import { SIGNATURE } from "../auth/parse-authorization.ts";
import { signatureIs } from "../auth/signature.ts";
import { type ByteView, FramedSource } from "./framed-source.ts";

/** Longest line before or behind a chunk, in bytes; a signed one has about 100. */
const MAX_LINE_BYTES = 1024;
/** Most bytes behind the last chunk. */
const MAX_TRAILER_BYTES = 8 * 1024;
/** Smallest signed chunk but the last, in bytes (S3's bound): a signature each makes smaller ones dear. */
const MIN_SIGNED_CHUNK_BYTES = 8 * 1024;
const LINE_FEED = 10;

interface ChunkDecoderOptions {
  /** What x-amz-decoded-content-length says. */
  readonly decodedSize: number;
  /** Set if chunks are signed. */
  readonly signatures: ChunkSignatures | undefined;
  readonly trailer: Trailer;
}

/**
 * Undoes aws-chunked framing: bytes go in split wherever they come, those of the chunks come out. Throws S3Error
 * for what is wrong with the framing, a signature or the trailer. A chunk's bytes come out before its signature is
 * known to be good, so that after an error all that came out is void.
 */
export class ChunkDecoder {
  readonly #options: ChunkDecoderOptions;
  #state: "head" | "data" | "data-end" | "trailer" = "head";
  #head: ChunkHead = { size: 0, signature: undefined };
  /** Bytes of the present chunk that are still to come. */
  #left = 0;
  /** Bytes of all chunks so far, the present one as a whole. */
  #announced = 0;
  /** Of a line whose end has not come. */
  #line = "";
  #trailerBytes = 0;

  constructor(options: ChunkDecoderOptions) {
    this.#options = options;
  }

  /** Takes in as much as `out` has room for. `out` may be `raw`: what comes out never overtakes what goes in. */
  decode(raw: Uint8Array, out: Uint8Array): { read: number; written: number } {
    let read = 0;
    let written = 0;
    while (read < raw.length) {
      if (this.#state !== "data") {
        read += this.#readLine(raw.subarray(read, read + MAX_LINE_BYTES));
        continue;
      }
      const part = raw.subarray(read, read + Math.min(this.#left, out.length - written));
      if (part.length === 0) break;
      this.#options.signatures?.update(part);
      if (out !== raw || read !== written) out.set(part, written);
      read += part.length;
      written += part.length;
      this.#left -= part.length;
      if (this.#left === 0) this.#endChunk("data-end");
    }
    return { read, written };
  }

  /** Call it when the body has ended. */
  end(): void {
    if (this.#state !== "trailer" || this.#line !== "") throw broken("it ends in the middle");
    if (!this.#options.trailer.isComplete) throw broken("it ends before its trailer has come");
    this.#options.trailer.end();
  }

  /** How many of the bytes belong to the line that it takes in. */
  #readLine(bytes: Uint8Array): number {
    const feed = bytes.indexOf(LINE_FEED);
    const end = feed === -1 ? bytes.length : feed;
    this.#line += String.fromCharCode(...bytes.subarray(0, end));
    const taken = feed === -1 ? end : end + 1;
    if (this.#state === "trailer") this.#trailerBytes += taken;
    if (this.#line.length > MAX_LINE_BYTES || this.#trailerBytes > MAX_TRAILER_BYTES) throw this.#tooLong();
    if (feed === -1) return taken;
    const line = this.#line.endsWith("\r") ? this.#line.slice(0, -1) : this.#line;
    this.#line = "";
    if (this.#state === "trailer") this.#options.trailer.line(line);
    else if (this.#state === "head") this.#beginChunk(line);
    else if (line !== "") throw broken("a chunk does not end where its size says");
    else this.#state = "head";
    return taken;
  }

  #beginChunk(line: string): void {
    const head = parseChunkHead(line);
    if (typeof head === "string") throw broken(head);
    const { decodedSize, signatures } = this.#options;
    if (signatures && head.signature === undefined) throw broken("a chunk has no chunk-signature");
    if (signatures && head.size > 0) refuseSmall(this.#head.size);
    this.#announced += head.size;
    const ends = head.size === 0;
    if (this.#announced > decodedSize || (ends && this.#announced < decodedSize)) {
      const held = `${ends ? "" : "at least "}${this.#announced} bytes`;
      throw broken(`x-amz-decoded-content-length is ${decodedSize}, but its chunks hold ${held}`);
    }
    this.#head = head;
    this.#left = head.size;
    if (ends) this.#endChunk("trailer");
    else this.#state = "data";
  }

  #endChunk(next: "data-end" | "trailer"): void {
    this.#state = next;
    const { signatures } = this.#options;
    if (!signatures || signatures.endChunk(this.#head.signature ?? "")) return;
    throw s3Error.SignatureDoesNotMatch(
      "The signature of a chunk of the body is not the one that it has with the secret key: check that nothing changes the body on its way.",
    );
  }

  #tooLong(): S3Error {
    return this.#state === "trailer"
      ? s3Error.MalformedTrailerError("The trailer of the aws-chunked body is too long.")
      : broken(`a line is longer than ${MAX_LINE_BYTES} bytes`);
  }
}

function refuseSmall(size: number): void {
  if (size === 0 || size >= MIN_SIGNED_CHUNK_BYTES) return;
  throw s3Error.InvalidChunkSizeError(
    `A signed chunk has ${size} bytes: only the last may have fewer than ${MIN_SIGNED_CHUNK_BYTES}.`,
  );
}

function broken(what: string): S3Error {
  return s3Error.IncompleteBody(`The aws-chunked body is malformed: ${what}.`);
}

/** The line before a chunk: `<size in hex>` or `<size in hex>;chunk-signature=<64 hex>`. */
interface ChunkHead {
  readonly size: number;
  readonly signature: string | undefined;
}

const HEAD = /^0*([0-9a-fA-F]{1,12})[ \t]*(?:;(.*))?$/;
const SIGNATURE_NAME = "chunk-signature=";

/** Reads the line, without its end. Returns a text if something is wrong with it. */
function parseChunkHead(line: string): ChunkHead | string {
  const parts = HEAD.exec(line);
  if (parts === null) return "a chunk does not begin with its size in hex";
  const size = Number.parseInt(parts[1] ?? "", 16);
  const extensions = parts[2]?.split(";").map((text) => text.trim()) ?? [];
  const signature = extensions.find((text) => text.startsWith(SIGNATURE_NAME))?.slice(SIGNATURE_NAME.length);
  if (signature !== undefined && !SIGNATURE.test(signature)) {
    return "a chunk-signature is not 64 lower-case hex digits";
  }
  return { size, signature };
}

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

/**
 * Checks the signatures of an aws-chunked body, each of which covers the one before it and so the order of the
 * chunks ("Signature Calculations for the Authorization Header: Transferring Payload in Multiple Chunks"). Holds one
 * hash state, whatever a chunk's size.
 */
export class ChunkSignatures {
  readonly #signing: ChunkSigning;
  #previous: string;
  #hash: Hash | undefined;

  constructor(signing: ChunkSigning) {
    this.#signing = signing;
    this.#previous = signing.seed;
  }

  /** The next bytes of the present chunk. */
  update(bytes: Uint8Array): void {
    this.#hash ??= createHash("sha256");
    this.#hash.update(bytes);
  }

  /** Ends the chunk: whether `signature`, 64 hex digits, is its own. */
  endChunk(signature: string): boolean {
    const digest = this.#hash?.digest("hex") ?? EMPTY_DIGEST;
    this.#hash = undefined;
    return this.#isNext(signature, {
      name: "AWS4-HMAC-SHA256-PAYLOAD",
      hashes: `${EMPTY_DIGEST}\n${digest}`,
    });
  }

  /** Whether `signature` is that of the trailer, given as `name:value\n` for each of its headers. */
  endTrailer(signature: string, trailer: string): boolean {
    const digest = createHash("sha256").update(new TextEncoder().encode(trailer)).digest("hex");
    return this.#isNext(signature, { name: "AWS4-HMAC-SHA256-TRAILER", hashes: digest });
  }

  #isNext(signature: string, { name, hashes }: { name: string; hashes: string }): boolean {
    const { key, time, scope } = this.#signing;
    const text = `${name}\n${time}\n${scope}\n${this.#previous}\n${hashes}`;
    this.#previous = signature;
    return signatureIs(key.sign(text), signature);
  }
}

const TRAILER_SIGNATURE = "x-amz-trailer-signature";

interface TrailerRules {
  /** The header that x-amz-trailer announces, in lower case; undefined if it announces none. */
  readonly announced: string | undefined;
  /** Says what is wrong with a value. */
  readonly valueFault: (value: string) => string | undefined;
  /** Set if the trailer is signed. */
  readonly signatures: ChunkSignatures | undefined;
}

/** The headers behind the last chunk of an aws-chunked body. Throws MalformedTrailerError and SignatureDoesNotMatch. */
export class Trailer {
  readonly #rules: TrailerRules;
  #value: string | undefined;
  #canonical = "";
  #signature: string | undefined;
  #ended = false;

  constructor(rules: TrailerRules) {
    this.#rules = rules;
  }

  /** The value of the announced header, once it has come. */
  get value(): string | undefined {
    return this.#value;
  }

  /** Whether all that must come has come, or the empty line that is its end. Else the body was cut off. */
  get isComplete(): boolean {
    const { announced, signatures } = this.#rules;
    const lacks =
      (announced !== undefined && this.#value === undefined) || (signatures && this.#signature === undefined);
    return !lacks || this.#ended;
  }

  /** The next line, without its end. Empty lines come anywhere: clients differ in that. */
  line(text: string): void {
    if (text === "") {
      this.#ended = true;
      return;
    }
    const colon = text.indexOf(":");
    if (colon < 1) throw malformed("a line is not '<name>:<value>'");
    const name = text.slice(0, colon).trim().toLowerCase();
    const value = text.slice(colon + 1).trim();
    if (this.#signature !== undefined) throw malformed(`'${name}' comes after ${TRAILER_SIGNATURE}`);
    if (name === TRAILER_SIGNATURE && this.#rules.signatures) {
      if (!SIGNATURE.test(value)) throw malformed(`${TRAILER_SIGNATURE} is not 64 lower-case hex digits`);
      this.#signature = value;
    } else this.#takeHeader(name, value);
  }

  /** Call it at the end of the body. */
  end(): void {
    const { announced, signatures } = this.#rules;
    if (announced !== undefined && this.#value === undefined) {
      throw malformed(`x-amz-trailer announces '${announced}', which did not come`);
    }
    if (!signatures) return;
    if (this.#signature === undefined) throw malformed(`it has no ${TRAILER_SIGNATURE}`);
    if (!signatures.endTrailer(this.#signature, this.#canonical)) {
      throw s3Error.SignatureDoesNotMatch(
        `${TRAILER_SIGNATURE} is not the one that the trailer has with the secret key.`,
      );
    }
  }

  #takeHeader(name: string, value: string): void {
    if (name !== this.#rules.announced) throw malformed(`'${name}' is not announced by x-amz-trailer`);
    if (this.#value !== undefined) throw malformed(`'${name}' comes twice`);
    const fault = this.#rules.valueFault(value);
    if (fault !== undefined) throw s3Error.InvalidRequest(fault);
    this.#value = value;
    this.#canonical += `${name}:${value}\n`;
  }
}

function malformed(what: string): S3Error {
  return s3Error.MalformedTrailerError(`The trailer of the aws-chunked body is malformed: ${what}.`);
}
