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
export interface ObjectPut extends Replaced {
  readonly content: ContentId;
  readonly contentType: string;
  readonly body: Buffer | Readable;
}

/** An object whose present state is to give way. */
interface Replaced {
  readonly key: string;
  /** The version that it must still have; null: it must not be there. */
  readonly version: string | null;
  readonly signal: AbortSignal;
}

/** What was at an object's place when it was asked for. */
export interface Seen {
  /** Tells this state of the object from others; null: there was no object. */
  readonly version: string | null;
  /** The content that a `put` left there. Undefined if there is no object, or if anybody else has written it since. */
  readonly content?: string | undefined;
}

/**
 * An external object store, reached by its vendor's SDK. Each call may be repeated. A write is done only if the object
 * is as it was seen: what was sent before, and comes late, changes nothing any more. Calls throw what the SDK throws.
 */
export interface Store {
  /** The host that is asked. */
  readonly host: string;
  /** A version that no object has. */
  readonly noVersion: string;
  /** False once the store has refused a write because it was conditional: from then on writes are not. */
  readonly takesConditions: boolean;
  look(object: { readonly key: string; readonly signal: AbortSignal }): Promise<Seen>;
  /** Puts the whole object or nothing. Its metadata names its content, for `look`. Throws Outrun if it is not as it was seen. */
  put(object: ObjectPut): Promise<void>;
  /** Removes the object. Does nothing if there is none. Throws Outrun if it is not as it was seen. */
  remove(object: Replaced): Promise<void>;
  close(): void;
}

/** The object is not as it was seen: somebody has written it since. */
export class Outrun extends Error {
  override readonly name = "Outrun";

  constructor() {
    super("it was written by others meanwhile, again and again");
  }
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

/** The content that an object's metadata names, if the object is as long as it. */
export function contentNamed(name: string | undefined, size: number | undefined): string | undefined {
  return name?.endsWith(`-${size}`) ? name : undefined;
}
