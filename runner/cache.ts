import { readFileSync } from "node:fs";
import { type FileHandle, mkdir, open, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { type ContentId, contentName } from "../protocol/content.ts";
import type { BranchAddress } from "../protocol/names.ts";
import { failureOf } from "./client.ts";
import { unlessAborted } from "./concurrency.ts";
import { errorCode } from "./fault.ts";
import type { Gateway } from "./gateway.ts";
import { DamagedContent, ResumableContent, WrongContent } from "./resumable.ts";
import { type Failure, retrying } from "./retry.ts";
import { TreeHash } from "./tree-hash.ts";

/** A content and a branch that has it. */
export interface ContentSource extends BranchAddress {
  readonly content: ContentId;
}

export interface CacheOptions {
  /** Kept between runs and shared by the agents of a data folder. */
  readonly dir: string;
  /** For files that are not whole yet: this agent's own, on the same file system. */
  readonly incoming: string;
  readonly gateway: Pick<Gateway, "content">;
  /** Ends fetches: they outlive the datum that asked first, since others may wait for the same content. */
  readonly kill: AbortSignal;
}

// A damaged body or a failing gateway is asked again this often before the datum fails.
const MAX_TRIES = 5;
const SMALL_BYTES = 64 * 1024;

/**
 * Contents of inputs, each fetched once per node: `<dir>/<xx>/<digest>-<size>`, mode 0444. A file appears there by
 * rename, after its bytes were held to its digest and size, so what is there is whole.
 */
export class Cache {
  readonly #options: CacheOptions;
  readonly #fetches = new Map<string, Promise<void>>();
  #made = 0;

  constructor(options: CacheOptions) {
    this.#options = options;
  }

  /** Where the content is, or will be once `fetch` has ended. */
  pathOf(content: ContentId): string {
    return join(this.#options.dir, content.digest.slice(0, 2), contentName(content));
  }

  /** Gets a content that is not there. Callers that want the same at the same time share one transfer. */
  fetch(source: ContentSource): Promise<void> {
    const name = contentName(source.content);
    const running = this.#fetches.get(name);
    if (running) return running;
    const fetch = this.#fetchWithRetries(source).finally(() => this.#fetches.delete(name));
    this.#fetches.set(name, fetch);
    return fetch;
  }

  /**
   * The bytes of a content that is there and no larger than what a pipe holds. Synchronous: to wait for it would take
   * longer.
   */
  readSmall(content: ContentId): Buffer | undefined {
    if (content.size === 0) return Buffer.alloc(0);
    if (content.size > SMALL_BYTES) return undefined;
    try {
      return readFileSync(this.pathOf(content));
    } catch {
      // It is not there, or `read` says what is wrong.
      return undefined;
    }
  }

  /**
   * A content's bytes: from the cache where it is there, else as they come, and what came to its end is there from
   * then on, if there is room for it. Ends with `signal`.
   */
  async *read(source: ContentSource, signal: AbortSignal): AsyncGenerator<Buffer, void> {
    // Where somebody fetches it, it is not to be fetched twice. How that one fares does not matter.
    const running = this.#fetches.get(contentName(source.content));
    if (running) await unlessAborted(running, signal).catch(() => signal.throwIfAborted());
    const file = await openIfThere(this.pathOf(source.content));
    if (file) yield* file.createReadStream() as AsyncIterable<Buffer>;
    else yield* this.#readThrough(source, signal);
  }

  async *#readThrough(source: ContentSource, signal: AbortSignal): AsyncGenerator<Buffer, void> {
    const { gateway } = this.#options;
    const temporary = this.#temporary();
    const bytes = new ResumableContent(source.content, () => gateway.content(source, signal));
    const next = () => retrying(() => bytes.next(), { signal, classify, maxTransient: MAX_TRIES });
    const file = await open(temporary, "wx", 0o444);
    let whole = true;
    let kept = false;
    try {
      for (let piece = await next(); piece; piece = await next()) {
        whole &&= await writes(file, piece);
        yield piece;
      }
      if (whole) await renameInto(temporary, this.pathOf(source.content));
      kept = whole;
    } finally {
      bytes.close();
      await file.close();
      if (!kept) await rm(temporary, { force: true });
    }
  }

  #temporary(): string {
    this.#made += 1;
    return join(this.#options.incoming, String(this.#made));
  }

  #fetchWithRetries(source: ContentSource): Promise<void> {
    const { kill } = this.#options;
    return retrying(() => this.#fetchOnce(source), { signal: kill, classify, maxTransient: MAX_TRIES });
  }

  async #fetchOnce(source: ContentSource): Promise<void> {
    const { gateway, kill } = this.#options;
    const temporary = this.#temporary();
    try {
      await writeVerified({
        body: await gateway.content(source, kill),
        to: temporary,
        content: source.content,
      });
      await renameInto(temporary, this.pathOf(source.content));
    } finally {
      await rm(temporary, { force: true });
    }
  }
}

function classify(error: unknown): Failure {
  if (error instanceof DamagedContent) return error instanceof WrongContent ? "final" : "transient";
  // Of this machine's disk: full, read-only. Trying again at once does not help.
  if (["ENOSPC", "EROFS", "EACCES", "EDQUOT", "EIO"].includes(errorCode(error) ?? "")) return "final";
  return failureOf(error);
}

async function writeVerified({
  body,
  to,
  content,
}: {
  body: Readable;
  to: string;
  content: ContentId;
}): Promise<void> {
  const hash = new TreeHash();
  const file = await open(to, "wx", 0o444);
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      hash.update(chunk);
      if (hash.size > content.size) throw new DamagedContent(content, `more than ${content.size} bytes came`);
      await file.writeFile(chunk);
    }
  } finally {
    body.destroy();
    await file.close();
  }
  const found = hash.finish();
  if (found.size !== content.size) throw new DamagedContent(content, `${found.size} bytes came`);
  if (found.digest !== content.digest)
    throw new DamagedContent(content, `the bytes have the digest ${found.digest}`);
}

async function writes(file: FileHandle, bytes: Buffer): Promise<boolean> {
  return file.writeFile(bytes).then(
    () => true,
    () => false,
  );
}

async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path);
  } catch (error) {
    if (errorCode(error) !== "ENOENT") throw error;
    return undefined;
  }
}

async function renameInto(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    if (errorCode(error) !== "ENOENT") throw error;
    await mkdir(dirname(to), { recursive: true });
    await rename(from, to);
  }
}

/**
 * Makes the cache folder. Files are not synced to disk one by one, so after a power cut some may be hollow: what
 * an earlier boot of the machine left is dropped. `boot` names the present one.
 */
export async function openCacheDir({ dir, boot }: { dir: string; boot: string }): Promise<void> {
  await mkdir(dir, { recursive: true });
  const mark = join(dir, "boot");
  const before = await readFile(mark, "utf8").catch(() => "");
  if (before === boot) return;
  await rm(dir, { recursive: true, force: true });
  await mkdir(dir, { recursive: true });
  await writeFile(mark, boot);
}
