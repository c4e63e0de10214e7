import { setTimeout } from "node:timers/promises";
import pRetry from "p-retry";
import {
  type ArchiveCounts,
  EXPORT_LEASE_MS,
  ExportBegun,
  ExportedCommits,
  ExportedFiles,
  ExportedTags,
  type FilePlace,
} from "../../protocol/archives.ts";
import { type ContentId, contentName } from "../../protocol/content.ts";
import { type BranchAddress, bucketName } from "../../protocol/names.ts";
import type { Progress } from "../files/progress.ts";
import { branchPath } from "../gateway/address.ts";
import { type Answer, type Client, GatewayError, pagesOf } from "../gateway/client.ts";
import { CliError } from "../output/failure.ts";
import { branchEntry, FIRST_ENTRY, FORMAT, FORMAT_VERSION, type PageKind, pageName } from "./format.ts";
import { ArchiveWriter, type Sink } from "./writer.ts";

/** Contents up to this size are fetched ahead, so many at once. */
const AHEAD_BYTES = 256 * 1024;
const AHEAD = 8;
/** How often the reading of a branch is begun, since it ends if something of the branch is erased. */
const BRANCH_TRIES = 5;
/** How often a content is read whose connection breaks. */
const CONTENT_TRIES = 4;
/** How long the gateway is left alone between two pages of files, of the time that it took over the one before. */
const REST = 2;
/** The longest such rest; milliseconds. A page that took longer waited for something else. */
const MAX_REST_MS = 1000;
/** An export that waits for a large content must not pass for one whose reader is gone; milliseconds. */
const RENEW_EVERY_MS = EXPORT_LEASE_MS / 5;

export interface Exported {
  readonly branches: Readonly<Record<string, ArchiveCounts>>;
  readonly bytes: number;
}

/** Writes branches of a repo with all that is kept of their history. Each is as it was when its turn came. */
export async function exportRepo(
  client: Client,
  {
    repo,
    branches,
    sink,
    progress,
  }: { repo: string; branches: readonly string[]; sink: Sink; progress: Progress },
): Promise<Exported> {
  const writer = new ArchiveWriter(sink);
  await writer.add(FIRST_ENTRY, { format: FORMAT, version: FORMAT_VERSION, repo, branches });
  const counts: Record<string, ArchiveCounts> = {};
  for (const branch of branches) {
    counts[branch] = await exportBranch(client, { address: { repo, branch }, writer, progress });
  }
  await writer.end(counts);
  return { branches: counts, bytes: writer.size };
}

/** What was written of a branch goes if the export of it ends early: no archive has half of one state and half of another. */
async function exportBranch(client: Client, options: BranchExportOptions): Promise<ArchiveCounts> {
  const { writer, address } = options;
  for (let tries = 1; ; tries++) {
    const mark = writer.mark();
    try {
      return await new BranchExport(client, options).run();
    } catch (error) {
      if (!(error instanceof ExportEnded)) throw error;
      if (tries === BRANCH_TRIES || !writer.canGoBack) {
        throw new CliError(
          `the export of the branch '${address.branch}' ended before all of it was read, so there is no archive: ${error.message}`,
          { code: "ExportEnded" },
        );
      }
      await writer.goBack(mark);
    }
  }
}

/** An export that was begun is there no more, or a content that it has. */
class ExportEnded extends Error {}

interface BranchExportOptions {
  readonly address: BranchAddress;
  readonly writer: ArchiveWriter;
  readonly progress: Progress;
}

class BranchExport {
  readonly #client: Client;
  readonly #options: BranchExportOptions;
  readonly #counts = { commits: 0, tags: 0, files: 0 };
  readonly #pages = { commits: 0, tags: 0, files: 0 };

  constructor(client: Client, options: BranchExportOptions) {
    this.#client = client;
    this.#options = options;
  }

  async run(): Promise<ArchiveCounts> {
    const { address, writer, progress } = this.#options;
    const exports = `${branchPath(address)}/exports`;
    const begun = await this.#client.post(ExportBegun, exports, { repeatable: true });
    const path = `${exports}/${begun.export}`;
    progress.begin(`exporting ${address.branch}`, begun.rows);
    const renewing = setInterval(() => void this.#renew(path), RENEW_EVERY_MS);
    try {
      await writer.add(branchEntry(address.branch), begun.branch);
      await this.#commits(path);
      await this.#tags(path);
      await this.#files(path);
      // What was erased since the last page was read is in the archive otherwise.
      await this.#commitsAfter(path, begun.branch.head);
    } catch (error) {
      const isGone = error instanceof GatewayError && error.status === 404;
      throw isGone ? new ExportEnded(error.message) : error;
    } finally {
      clearInterval(renewing);
      progress.end();
      // It would end by itself, and hold back till then what the branch gives back.
      await this.#client.delete(path).catch(() => {});
    }
    return this.#counts;
  }

  /** Any page will do. If it fails, the next one that is needed tells. */
  async #renew(path: string): Promise<void> {
    await this.#commitsAfter(path, Number.MAX_SAFE_INTEGER).catch(() => {});
  }

