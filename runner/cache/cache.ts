import { randomInt } from "node:crypto";
import { type FileHandle, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { type ContentId, contentName } from "../../protocol/content.ts";
import type { ErasedSince } from "../../protocol/runner.ts";
import { type ContentSource, type Gateway, isStale } from "../gateway/gateway.ts";
import { ResumableContent } from "../gateway/resumable.ts";
import { pause, type RetryOptions, retrying } from "../gateway/retry.ts";
import { messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";
import { Arrivals } from "./arrivals.ts";
import { type Entry, entriesOf, linkInto, SHARDS } from "./entries.ts";
import { type Asked, type Coming, type ErasedPlaceFile, Erasures, Underway } from "./erasures.ts";
import { fetchFailure, isFull, NoRoom, openIncoming, PassingCopy, writeVerified } from "./fetch.ts";
import { CacheFiles } from "./files.ts";
import { Room } from "./room.ts";

export interface CacheOptions {
  /** Kept between runs and shared by the agents of a data folder. */
  readonly dir: string;
  /** The folder of those agents, each with a folder `incoming` in its own. */
  readonly agents: string;
  /** For files that are not whole yet: this agent's own, on the same file system. */
  readonly incoming: string;
  /** What the cache may take of the disk, in bytes, beside what running datums hold. */
  readonly maxBytes: number;
  /** Names the present boot of the machine. */
  readonly boot: string;
  readonly gateway: Pick<Gateway, "content">;
  readonly log: Log;
  /** Ends fetches: they outlive the datum that asked first, since others may wait for the same content. */
  readonly kill: AbortSignal;
  /**
   * Where it stands in the gateway's list of erased contents, which heartbeats bring (`ask`, `hear`). Null: nobody tells it, as it
   * goes with its folder when one datum has run.
   */
  readonly erased: { readonly file: Pick<ErasedPlaceFile, "write">; readonly place: string | null } | null;
  /** The wall clock, by which the agents tell what was used last; milliseconds. */
  readonly now?: () => number;
  /** A clock that nobody sets; milliseconds. */
  readonly steady?: () => number;
}

// A damaged body or a failing gateway is asked again this often before the datum fails.
const MAX_TRIES = 5;
const SMALL_BYTES = 64 * 1024;

/**
 * Contents of inputs, each fetched once per node: `<dir>/<xx>/<digest>-<size>`, mode 0444. A file appears there whole,
 * after its bytes were held to its digest and size; what has been written to since, or comes from an earlier boot of
 * the machine, is read again before it is used (see Seals), and a slow scrub reads all of it. Damaged files are
 * fetched anew. What was used least lately goes when the bound is met (see Room); a datum has its own hard link to
 * what it uses, so that nothing that is removed here is taken from it. What was erased at the gateway goes at once (see
 * Erasures); while that is not known, all is fetched as if nothing were here.
 */
export class Cache {
  readonly #options: CacheOptions;
  readonly #files: CacheFiles;
  readonly #room: Room;
  readonly #arrivals = new Arrivals();
  readonly #underway = new Underway();
  readonly #erasures: Erasures | undefined;
  #made = 0;

  constructor(options: CacheOptions) {
    const { now = Date.now, steady = () => performance.now(), erased } = options;
    const { dir, agents, maxBytes, boot, log, kill } = options;
    this.#options = options;
    this.#files = new CacheFiles({ dir, boot, log, now, kill });
    this.#room = new Room({ dir, agents, maxBytes, now });
    this.#erasures =
      erased === null
        ? undefined
        : new Erasures({
            ...erased,
            ...{ files: this.#files, underway: this.#underway, arrivals: this.#arrivals, log },
            now: () => ({ wall: now(), steady: steady() }),
          });
  }

  /** How full it is, as far as it was counted. */
  get use(): Room["use"] {
    return this.#room.use;
  }

  /** What the next heartbeat is to ask about erased contents. */
  ask(): Asked {
    return this.#erasures?.ask() ?? { erasedTo: undefined, at: { wall: 0, steady: 0 } };
  }

  /** What the answer said. Resolves, when what was erased is gone, to whether there is more to ask for at once. Never fails. */
  async hear(asked: Asked, told: ErasedSince | undefined): Promise<boolean> {
    return (await this.#erasures?.hear(asked, told)) ?? false;
  }

  /** The path that the content has if it is there. */
  pathOf(content: ContentId): string {
    return this.#files.pathOf(content);
  }

  /**
   * Makes `target` a file with the content, which can only be read. What is not in the cache is fetched, by one
   * transfer for all who want it at the same time. A content that is too large for the cache is there for them alone.
   */
  async place(
    source: ContentSource,
    { target, signal }: { target: string; signal: AbortSignal },
  ): Promise<void> {
    const { content } = source;
    if (this.#usable && (await this.#files.place(content, target))) return;
    const placed = () =>
      this.#arrivals.use(contentName(content), {
        bring: () => this.#bring(source),
        signal,
        work: async (path) => void (await linkInto(path, target)),
      });
    // It may be on its way for another lease, whose grant is not renewed once that lease is lost: ours may do.
    await placed().catch((error: unknown) => {
      signal.throwIfAborted();
      if (!isStale(error)) throw error;
      return placed();
    });
  }

  /** A content that is there and no larger than a pipe holds. Synchronous, because waiting for it would take longer. */
  readSmall(content: ContentId): Buffer | undefined {
    if (content.size === 0) return Buffer.alloc(0);
    return content.size > SMALL_BYTES || !this.#usable ? undefined : this.#files.readSmall(content);
  }

  /**
   * A content's bytes: from the cache if it is there, else as they come. What came to its end is kept from then on, if
   * there is room for it. Ends with `signal`.
   */
  async *read(source: ContentSource, signal: AbortSignal): AsyncGenerator<Buffer, void> {
    const file = (await this.#openArriving(source, signal)) ?? (await this.#openKept(source.content));
    if (file) yield* file.createReadStream() as AsyncIterable<Buffer>;
    else yield* this.#readThrough(source, signal);
  }

  /** Keeps the cache within its bound and scrubs it, until `signal`. Never fails. */
  async upkeep(signal: AbortSignal): Promise<void> {
    const { dir, log } = this.#options;
    const onFault = (error: unknown) => {
      if (!signal.aborted)
        log.error({ dir, reason: messageOf(error) }, "evicting or scrubbing the cache failed");
    };
    // The bound may be lower than it was when the agent ran before.
    const counted = retrying(() => this.#room.count(0), { signal, ...UPKEEP_RETRY, onRetry: onFault });
    await counted.catch(onFault);
    await scrub({ dir, check: (entry) => this.#files.check(entry, signal), onFault, signal });
  }

  /** Whether what is here may be used: nothing of it was erased that the gateway has told of. */
  get #usable(): boolean {
    return this.#erasures?.upToDate ?? true;
  }

  /** Waits for a fetch that is under way: a content is not fetched twice. Returns undefined if that fetch fails. */
  async #openArriving(source: ContentSource, signal: AbortSignal): Promise<FileHandle | undefined> {
    const name = contentName(source.content);
    if (!this.#arrivals.has(name)) return undefined;
    const use = { bring: () => this.#bring(source), signal, work: (path: string) => open(path) };
    return this.#arrivals.use(name, use).catch(() => {
      signal.throwIfAborted();
      return undefined;
    });
  }

  async #openKept(content: ContentId): Promise<FileHandle | undefined> {
    if (!this.#usable) return undefined;
    const file = await this.#files.open(content);
    if (file) return file;
    const own = this.#temporary();
    if (!(await this.#files.recover(content, own))) return undefined;
    try {
      return await open(own);
    } finally {
      await rm(own, { force: true });
    }
  }

  async *#readThrough(source: ContentSource, signal: AbortSignal): AsyncGenerator<Buffer, void> {
    const { gateway } = this.#options;
    const { content } = source;
    const bytes = new ResumableContent(content, () => gateway.content(source, signal));
    const next = () => retrying(() => bytes.next(), this.#retry(signal));
    const copy = new PassingCopy(this.#temporary(), content);
    const coming = this.#underway.begin(content);
    const roomy = await this.#room.take(content.size);
    let kept = false;
    try {
      if (roomy) await copy.open();
      for (let piece = await next(); piece; piece = await next()) {
        await copy.write(piece);
        yield piece;
      }
      const { whole } = copy;
      if (whole) {
        await this.#files.seal(whole.file, content);
        kept = await this.#keep(whole.path, { content, coming });
      }
    } finally {
      coming.end();
      bytes.close();
      await copy.close();
      if (roomy && !kept) this.#room.giveBack(content.size);
    }
  }

  /** Returns whether it is here now. What is erased while it is being put here is removed by one of the two. */
  async #keep(path: string, { content, coming }: { content: ContentId; coming: Coming }): Promise<boolean> {
    if (coming.erased) return false;
    const kept = await this.#files.keep(content, path);
    if (!coming.erased) return kept;
    await this.#files.remove([content]);
    return false;
  }

  /** Makes a file of ours with the content, from the cache or from the gateway. */
  async #bring(source: ContentSource): Promise<string> {
    const { content } = source;
    const path = this.#temporary();
    if (this.#usable && (await this.#files.recover(content, path))) return path;
    const coming = this.#underway.begin(content);
    const roomy = await this.#room.take(content.size);
    let kept = false;
    try {
      await this.#fetch(source, path);
      kept = roomy && (await this.#keep(path, { content, coming }));
      return path;
    } finally {
      coming.end();
      if (roomy && !kept) this.#room.giveBack(content.size);
    }
  }

  /** Fetches a content. If others have filled the disk, evicts once and tries again. */
  async #fetch(source: ContentSource, path: string): Promise<void> {
    const { content } = source;
    try {
      await this.#fetchTo(path, source);
    } catch (error) {
      if (!isFull(error)) throw error;
      await this.#room.free(content.size);
      await this.#fetchTo(path, source).catch((again: unknown) => {
        throw isFull(again) ? new NoRoom(content, this.#options.incoming) : again;
      });
    }
  }

  async #fetchTo(path: string, source: ContentSource): Promise<void> {
    const { gateway, kill } = this.#options;
    const { content } = source;
    const file = await openIncoming(path, content);
    const write = async () => writeVerified(file, { body: await gateway.content(source, kill), content });
    try {
      await retrying(write, this.#retry(kill));
      await this.#files.seal(file, content);
    } catch (error) {
      await rm(path, { force: true });
      throw error;
    } finally {
      await file.close();
    }
  }

  #retry(signal: AbortSignal): RetryOptions {
    return { signal, classify: fetchFailure, maxTransient: MAX_TRIES };
  }

  #temporary(): string {
    this.#made += 1;
    return join(this.#options.incoming, String(this.#made));
  }
}

/** Whatever keeps the cache from being counted, such as a lack of file handles, may be over later. */
const UPKEEP_RETRY: Pick<RetryOptions, "classify" | "minMs" | "maxMs"> = {
  classify: () => "transient",
  minMs: 1000,
  maxMs: 60_000,
};

/** Between two folders of the 256: all are read in about a day. */
const FOLDER_EVERY_MS = 5 * 60_000;
/** It rests so many times as long as it reads, so that commands notice nothing. */
const REST = 9;

/**
 * Reads the whole cache again, slowly, until `signal`: no seal shows bytes that the disk itself has lost. Begins
 * at a random place, so that a runner that is restarted often still comes to all of it. A folder that can't be read just now is left
 * for the next time.
 */
async function scrub({
  dir,
  check,
  onFault,
  signal,
}: {
  dir: string;
  check: (entry: Entry) => Promise<void>;
  onFault: (error: unknown) => void;
  signal: AbortSignal;
}): Promise<void> {
  for (let turn = randomInt(SHARDS.length); !signal.aborted; turn += 1) {
    await pause(FOLDER_EVERY_MS, signal);
    try {
      for await (const entry of entriesOf(dir, SHARDS[turn % SHARDS.length] ?? "")) {
        if (signal.aborted) return;
        const began = performance.now();
        await check(entry);
        await pause((performance.now() - began) * REST, signal);
      }
    } catch (error) {
      onFault(error);
    }
  }
}
