import { type BlobStore, type ByteRange, ShortBlobError } from "./port.ts";

/**
 * Blobs as files in a folder that workerd's disk service serves. It writes a temporary file and renames it, so a
 * blob appears whole or not at all; it makes parent folders; it does not fsync (a killed process loses nothing, a
 * power cut may). It refuses path segments that start with a dot, and it holds each folder it lists in memory.
 */
export class DiskBlobStore implements BlobStore {
  readonly #disk: Fetcher;

  constructor(disk: Fetcher) {
    this.#disk = disk;
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    const response = await this.#disk.fetch(address(name), { method: "PUT", body: bytes });
    if (!response.ok) throw new Error(await failure("write", { name, response }));
  }

  async get(name: string, { offset, length }: ByteRange): Promise<ReadableStream<Uint8Array> | null> {
    const headers = { range: `bytes=${offset}-${offset + length - 1}` };
    const response = await this.#disk.fetch(address(name), { headers });
    if (response.status === 404) return null;
    if (!response.ok || response.body === null) throw new Error(await failure("read", { name, response }));
    if (response.headers.get("content-length") !== String(length)) {
      await response.body.cancel();
      throw new ShortBlobError(name, { offset, length });
    }
    return response.body;
  }

  async delete(name: string): Promise<void> {
    const response = await this.#disk.fetch(address(name), { method: "DELETE" });
    if (!response.ok && response.status !== 404) throw new Error(await failure("delete", { name, response }));
  }
}

/** The host part is a filler: the service looks at the path alone. */
function address(name: string): string {
  return `http://disk/${name.split("/").map(encodeURIComponent).join("/")}`;
}

async function failure(
  verb: string,
  { name, response }: { name: string; response: Response },
): Promise<string> {
  return `the disk service could not ${verb} blob ${name}: ${response.status} ${await response.text()}`;
}
