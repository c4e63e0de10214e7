import { type FileHandle, rm } from "node:fs/promises";
import type { ContentId } from "../../protocol/content.ts";
import { writeAt } from "../lib/write-at.ts";
import { openIncoming } from "./fetch.ts";

/** A copy of a content that is made while it passes by. If it can't be made, on a full disk, nobody hears of it. */
export class PassingCopy {
  readonly #path: string;
  readonly #content: ContentId;
  #file: FileHandle | undefined;
  #position = 0;

  constructor(path: string, content: ContentId) {
    this.#path = path;
    this.#content = content;
  }

  async open(): Promise<void> {
    this.#file = await openIncoming(this.#path, this.#content).catch(() => undefined);
  }

  /** The next bytes. */
  async write(bytes: Buffer): Promise<void> {
    if (!this.#file) return;
    try {
      await writeAt(this.#file, { bytes, position: this.#position });
      this.#position += bytes.length;
    } catch {
      await this.close();
    }
  }

  /** The whole copy, or undefined if it is not whole. */
  get whole(): { readonly path: string; readonly file: FileHandle } | undefined {
    if (!this.#file || this.#position !== this.#content.size) return undefined;
    return { path: this.#path, file: this.#file };
  }

  /** Lets go of the file. */
  async close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
    if (file) await rm(this.#path, { force: true });
  }
}
