import type { BucketAddress } from "../../protocol/names.ts";
import type { Caller, Context } from "../app.ts";
import type { DataPermission } from "../core/permissions.ts";
import type { BesideTree, BucketTree } from "./bucket-tree.ts";
import type { NamedBy } from "./request/address.ts";

/** A request to the service itself. */
export interface ServiceRequest {
  readonly context: Context;
  readonly caller: Caller;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  /** Of a parameter that comes twice, the first counts. */
  readonly query: ReadonlyMap<string, string>;
  readonly body: ReadableStream<Uint8Array> | null;
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number;
  /** Whether the host serves the control API, too: an object must not act there for whoever opens it in a browser. */
  readonly besideApi: boolean;
  /** Whether a proxy stands between us and the client that compresses answers whose type looks compressible. */
  readonly compressingProxy: boolean;
}

export interface BucketRequest extends ServiceRequest {
  /** As the client wrote it. */
  readonly bucket: string;
  readonly address: BucketAddress;
  /** What names buckets in this request. */
  readonly by: NamedBy;
  readonly tree: BucketTree;
  readonly branch: BesideTree;
}

export interface ObjectRequest extends BucketRequest {
  /** A path that the tree can hold. */
  readonly key: string;
}

/** A request to a multipart upload. The upload's id names it; the path may also have the key. */
export interface UploadRequest extends BucketRequest {
  /** As sent, unchecked; "" if none was sent. */
  readonly uploadId: string;
  /** As the path has it; undefined if it has none. */
  readonly key: string | undefined;
  /** The request's URL without its query. */
  readonly resource: string;
}

/** One S3 operation. What it is asked beyond its members (request/members.ts) is refused before it is called. */
export interface Operation<Request> {
  readonly permission: DataPermission;
  /** Set if some requests need more than that: what this one needs. */
  readonly permissionOf?: (query: ReadonlyMap<string, string>) => DataPermission;
  /** Set if it is done without a signature on a public branch, with the query parameters that its members name for it. */
  readonly unsigned?: true;
  /** Set if it has no meaning for the bucket of an open commit, a commit or a tag: says what to do instead. */
  readonly notOnView?: string;
  /** Set if it changes nothing itself, and yet has a meaning only where something can be written. */
  readonly ofWrites?: true;
  /** Set if its good answer says how the object or the part lies encrypted, as S3's does. */
  readonly tellsEncryption?: true;
  /** Set if it only reads, and may begin while the key of its sender is looked up (see auth/read-ahead.ts). */
  readonly readsAhead?: true;
  /** It answers XML and may take minutes: its client is kept waiting, and may hear of an error in a 200 (see keep-waiting.ts). */
  readonly mayTakeLong?: true;
  /** Returns the good answer; throws S3Error for all else. */
  handle(request: Request): Promise<Response>;
}
