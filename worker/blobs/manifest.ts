import { toHex } from "../../protocol/digest.ts";
import { type BlobOwner, manifestBlobName } from "./blob-name.ts";
import type { Chunk, ChunkedBody } from "./content.ts";
import { sha256 } from "./hash/tree-stack.ts";
import type { BlobReader, BlobStore, ByteRange } from "./port.ts";

/** Most bytes of JSON that a list of chunks takes in a row or in one page of a manifest. */
const MANIFEST_BOUND_BYTES = 1024 * 1024;

/**
 * A manifest is a blob of JSON that lists pages; a page is a blob of JSON that lists chunks. With two levels, neither the
 * writer nor a reader holds more than a page. A page of MANIFEST_BOUND_BYTES stands for about 10 GiB.
 */
interface ManifestPage {
  readonly blob: string;
  /** Bytes of JSON. */
  readonly length: number;
  /** Bytes of content that the page's chunks make up. */
  readonly size: number;
}

export interface ChunkListOptions {
  /** Takes the manifests, which belong to `owner`. */
  readonly store: BlobStore;
  readonly owner: BlobOwner;
  /** Bytes of JSON from which the list goes to blobs. Absent: the store's bound. */
  readonly bound?: number;
}

/** Collects a content's chunks; a list that gets too long for a row goes to a manifest, page by page. */
export class ChunkList {
  readonly #options: ChunkListOptions;
  readonly #pages: ManifestPage[] = [];
  #chunks: Chunk[] = [];
  #jsonBytes = 2;

  constructor(options: ChunkListOptions) {
    this.#options = options;
  }

  async add(chunk: Chunk): Promise<void> {
    this.#chunks.push(chunk);
    this.#jsonBytes += JSON.stringify(chunk).length + 1;
    const { bound = this.#options.store.manifestBound ?? MANIFEST_BOUND_BYTES } = this.#options;
    if (this.#jsonBytes > bound) await this.#spill();
  }

  async finish(): Promise<ChunkedBody> {
    if (this.#pages.length === 0) return { kind: "chunks", chunks: this.#chunks };
    if (this.#chunks.length > 0) await this.#spill();
    return { kind: "manifest", ...(await this.#write(this.#pages)) };
  }

  async #spill(): Promise<void> {
    const size = this.#chunks.reduce((sum, chunk) => sum + chunk.length, 0);
    this.#pages.push({ ...(await this.#write(this.#chunks)), size });
    this.#chunks = [];
    this.#jsonBytes = 2;
  }

  async #write(list: readonly unknown[]): Promise<{ blob: string; length: number }> {
    const { store, owner } = this.#options;
    const json = new TextEncoder().encode(JSON.stringify(list));
    const blob = manifestBlobName({ digest: toHex(sha256(json)), size: json.length }, owner);
    await store.put(blob, json);
    return { blob, length: json.length };
  }
}

/** A chunk and where in the content it starts. */
export interface PlacedChunk {
  readonly start: number;
  readonly chunk: Chunk;
}

/** The chunks of a content in order. Pages that end at or before `from` are not read. */
export async function* chunksFrom(
  store: BlobReader,
  { body, from }: { body: ChunkedBody; from: number },
): AsyncGenerator<PlacedChunk> {
  if (body.kind === "chunks") return yield* placed(body.chunks, 0);
  let start = 0;
  for (const page of await readJson<ManifestPage[]>(store, body)) {
    if (start + page.size > from) yield* placed(await readJson<Chunk[]>(store, page), start);
    start += page.size;
  }
}

/** The bytes [from, to) of a chunk. */
export interface ChunkPart {
  readonly chunk: Chunk;
  readonly from: number;
  readonly to: number;
}

/** The parts of chunks that make up a range of a content, in order. */
export async function* chunksWithin(
  store: BlobReader,
  { body, range }: { body: ChunkedBody; range: ByteRange },
): AsyncGenerator<ChunkPart> {
  const end = range.offset + range.length;
  for await (const { start, chunk } of chunksFrom(store, { body, from: range.offset })) {
    if (start >= end) return;
    const from = Math.max(0, range.offset - start);
    const to = Math.min(chunk.length, end - start);
    if (from < to) yield { chunk, from, to };
  }
}

/** A blob of JSON: a manifest, or one of its pages. */
export interface JsonBlob {
  readonly blob: string;
  readonly length: number;
}

/** The pages of a manifest; undefined if the manifest is not there. */
export async function manifestPages(store: BlobReader, manifest: JsonBlob): Promise<JsonBlob[] | undefined> {
  return await readIfThere<ManifestPage[]>(store, manifest);
}

/** The blobs that a page names; undefined if the page is not there. */
export async function pageBlobs(store: BlobReader, page: JsonBlob): Promise<string[] | undefined> {
  const chunks = await readIfThere<Chunk[]>(store, page);
  return chunks && [...new Set(chunks.map(({ blob }) => blob))];
}

interface DeletedManifest {
  readonly blob: string;
  /** Bytes of JSON. */
  readonly length: number;
  /** Whether the chunks that it lists go with it, or belong to others. */
  readonly chunks: "own" | "borrowed";
  /** Most pages that are deleted now. */
  readonly mostPages: number;
}

/**
 * Deletes a manifest with its pages and its chunks. What lists others goes after them, so that after a crash the rest is
 * still found. Returns how many pages are gone now, and whether that was all.
 */
export async function deleteManifest(
  store: BlobStore,
  { blob, length, chunks, mostPages }: DeletedManifest,
): Promise<{ pages: number; done: boolean }> {
  const pages = (await readIfThere<ManifestPage[]>(store, { blob, length })) ?? [];
  let deleted = 0;
  for (const page of pages) {
    if (deleted >= mostPages) return { pages: deleted, done: false };
    const listed = await readIfThere<Chunk[]>(store, page);
    // It went before a crash, or in an earlier round.
    if (!listed) continue;
    deleted++;
    if (chunks === "own") await store.delete([...new Set(listed.map((chunk) => chunk.blob))]);
    await store.delete([page.blob]);
  }
  await store.delete([blob]);
  return { pages: deleted, done: true };
}

function* placed(chunks: readonly Chunk[], from: number): Generator<PlacedChunk> {
  let start = from;
  for (const chunk of chunks) {
    yield { start, chunk };
    start += chunk.length;
  }
}

/** Reads JSON that this file wrote. */
async function readJson<T>(
  store: BlobReader,
  { blob, length }: { blob: string; length: number },
): Promise<T> {
  const found = await readIfThere<T>(store, { blob, length });
  if (found === undefined) throw new MissingBlobError(blob);
  return found;
}

async function readIfThere<T>(
  store: BlobReader,
  { blob, length }: { blob: string; length: number },
): Promise<T | undefined> {
  const stream = await store.get(blob, { offset: 0, length });
  return stream === null ? undefined : await new Response(stream).json<T>();
}

/** A name points at nothing: this never happens while the invariants hold. */
export class MissingBlobError extends Error {
  constructor(blob: string) {
    super(`blob ${blob} is missing from the blob store`);
    this.name = "MissingBlobError";
  }
}
