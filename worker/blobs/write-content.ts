import { waitUntil } from "cloudflare:workers";
import { type ContentId, INLINE_LIMIT_BYTES } from "../../protocol/content.ts";
import { toHex } from "../../protocol/digest.ts";
import type { ChecksumAlgorithm } from "../core/checksums.ts";
import { type BlobOwner, chunkBlobName, newWrite } from "./blob-name.ts";
import { BodyReader, type ByteSource } from "./body-reader.ts";
import { type ByteBudget, isolateBudget } from "./budget.ts";
import { BufferPool, ChunkFlow } from "./chunk-flow.ts";
import type { Body, Content } from "./content.ts";
import { ContentHasher, type ContentHashes, hashSmall, type WantedHashes } from "./hash/content-hasher.ts";
import { encodeLeaves } from "./hash/leaves.ts";
import { ChunkList } from "./manifest.ts";
import type { BlobStore } from "./port.ts";

/** Most bytes in one chunk, which is one blob. A multiple of LEAF_BYTES. */
export const CHUNK_BYTES = 4 * 1024 * 1024;
/** How much of a body is read before it takes any of the isolate's budget. More than INLINE_LIMIT_BYTES. */
const HEAD_BYTES = 2 * INLINE_LIMIT_BYTES;

type Bytes = Uint8Array<ArrayBuffer>;

export interface WriteOptions {
  readonly store: BlobStore;
  /** Called at most once, before the first blob, if the content turns out larger than INLINE_LIMIT_BYTES. */
  readonly openUpload: () => Promise<{ readonly upload: string; readonly uid: string }>;
  /** Called while bytes come, well before `uploadLeaseMs` have passed since the opening or the last renewal. */
  readonly renewUpload?: (upload: string) => Promise<void>;
  readonly uploadLeaseMs?: number;
  /** How many bytes the sender says will come. */
  readonly declaredSize?: number;
  readonly expect?: ExpectedHashes;
  /** The additional checksum that is wanted of the content. */
  readonly checksum?: ChecksumAlgorithm;
  /** Set: small content goes to a blob as well, and empty content is an empty list of chunks. */
  readonly inline?: "never";
  readonly now: () => number;
  /** A body that brings nothing for so long is given up, in milliseconds. */
  readonly idleMs: number;
  /** Bytes of JSON from which the list of chunks goes to a manifest. */
  readonly manifestBound?: number;
  /** What the upload's buffers are counted against. */
  readonly budget?: ByteBudget;
}

/** Hashes that the sender stated, and that the whole content must have. */
export interface ExpectedHashes {
  /** 16 bytes. */
  readonly md5?: Uint8Array;
  /** Plain SHA-256, lower-case hex. */
  readonly sha256?: string;
  readonly digest?: ContentId;
  /** `value`: base64, or null if none came. Called when the body has ended, because the value may come behind it. */
  readonly checksum?: { readonly algorithm: ChecksumAlgorithm; readonly value: () => string | null };
}

export type WriteFailure =
  | "incomplete-body"
  | "body-too-long"
  | "request-timeout"
  | "md5-mismatch"
  | "sha256-mismatch"
  | "checksum-mismatch"
  | "digest-mismatch";

/** `upload` is what `openUpload` opened, also on failure, for the caller to abort; null if it was not needed. */
export type WriteResult =
  | {
      readonly ok: true;
      readonly content: Content;
      /** Base64; null if none was wanted. */
      readonly checksum: string | null;
      readonly upload: string | null;
    }
  | { readonly ok: false; readonly reason: WriteFailure; readonly upload: string | null };

/**
 * Takes in a body. Small content comes back with its bytes. Larger content is cut into chunks, which are in the store
 * when this returns. Nothing is named here: a crash, a failure or a sender that goes away leaves blobs of an upload that
 * never commits. Holds at most as many chunks in flight as the store
 * wants, and one filling. Rejects if the store or a callback does, with a DiskFullError before anything is read if the
 * store admits nothing.
 */
