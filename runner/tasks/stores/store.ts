import type { Readable } from "node:stream";
import type { ContentId } from "../../../protocol/content.ts";
import type { Credentials } from "../credentials.ts";
import type { Destination } from "../destination.ts";

/** Which store to open, and the keys to it. */
export interface StoreRequest {
  readonly destination: Destination;
  /** Of a store other than the vendor's own. */
  readonly endpoint: string | undefined;
  readonly credentials: Credentials;
}

/** An object to put: its bytes, at hand or as a stream, and what they are. */
export interface ObjectPut {
  readonly key: string;
  readonly content: ContentId;
  readonly body: Buffer | Readable;
  readonly signal: AbortSignal;
}

/**
 * An external object store, reached by its vendor's SDK. Each call may be repeated: the same put leaves the same
 * object. Calls throw what the SDK throws.
 */
export interface Store {
  /** Whether the object is there as `put` left it. False if anybody else has written it since. */
  has(object: Pick<ObjectPut, "key" | "content" | "signal">): Promise<boolean>;
  /** Puts the whole object or nothing. Its metadata names its content, for `has`. */
  put(object: ObjectPut): Promise<void>;
  /** Removes the object. Does nothing if there is none. */
  remove(object: Pick<ObjectPut, "key" | "signal">): Promise<void>;
  close(): void;
}

/** Bytes up to which an object is put in one request, from memory. */
export const WHOLE_BYTES = 4 * 1024 * 1024;
/** Bytes of a part of a larger object; more if it would have too many parts. */
const PART_BYTES = 8 * 1024 * 1024;
/** Parts of one object that are on their way, at most. */
export const PARTS_AT_ONCE = 3;

/** Bytes of each part, so that an object of `size` bytes has at most `maxParts`. */
export function partBytes({ size, maxParts }: { size: number; maxParts: number }): number {
  return Math.max(PART_BYTES, Math.ceil(size / maxParts));
}

/** Metadata of an object that says which content it is, as `<digest>-<size>`. */
export const DIGEST_METADATA = "sluice-digest";
