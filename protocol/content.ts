import { z } from "zod";

/** Content up to this size lives in its branch's own rows, which saves a small file the round trip to the blob store. */
export const INLINE_LIMIT_BYTES = 4096;

/** SHA-256 of nothing: what an empty content, and an empty directory, has for a digest. */
export const EMPTY_DIGEST = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

export const Digest = z.string().regex(/^[0-9a-f]{64}$/, { error: "must be 64 lower-case hex digits" });

/** What a content is: its tree hash (see digest.ts) and its size in bytes. The hash alone is not unique. */
export const ContentId = z.strictObject({ digest: Digest, size: z.int().nonnegative() });
export type ContentId = z.infer<typeof ContentId>;

/** The last path segment of a content's address: `<digest>-<size>`; in quotes, it is the ETag. */
export function contentName({ digest, size }: ContentId): string {
  return `${digest}-${size}`;
}

/** The content that `<digest>-<size>` names, or undefined. */
export function parseContentName(name: string): ContentId | undefined {
  const match = /^([0-9a-f]{64})-(0|[1-9][0-9]{0,15})$/.exec(name);
  return match ? { digest: match[1] as string, size: Number(match[2]) } : undefined;
}

/** A small content that travels inside a message: `bytes` is base64 of exactly `size` bytes. */
export const InlineContent = z.strictObject({
  digest: Digest,
  size: z.int().nonnegative().max(INLINE_LIMIT_BYTES),
  bytes: z.base64(),
});
export type InlineContent = z.infer<typeof InlineContent>;
