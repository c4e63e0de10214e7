import { byteSource } from "../../blobs/body-reader.ts";
import { createChecksum } from "../../blobs/hash/checksum-hasher.ts";
import type { BlobStore } from "../../blobs/port.ts";
import { type ContentToRead, readContent } from "../../blobs/read-content.ts";
import { encodeBase64 } from "../../core/base64.ts";
import type { Checksum, ChecksumAlgorithm } from "../../core/checksums.ts";

const READ_BYTES = 1024 * 1024;

/** The checksum over all bytes of a content, which is read for it from end to end. */
export async function computeChecksum(
  store: BlobStore,
  { algorithm, ...content }: ContentToRead & { readonly algorithm: ChecksumAlgorithm },
): Promise<Checksum> {
  const checksum = createChecksum(algorithm);
  const bytes = await readContent(store, content);
  if (bytes instanceof Uint8Array) checksum.update(bytes);
  else {
    const source = byteSource(bytes);
    let piece = await source.read(new Uint8Array(READ_BYTES), READ_BYTES);
    while (piece.length > 0) {
      checksum.update(piece);
      // Reading transferred the buffer: this one is the same memory.
      piece = await source.read(new Uint8Array(piece.buffer), READ_BYTES);
    }
  }
  return { algorithm, type: "FULL_OBJECT", value: encodeBase64(checksum.digest()) };
}
