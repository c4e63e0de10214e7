import { type FileHandle, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { ListedVersion } from "../../gateway/answers.ts";
import { visibleJson } from "../../output/visible.ts";

/** Characters that are kept before they are written. */
const BUFFER_CHARACTERS = 64 * 1024;

/**
 * A list of versions on disk, of any length, in the order in which they came. Its file has no name from the start, so that nothing
 * is left of it however the program ends.
 */
export class VersionSpool {
  readonly #file: FileHandle;
  #buffer = "";
  #newest = "";
  #versions = 0;
  #files = 0;
  #lastPath: string | undefined;

  static async open(): Promise<VersionSpool> {
    const folder = await mkdtemp(join(tmpdir(), "sluice-erase-"));
    try {
      return new VersionSpool(await open(join(folder, "versions"), "wx+", 0o600));
    } finally {
      await rm(folder, { recursive: true });
    }
  }

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  get versions(): number {
    return this.#versions;
  }

  /** Paths that the versions are of. */
  get files(): number {
    return this.#files;
  }

  async add(version: ListedVersion): Promise<void> {
    this.#versions++;
    if (version.path !== this.#lastPath) this.#files++;
    this.#lastPath = version.path;
    if (version.version > this.#newest) this.#newest = version.version;
    // It escapes what ends a line in Unicode, too, at which lines are split when they are read.
    this.#buffer += `${visibleJson(version)}\n`;
    if (this.#buffer.length >= BUFFER_CHARACTERS) await this.#flush();
  }

  /** Whether the list has a version under the path that it was made for: ids of commits grow. */
  has(version: string): boolean {
    return version <= this.#newest;
  }

  async *read(): AsyncGenerator<ListedVersion> {
    await this.#flush();
    const input = this.#file.createReadStream({ start: 0, autoClose: false });
    for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
      yield JSON.parse(line);
    }
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  async #flush(): Promise<void> {
    if (this.#buffer === "") return;
    await this.#file.appendFile(this.#buffer);
    this.#buffer = "";
  }
}
