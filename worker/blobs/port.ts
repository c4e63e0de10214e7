/** Where immutable bytes live: R2, or (embedded) workerd's disk service. One conformance suite holds both to this. */
export interface BlobStore {
  /** Bytes of JSON from which a list of chunks goes to a blob instead of a row. Absent: the usual bound. */
  readonly manifestBound?: number;
  /** How many puts of one content are worth having under way at once. Absent: one. */
  readonly putsAtOnce?: number;
  /** How many blobs of one content are worth opening before it is their turn to be read. Absent: one. */
  readonly readsAhead?: number;
  /**
   * Rejects with a DiskFullError if no new content is to be taken. `bytes`: how many will go elsewhere than into `put`, which
   * asks by itself. Absent: any is taken.
   */
  admit?(bytes?: number): Promise<void>;
  /**
   * Writes a blob whole; replaces one of that name. Visible only when complete. When it resolves, the blob is there also after
   * a power cut: whoever names it has awaited this.
   */
  put(name: string, bytes: Uint8Array, together?: PutTogether): Promise<void>;
  /** The bytes [offset, offset + length) of a blob, at least one; null if there is none. Rejects if it is too short. */
  get(name: string, range: ByteRange): Promise<ReadableStream<Uint8Array> | null>;
  /**
   * Removes blobs, and passes over those that are not there. When it resolves, they stay away also after a power cut. Each is tried: with a NotDeletedError, all but those that it
   * names are gone. If it rejects with anything else, some of them may be.
   */
  delete(names: readonly string[]): Promise<void>;
  /**
   * Names that begin with `prefix`, which ends in a slash, in their order: those after `after`, at most `limit`. A blob that
   * is written or removed meanwhile is among them or not. All names are of ASCII, so that there is one order.
   */
  list(request: ListBlobs): Promise<BlobPage>;
}

/** What reads need of a store. */
export interface BlobReader extends Pick<BlobStore, "get" | "readsAhead"> {
  /** A stream may not know how long it is, or end too soon as if it were whole: whoever answers with it counts its bytes. */
  readonly isUncounted?: true;
}

/** Several puts of one request, of which a store may do one step together. */
export interface PutTogether {
  /** To be called, if at all, once the bytes of a put are no longer looked at, although the blob may not be there yet. */
  onTaken(): void;
  /** Resolves when `finishAll` was done for a blob: together with those that came while it was under way for others. */
  finish(name: string, finishAll: (names: readonly string[]) => Promise<void>): Promise<void>;
}

export interface ListBlobs {
  readonly prefix: string;
  /** A name with that prefix. Absent: from the first one on. */
  readonly after?: string | undefined;
  readonly limit: number;
}

export interface BlobPage {
  readonly names: string[];
  /** What `after` is for the next page; null if this is the last one. */
  readonly next: string | null;
}

/** A blob that no content has any more. */
export interface UnwantedBlob {
  readonly blob: string;
  /** 1: it is a manifest, and the chunks that it lists belong to others. */
  readonly borrowed: 0 | 1;
}

/** What became of blobs that nobody wants any more. Those of neither list are for another call. */
export interface Removed {
  readonly gone: readonly string[];
  readonly held: readonly HeldBack[];
}

/** Blobs that could not be deleted for one reason. */
export interface HeldBack {
  readonly blobs: readonly string[];
  readonly error: unknown;
}

/** Some blobs could not be deleted. */
export class NotDeletedError extends Error {
  readonly names: readonly string[];

  /** `cause`: why the first of them could not be. */
  constructor(names: readonly string[], cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.name = "NotDeletedError";
    this.names = names;
  }
}

export interface ByteRange {
  readonly offset: number;
  readonly length: number;
}

/** A blob is shorter than its references say: the store lost bytes. */
export class ShortBlobError extends Error {
  constructor(name: string, { offset, length }: ByteRange) {
    super(`blob ${name} does not have the bytes ${offset}-${offset + length - 1}`);
    this.name = "ShortBlobError";
  }
}

/** The store did not take a blob. What the platform says of it is for the log: it calls a full disk an overload. */
export class UnwrittenBlobError extends Error {
  /** Whether it is the disk that has no room. */
  readonly isDiskFull: boolean;

  constructor(name: string, cause: unknown) {
    super(`blob ${name} could not be written: ${cause instanceof Error ? cause.message : String(cause)}`);
    this.name = "UnwrittenBlobError";
    this.isDiskFull = cause instanceof Error && "overloaded" in cause && cause.overloaded === true;
  }
}

/** Nothing new is taken, since the disk has little room left. */
export class DiskFullError extends Error {
  constructor() {
    super("the disk has no room for new files");
    this.name = "DiskFullError";
  }
}

/** The gateway has no file handles left for connections, databases and files. */
export class NoHandlesError extends Error {
  /** `cause`: what the platform says of it. */
  constructor(options?: ErrorOptions) {
    super("the gateway has no file handles left", options);
    this.name = "NoHandlesError";
  }
}

/** Deletes blobs one by one: a manifest takes nothing along. */
export async function deleteEach(
  store: BlobStore,
  blobs: readonly string[],
): Promise<{ readonly gone: string[]; readonly held: HeldBack[] }> {
  try {
    await store.delete(blobs);
    return { gone: [...blobs], held: [] };
  } catch (error) {
    const left = new Set(error instanceof NotDeletedError ? error.names : blobs);
    return { gone: blobs.filter((blob) => !left.has(blob)), held: [{ blobs: [...left], error }] };
  }
}
