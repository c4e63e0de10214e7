import { manifestBytes } from "./blob-name.ts";
import { deleteManifest } from "./manifest.ts";
import { type BlobStore, deleteEach, type Removed, type UnwantedBlob } from "./port.ts";

/** Most pages of manifests that one call deletes with their chunks: some 250 calls to R2. */
const PAGES = 50;

/**
 * Deletes blobs that nobody wants any more, and with a manifest what it lists. Of many or large manifests, some are left
 * for another call. A blob that can't be deleted, or a manifest that can't be read, holds back itself alone.
 */
export async function removeBlobs(store: BlobStore, unwanted: readonly UnwantedBlob[]): Promise<Removed> {
  const chunks = unwanted.map(({ blob }) => blob).filter((blob) => manifestBytes(blob) === undefined);
  const { gone, held } = await deleteEach(store, chunks);
  let pages = PAGES;
  for (const { blob, borrowed } of unwanted) {
    const length = manifestBytes(blob);
    if (length === undefined) continue;
    // Each that fails counts as a page: otherwise a store that is away would be asked for all of them.
    if (pages <= 0) break;
    try {
      const owner = borrowed ? "borrowed" : "own";
      const deleted = await deleteManifest(store, { blob, length, chunks: owner, mostPages: pages });
      pages -= deleted.pages;
      if (!deleted.done) break;
      gone.push(blob);
    } catch (error) {
      pages--;
      held.push({ blobs: [blob], error });
    }
  }
  return { gone, held };
}
