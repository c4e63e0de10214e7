import { type ContentId, contentName } from "../../protocol/content.ts";
import type { BranchAddress } from "../../protocol/names.ts";
import { failureOf } from "../gateway/client.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { Grant } from "../gateway/grant.ts";
import { DamagedContent, ResumableContent, WrongContent } from "../gateway/resumable.ts";
import { type Failure, retrying } from "../gateway/retry.ts";
import { messageOf } from "../lib/fault.ts";

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

export interface ContentRequest {
  readonly address: BranchAddress;
  readonly content: ContentId;
  readonly grant?: Grant | undefined;
  readonly signal: AbortSignal;
}

const MAX_TRIES = 5;

/**
 * The bytes of a content, as they come from the gateway. If the connection breaks, they go on behind the last one. Ends
 * well only if they have the content's digest and size, so that a reader who came to the end has them right. Throws
 * ContentBroken, and what `signal` is aborted with.
 */
export async function* contentBytes(
  gateway: Contents,
  { address, content, grant, signal }: ContentRequest,
): AsyncGenerator<Buffer> {
  if (content.size === 0) return;
  const bytes = new ResumableContent(content, () => gateway.content({ ...address, content, grant }, signal));
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

/** All bytes of a small content, in memory. */
export async function contentBuffer(gateway: Contents, request: ContentRequest): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of contentBytes(gateway, request)) chunks.push(chunk);
  return Buffer.concat(chunks);
}
