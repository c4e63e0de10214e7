import type { BucketAddress } from "../../protocol/names.ts";
import type { Caller, Context } from "../app.ts";
import type { Permission } from "../core/permissions.ts";
import type { BesideTree, BucketTree } from "./bucket-tree.ts";

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
  /** Whether a proxy stands between us and the client that compresses answers whose type looks compressible. */
  readonly compressingProxy: boolean;
}

export interface BucketRequest extends ServiceRequest {
  /** As the client wrote it. */
  readonly bucket: string;
  readonly address: BucketAddress;
  readonly tree: BucketTree;
  readonly branch: BesideTree;
}

export interface ObjectRequest extends BucketRequest {
  /** A path that the tree can hold. */
  readonly key: string;
}

/** A request to a multipart upload: its id names it, and the key may stand in the path, or not (spec §4.2). */
export interface UploadRequest extends BucketRequest {
  /** As sent, whatever it is; "" where none is. */
  readonly uploadId: string;
  /** As the path has it; undefined where it has none. */
  readonly key: string | undefined;
  /** The request's URL without its query. */
  readonly resource: string;
}

/**
 * One S3 operation. What it does not declare is refused before it is called, so that nothing which a client asked
 * for is ignored in silence.
 */
export interface Operation<Request> {
  readonly permission: Permission;
  /** Query parameters that it understands. */
  readonly query?: readonly string[];
  /** `x-amz-*` headers that it understands; one that ends in `*` stands for all with that beginning. */
  readonly takes?: readonly string[];
  /** Other headers that mean something to S3 here, but not yet to us. */
  readonly refuses?: readonly string[];
  /** It has no meaning for the bucket of an open commit: what to do instead. */
  readonly notOnOpenCommit?: string;
  /** It answers XML and may take minutes: its client is kept waiting, and may hear of an error in a 200 (see keep-waiting.ts). */
  readonly mayTakeLong?: true;
  /** Answers what went well; throws S3Error for all else. */
  handle(request: Request): Promise<Response>;
}
