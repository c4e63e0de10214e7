import { mkdir, open, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { type ContentId, contentName } from "../protocol/content.ts";
import type { BranchAddress } from "../protocol/names.ts";
import { failureOf } from "./client.ts";
import { errorCode } from "./fault.ts";
import type { Gateway } from "./gateway.ts";
import { type Failure, retrying } from "./retry.ts";
import { TreeHash } from "./tree-hash.ts";

/** A content and a branch that has it. */
export interface ContentSource extends BranchAddress {
  readonly content: ContentId;
}

/** The bytes that came are not the content that was asked for. */
class DamagedContent extends Error {
  override readonly name = "DamagedContent";
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

  #fetchWithRetries(source: ContentSource): Promise<void> {
    const { kill } = this.#options;
    return retrying(() => this.#fetchOnce(source), { signal: kill, classify, maxTransient: MAX_TRIES });
  }

  async #fetchOnce(source: ContentSource): Promise<void> {
    const { gateway, incoming, kill } = this.#options;
    this.#made += 1;
    const temporary = join(incoming, String(this.#made));
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
  if (error instanceof DamagedContent) return "transient";
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
      if (hash.size > content.size) throw damaged(content, `more than ${content.size} bytes came`);
      await file.writeFile(chunk);
    }
  } finally {
    body.destroy();
    await file.close();
  }
  const found = hash.finish();
  if (found.size !== content.size) throw damaged(content, `${found.size} bytes came`);
  if (found.digest !== content.digest) throw damaged(content, `the bytes have the digest ${found.digest}`);
}

function damaged(content: ContentId, how: string): DamagedContent {
  return new DamagedContent(`content ${contentName(content)} came damaged: ${how}`);
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
