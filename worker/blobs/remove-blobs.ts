import { manifestBytes } from "./blob-name.ts";
import { deleteManifest } from "./manifest.ts";
import type { BlobStore, UnwantedBlob } from "./port.ts";

/** Most pages of manifests that one call deletes with their chunks: some 250 calls to R2. */
const PAGES = 50;

/**
 * Deletes blobs that nobody wants any more, and with a manifest what it lists. Returns those that are gone: of many or
 * large manifests, some are left for another call.
 */
export async function removeBlobs(store: BlobStore, unwanted: readonly UnwantedBlob[]): Promise<string[]> {
  const chunks = unwanted.map(({ blob }) => blob).filter((blob) => manifestBytes(blob) === undefined);
  await store.delete(chunks);
  const gone = [...chunks];
  let pages = PAGES;
  for (const { blob, borrowed } of unwanted) {
    const length = manifestBytes(blob);
    if (length === undefined) continue;
    const owner = borrowed ? "borrowed" : "own";
    const deleted = await deleteManifest(store, { blob, length, chunks: owner, mostPages: pages });
    pages -= deleted.pages;
    if (!deleted.done) break;
    gone.push(blob);
  }
  return gone;
}