export async function writeContent(source: ByteSource | null, options: WriteOptions): Promise<WriteResult> {
  return await new ContentWrite(source ?? NO_BYTES, options).run();
}

const NO_BYTES: ByteSource = { read: async (space) => space.subarray(0, 0), cancel: async () => {} };

const chunkPool = new BufferPool(CHUNK_BYTES);

class ContentWrite {
  readonly #options: WriteOptions;
  readonly #wanted: WantedHashes;
  readonly #reader: BodyReader;
  #received = 0;
  #owner: BlobOwner | null = null;
  #leasedAt = 0;

  constructor(source: ByteSource, options: WriteOptions) {
    const { expect, checksum } = options;
    this.#options = options;
    this.#wanted = {
      md5: expect?.md5 !== undefined,
      sha256: expect?.sha256 !== undefined,
      checksums: [checksum, expect?.checksum?.algorithm].filter((wanted) => wanted !== undefined),
    };
    this.#reader = new BodyReader(source, options);
  }

  async run(): Promise<WriteResult> {
    try {
      // What is larger than a row is admitted by the store, blob by blob.
      await this.#options.store.admit?.(INLINE_LIMIT_BYTES);
      const head = await this.#readHead();
      const most = this.#options.inline === "never" ? 0 : INLINE_LIMIT_BYTES;
      return head.length <= most ? this.#keepInRow(head) : await this.#writeChunks(head);
    } finally {
      await this.#reader.close();
    }
  }

  /** Reads enough of the body to decide whether it is inline. A body that is declared small is read in one go. */
  async #readHead(): Promise<Bytes> {
    const { declaredSize = INLINE_LIMIT_BYTES + 1 } = this.#options;
    if (declaredSize > INLINE_LIMIT_BYTES) {
      return await this.#fill(new Uint8Array(HEAD_BYTES), { filled: 0, atLeast: INLINE_LIMIT_BYTES + 1 });
    }
    const bytes = await this.#reader.read(new Uint8Array(declaredSize + 1), declaredSize + 1);
    this.#received = bytes.length;
    return bytes;
  }

  #keepInRow(head: Bytes): WriteResult {
    const failure = this.#bodyFailure();
    if (failure !== null) return this.#failed(failure);
    const hashes = hashSmall(head, this.#wanted);
    if (this.#options.inline === "never") return this.#settled(hashes, { kind: "chunks", chunks: [] });
    return this.#settled(hashes, { kind: "inline", bytes: head.slice() });
  }

  async #writeChunks(head: Bytes): Promise<WriteResult> {
    const owner = await this.#openUpload();
    const { store, budget = isolateBudget } = this.#options;
    const flow = new ChunkFlow({ budget, pool: chunkPool, putsAtOnce: store.putsAtOnce ?? 1 });
    const done = this.#sendChunks(head, { owner, flow }).finally(() => flow.close());
    // The platform may drop a request whose sender is gone; this one must first give back what it took of the budget.
    waitUntil(done.catch(() => {}));
    return await done;
  }

  async #sendChunks(
    firstHead: Bytes,
    { owner, flow }: { owner: BlobOwner; flow: ChunkFlow },
  ): Promise<WriteResult> {
    const hasher = new ContentHasher(this.#wanted);
    const { store, manifestBound: bound } = this.#options;
    const list = new ChunkList({ store, owner, ...(bound !== undefined && { bound }) });
    let head = firstHead;
    while (head.length > 0 && this.#bodyFailure() === null) {
      const buffer = new Uint8Array(await flow.take(this.#chunkBytes(head.length)));
      buffer.set(head);
      hasher.update(head);
      const chunk = await this.#fill(buffer, { filled: head.length, atLeast: buffer.length, hasher });
      if (this.#bodyFailure() !== null) break;
      const { leaves, digest } = hasher.endChunk();
      const blob = chunkBlobName({ digest, size: chunk.length }, owner);
      await flow.send(chunk, (bytes, together) => store.put(blob, bytes, together));
      await list.add({ blob, offset: 0, length: chunk.length, leaves: encodeLeaves(leaves) });
      // The next buffer is taken only if there is something to put in it.
      head = await this.#fill(new Uint8Array(head.buffer), { filled: 0, atLeast: 1 });
    }
    await flow.arrived();
    const failure = this.#bodyFailure();
    return failure === null ? this.#settled(hasher.finish(), await list.finish()) : this.#failed(failure);
  }

  #settled(hashes: ContentHashes, body: Body): WriteResult {
    const mismatch = mismatchOf(hashes, this.#options.expect ?? {});
    if (mismatch !== null) return this.#failed(mismatch);
    const { checksum: wanted } = this.#options;
    const checksum = (wanted && hashes.checksums.get(wanted)) ?? null;
    return { ok: true, content: { ...hashes.id, body }, checksum, upload: this.#upload };
  }

  #failed(reason: WriteFailure): WriteResult {
    return { ok: false, reason, upload: this.#upload };
  }

  get #upload(): string | null {
    return this.#owner?.upload ?? null;
  }

  /** Reads into a buffer, behind what fills it already, until `atLeast` bytes are in it or the body ends. */
  async #fill(
    buffer: Bytes,
    { filled, atLeast, hasher }: { filled: number; atLeast: number; hasher?: ContentHasher },
  ): Promise<Bytes> {
    let view = buffer.subarray(0, filled);
    while (view.length < atLeast && this.#reader.end === null && !this.#tooLong) {
      // Reading transfers the buffer: from then on the old view is empty.
      const before = view.length;
      const bytes = await this.#reader.read(new Uint8Array(view.buffer, before));
      if (this.#reader.broken) return bytes;
      hasher?.update(bytes);
      this.#received += bytes.length;
      view = new Uint8Array(bytes.buffer, 0, before + bytes.length);
      await this.#keepUploadOpen();
    }
    return view;
  }

  /**
   * How large a buffer the next chunk needs, whose first `head` bytes are here. It has one byte more than should come: the
   * read that brings the last byte then also sees the end.
   */
  #chunkBytes(head: number): number {
    const { declaredSize } = this.#options;
    if (declaredSize === undefined) return CHUNK_BYTES;
    return Math.min(CHUNK_BYTES, declaredSize - this.#received + head + 1);
  }

  get #tooLong(): boolean {
    return this.#received > (this.#options.declaredSize ?? Number.POSITIVE_INFINITY);
  }

  /** What is wrong with the body so far. A body that has not ended is not too short. */
  #bodyFailure(): WriteFailure | null {
    if (this.#tooLong) return "body-too-long";
    if (this.#reader.end === "idle") return "request-timeout";
    if (this.#reader.end === "lost") return "incomplete-body";
    const short = this.#received < (this.#options.declaredSize ?? 0);
    return this.#reader.end === "complete" && short ? "incomplete-body" : null;
  }

  async #openUpload(): Promise<BlobOwner> {
    this.#leasedAt = this.#options.now();
    const { upload, uid } = await this.#options.openUpload();
    this.#owner = { upload, uid, write: newWrite() };
    return this.#owner;
  }

  async #keepUploadOpen(): Promise<void> {
    const { renewUpload, uploadLeaseMs = Number.POSITIVE_INFINITY, now } = this.#options;
    if (this.#upload === null || !renewUpload || now() - this.#leasedAt < uploadLeaseMs / 3) return;
    this.#leasedAt = now();
    await renewUpload(this.#upload);
  }
}

function mismatchOf({ id, ...found }: ContentHashes, expect: ExpectedHashes): WriteFailure | null {
  const { md5, sha256, checksum, digest } = expect;
  if (md5 && (!found.md5 || toHex(md5) !== toHex(found.md5))) return "md5-mismatch";
  if (sha256 !== undefined && sha256 !== found.sha256) return "sha256-mismatch";
  const value = checksum?.value() ?? null;
  if (checksum && value !== null && value !== found.checksums.get(checksum.algorithm))
    return "checksum-mismatch";
  if (digest && (digest.digest !== id.digest || digest.size !== id.size)) return "digest-mismatch";
  return null;
}