  #commitsAfter(path: string, after: number): Promise<ExportedCommits> {
    return this.#client.get(ExportedCommits, `${path}/commits`, { after });
  }

  async #commits(path: string): Promise<void> {
    for await (const { commits } of pagesOf((after: number | undefined) =>
      this.#commitsAfter(path, after ?? 0),
    )) {
      if (commits.length > 0) await this.#add("commits", { commits }, commits.length);
    }
  }

  async #tags(path: string): Promise<void> {
    for await (const { tags } of this.#client.pages(ExportedTags, `${path}/tags`)) {
      if (tags.length > 0) await this.#add("tags", { tags }, tags.length);
    }
  }

  /**
   * While a page is written, the next one is on its way. An export is in no hurry: for twice as long as the gateway took over
   * a page it is left alone before the next one, so that others have two thirds of its time at least.
   */
  async #files(path: string): Promise<void> {
    const ask = async (
      place: FilePlace,
      restMs: number,
    ): Promise<{ page: ExportedFiles; tookMs: number }> => {
      await setTimeout(restMs);
      const askedAt = performance.now();
      const query = { after: place.path, born: place.born };
      const page = await this.#client.get(ExportedFiles, `${path}/files`, query);
      return { page, tookMs: performance.now() - askedAt };
    };
    let place: FilePlace | null = { path: "", born: 0 };
    let coming = ask(place, 0);
    while (place !== null) {
      const { page, tookMs } = await coming;
      place = page.next;
      if (place !== null) {
        coming = ask(place, Math.min(REST * tookMs, MAX_REST_MS));
        coming.catch(() => {});
      }
      await this.#page(page);
    }
  }

  async #page(page: ExportedFiles): Promise<void> {
    const at = await this.#contents(page);
    const { files, contents } = page;
    if (files.length > 0) await this.#add("files", { files, contents, at }, files.length);
    this.#options.progress.advance(files.length);
  }

  /** Writes the contents of a page that are not in it. Returns where they begin. */
  async #contents({ files, contents }: ExportedFiles): Promise<Record<string, number>> {
    const { writer } = this.#options;
    const inPage = new Set(contents.map(contentName));
    const wanted = new Map<string, ContentId>();
    const at: Record<string, number> = {};
    for (const [path, , , digest, size, , more] of files) {
      const content = { digest, size };
      const name = contentName(content);
      if (path.endsWith("/") || more?.deletion || inPage.has(name)) continue;
      const offset = writer.offsetOf(content);
      if (offset === undefined) wanted.set(name, content);
      else at[name] = offset;
    }
    const queue = [...wanted.values()];
    const ahead = new Map<string, Promise<Buffer>>();
    const fetchAhead = (from: number) => {
      for (const content of queue.slice(from, from + AHEAD)) {
        const name = contentName(content);
        if (content.size > AHEAD_BYTES || ahead.has(name)) continue;
        const bytes = this.#bytes(content);
        bytes.catch(() => {});
        ahead.set(name, bytes);
      }
    };
    for (const [index, content] of queue.entries()) {
      fetchAhead(index);
      const name = contentName(content);
      const bytes = ahead.get(name);
      ahead.delete(name);
      at[name] = bytes ? await writer.addContent(content, [await bytes]) : await this.#addLarge(content);
    }
    return at;
  }

  /** If the connection breaks in the middle of it, what came of it is forgotten, and it is read again. */
  async #addLarge(content: ContentId): Promise<number> {
    const { writer } = this.#options;
    for (let tries = 1; ; tries++) {
      // Before its header is written, it is known to be there.
      const { body } = await this.#open(content);
      const mark = writer.mark();
      const reading = new Reading(body);
      try {
        return await writer.addContent(content, reading.pieces());
      } catch (error) {
        // A disk that is full is no fault of the content.
        if (error !== reading.failure || !writer.canGoBack) throw error;
        if (tries === CONTENT_TRIES) throw this.#unreadable(error);
        await writer.goBack(mark);
      }
    }
  }

  async #open(content: ContentId): Promise<Answer> {
    const path = `/api/v1${branchPath(this.#options.address)}/contents/${contentName(content)}`;
    try {
      return await this.#client.send({ method: "GET", path });
    } catch (error) {
      if (error instanceof GatewayError && error.status === 500) throw this.#unreadable(error);
      throw error;
    }
  }

  /** The store may have lost bytes: the gateway does not say of what. */
  #unreadable(error: unknown): CliError {
    const bucket = bucketName(this.#options.address);
    const why = error instanceof Error ? error.message : String(error);
    return new CliError(
      `a content of '${bucket}' can't be read: 'sluice fsck ${bucket}' says which files have it; erase those to export the others (${why})`,
    );
  }

  /** A small content, asked for again if the connection breaks in the middle of it. */
  #bytes(content: ContentId): Promise<Buffer> {
    const read = async () => Buffer.from(await (await this.#open(content)).body.arrayBuffer());
    const shouldRetry = ({ error }: { error: Error }) => !(error instanceof CliError);
    return pRetry(read, { retries: 3, minTimeout: 200, shouldRetry });
  }

  async #add(kind: PageKind, page: object, rows: number): Promise<void> {
    const { address, writer } = this.#options;
    this.#pages[kind] += 1;
    this.#counts[kind] += rows;
    await writer.add(pageName(address.branch, kind, this.#pages[kind]), page);
  }
}

/** A body, and with what its reading failed, if it did. */
class Reading {
  readonly #body: AsyncIterable<Uint8Array>;
  failure: unknown;

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#body = body;
  }

  async *pieces(): AsyncGenerator<Uint8Array> {
    try {
      yield* this.#body;
    } catch (error) {
      this.failure = error;
      throw error;
    }
  }
}
