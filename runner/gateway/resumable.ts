import type { Readable } from "node:stream";
import { type ContentId, contentName } from "../../protocol/content.ts";
import { messageOf } from "../lib/fault.ts";
import { TreeHash } from "../lib/tree-hash.ts";
import { type Failure, failureOf } from "./client.ts";
import type { ContentSource, Gateway } from "./gateway.ts";
import { retrying } from "./retry.ts";

/** The bytes that came are not the content that was asked for. */
export class DamagedContent extends Error {
  override readonly name = "DamagedContent";

  constructor(content: ContentId, how: string) {
    super(`content ${contentName(content)} came damaged: ${how}`);
  }
}

/**
 * A content's bytes, piece by piece. If a piece can't be had, asking again goes on behind the last one: the bytes
 * come anew from their source, and those that were handed out before are skipped.
 */
export class ResumableContent {
  readonly #content: ContentId;
  readonly #open: () => Promise<Readable>;
  readonly #hash = new TreeHash();
  #body: Readable | undefined;
  #pieces: AsyncIterator<Buffer> | undefined;
  /** Bytes of the present body so far. */
  #position = 0;

  constructor(content: ContentId, open: () => Promise<Readable>) {
    this.#content = content;
    this.#open = open;
  }

  /** The next bytes; undefined after the last ones, which proves that all of them were the content. Throws DamagedContent, and what the source throws. */
  async next(): Promise<Buffer | undefined> {
    try {
      const pieces = this.#pieces ?? (await this.#begin());
      for (;;) {
        const { done, value } = await pieces.next();
        if (done) return this.#end();
        // The part of the piece that was not handed out before.
        const fresh = value.subarray(Math.max(0, this.#hash.size - this.#position));
        this.#position += value.length;
        if (fresh.length > 0) return this.#handOut(fresh);
      }
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Lets go of the source. Safe to call at any time. */
  close(): void {
    this.#body?.destroy();
    this.#body = undefined;
    this.#pieces = undefined;
  }

  async #begin(): Promise<AsyncIterator<Buffer>> {
    this.#position = 0;
    this.#body = await this.#open();
    this.#pieces = this.#body[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    return this.#pieces;
  }

  #handOut(bytes: Buffer): Buffer {
    const { size } = this.#content;
    if (this.#hash.size + bytes.length > size) {
      throw new DamagedContent(this.#content, `more than ${size} bytes came`);
    }
    this.#hash.update(bytes);
    return bytes;
  }

  #end(): undefined {
    const { size, digest } = this.#content;
    if (this.#position < size) throw new DamagedContent(this.#content, `${this.#position} bytes came`);
    const found = this.#hash.finish();
    if (found.digest === digest) return undefined;
    throw new WrongContent(this.#content, `the bytes have the digest ${found.digest}`);
  }
}

/** Damaged, and the bytes were handed out already: another try could not mend it. */
export class WrongContent extends DamagedContent {}

type Contents = Pick<Gateway, "content">;

/** A content could not be read to its end, or its bytes are not what its name says. `failure`: whether reading it anew may help. */
export class ContentBroken extends Error {
  override readonly name = "ContentBroken";
  readonly failure: Failure;

  constructor(content: ContentId, cause: unknown) {
    super(`content ${contentName(content)} could not be read: ${messageOf(cause)}`);
    this.failure = cause instanceof WrongContent ? "transient" : "final";
  }
}

const MAX_TRIES = 5;

/**
 * The bytes of a content, as they come from the gateway. If the connection breaks, they go on behind the last one. Ends
 * well only if they have the content's digest and size, so that a reader who came to the end has them right. Throws
 * ContentBroken, and what `signal` is aborted with.
 */
export async function* contentBytes(
  gateway: Contents,
  source: ContentSource,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const { content } = source;
  if (content.size === 0) return;
  const bytes = new ResumableContent(content, () => gateway.content(source, signal));
  const next = () => retrying(() => bytes.next(), { signal, classify, maxTransient: MAX_TRIES });
  try {
    for (let piece = await next(); piece; piece = await next()) yield piece;
  } catch (error) {
    signal.throwIfAborted();
    throw new ContentBroken(content, error);
  } finally {
    bytes.close();
  }
}

function classify(error: unknown): Failure {
  if (error instanceof WrongContent) return "final";
  return error instanceof DamagedContent ? "transient" : failureOf(error);
}
