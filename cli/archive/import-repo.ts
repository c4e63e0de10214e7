import { createHash } from "node:crypto";
import type { z } from "zod";
import {
  type ArchiveCounts,
  CommitsPage,
  FilesPage,
  ImportBegun,
  ImportedPage,
  ImportFinished,
  type ImportProgress,
  TagsPage,
} from "../../protocol/archives.ts";
import { type ContentId, contentName } from "../../protocol/content.ts";
import { MAX_CONTENTS_PER_CALL } from "../../protocol/files.ts";
import { type BranchAddress, bucketName } from "../../protocol/names.ts";
import { forEachLimited } from "../../runner/lib/concurrency.ts";
import type { Range } from "../../runner/lib/in-parts.ts";
import { hashPieces } from "../../runner/lib/tree-hash.ts";
import type { Progress } from "../files/progress.ts";
import { missingOf, sendContent } from "../files/upload.ts";
import { branchPath } from "../gateway/address.ts";
import { type Client, GatewayError } from "../gateway/client.ts";
import { CliError } from "../output/failure.ts";
import { Offsets } from "./format.ts";
import {
  ArchiveDamagedError,
  type ArchiveIndex,
  type ArchiveReader,
  type BranchInArchive,
} from "./reader.ts";

/** Contents on their way at once. */
const LANES = 4;

const StoredFilesPage = FilesPage.extend({ at: Offsets });

export interface Imported {
  readonly branch: string;
  readonly head: string | null;
  readonly counts: ArchiveCounts;
  /** It was imported before: nothing was sent. */
  readonly wasThere: boolean;
}

interface ImportOptions {
  readonly reader: ArchiveReader;
  readonly index: ArchiveIndex;
  /** The repo that the branches come to. */
  readonly repo: string;
  readonly branches: readonly BranchInArchive[];
  readonly progress: Progress;
}

/**
 * Makes branches of an archive. Nothing of a branch is seen before all of it is there, and none of them is opened before all
 * have come. If it breaks off, the same call goes on behind what has come.
 */
export async function importRepo(client: Client, options: ImportOptions): Promise<Imported[]> {
  const imports: BranchImport[] = [];
  for (const inArchive of options.branches) {
    const one = new BranchImport(client, { ...options, inArchive });
    imports.push(one);
    await one.begin();
  }
  try {
    for (const one of imports) await one.send();
  } catch (error) {
    // Nobody can go on with it. If even this fails, what came goes after a day.
    if (isHopeless(error)) await Promise.allSettled(imports.map((one) => one.giveUp()));
    throw error;
  }
  const done: Imported[] = [];
  for (const one of imports) done.push(await one.finish());
  return done;
}

/** The archive itself is at fault: it is not as it was written, or its pages do not fit together. */
function isHopeless(error: unknown): boolean {
  return error instanceof ArchiveDamagedError || (error instanceof GatewayError && error.status === 400);
}

/** Gives up what was begun to be made of an archive. What is a branch already stays. */
export async function abortImport(client: Client, options: ImportOptions): Promise<void> {
  for (const inArchive of options.branches) {
    await new BranchImport(client, { ...options, inArchive }).abort();
  }
}

type BranchImportOptions = ImportOptions & { readonly inArchive: BranchInArchive };

class BranchImport {
  readonly #client: Client;
  readonly #options: BranchImportOptions;
  readonly #address: BranchAddress;
  #begun: ImportBegun | undefined;
  #progress: ImportProgress = { commits: 0, tags: "", files: { path: "", born: 0 } };

  constructor(client: Client, options: BranchImportOptions) {
    this.#client = client;
    this.#options = options;
    this.#address = { repo: options.repo, branch: options.inArchive.branch.name };
  }

  async begin(): Promise<ImportBegun> {
    const { inArchive, index } = this.#options;
    const { name, ...branch } = inArchive.branch;
    const id = createHash("sha256")
      .update(`${index.sha256}\n${bucketName(this.#address)}\n${name}`)
      .digest("hex");
    const begun = await this.#client.post(ImportBegun, this.#path("imports"), {
      json: { archive: id, branch },
      repeatable: true,
    });
    this.#begun = begun;
    this.#progress = begun.progress;
    return begun;
  }

  async send(): Promise<void> {
    const { reader, inArchive, progress } = this.#options;
    if (this.#begun?.done) return;
    progress.begin(`importing ${this.#address.branch}`, inArchive.counts.files);
    for (const entry of inArchive.pages) {
      if (entry.kind === "commits") {
        const { commits } = await reader.page(CommitsPage, entry);
        const after = this.#progress.commits;
        if ((commits.at(-1)?.[0] ?? 0) > after) await this.#page("commits", { after, commits });
      } else if (entry.kind === "tags") {
        const { tags } = await reader.page(TagsPage, entry);
        const after = this.#progress.tags;
        if ((tags.at(-1)?.[0] ?? "") > after) await this.#page("tags", { after, tags });
      } else await this.#files(await reader.page(StoredFilesPage, entry));
    }
    progress.end();
  }

  /** Asked twice, it answers the same. */
  async finish(): Promise<Imported> {
    const { counts } = this.#options.inArchive;
    const { done, import: id } = this.#started();
    const path = this.#path(`imports/${id}/finish`);
    const { head } = await this.#client.post(ImportFinished, path, { json: { counts }, repeatable: true });
    return { branch: this.#address.branch, head, counts, wasThere: done };
  }

  async abort(): Promise<void> {
    await this.begin();
    await this.giveUp();
  }

  /** What was begun. */
  async giveUp(): Promise<void> {
    const { import: id, done } = this.#started();
    if (done) return;
    await this.#client.delete(this.#path(`imports/${id}`));
  }

  async #files({ files, contents, at }: z.infer<typeof StoredFilesPage>): Promise<void> {
    const last = files.at(-1);
    if (!last) return;
    const after = this.#progress.files;
    if (!isAfter({ path: last[0], born: last[1] }, after)) {
      this.#options.progress.advance(files.length);
      return;
    }
    await this.#bring(at);
    await this.#page("files", { after, files, contents });
    this.#options.progress.advance(files.length);
  }

  /** Brings the contents of a page that the branch does not have yet. */
  async #bring(at: Readonly<Record<string, number>>): Promise<void> {
    const { upload } = this.#started();
    const all = Object.keys(at).map(contentOf);
    for (let from = 0; from < all.length; from += MAX_CONTENTS_PER_CALL) {
      const contents = all.slice(from, from + MAX_CONTENTS_PER_CALL);
      const missing = await missingOf(this.#client, { upload, contents });
      await forEachLimited(missing, {
        limit: LANES,
        work: (content) => this.#sendSound(content, at[contentName(content)] ?? 0),
      });
    }
  }

  /** What the gateway refuses may be refused because the archive was altered since it was written. */
  async #sendSound(content: ContentId, begins: number): Promise<void> {
    try {
      await this.#send(content, begins);
    } catch (error) {
      if (error instanceof GatewayError) await this.#options.reader.prove(content, begins);
      throw error;
    }
  }

  async #send(content: ContentId, begins: number): Promise<void> {
    const { reader } = this.#options;
    const { upload, partBytes } = this.#started();
    const pieces = (range?: Range) => reader.content(content, { begins, ...(range && { range }) });
    const hash = (range: Range) => hashPieces(pieces(range));
    await sendContent(this.#client, { upload, partBytes, content, pieces, hash });
  }

  async #page(kind: "commits" | "tags" | "files", json: object): Promise<void> {
    const { progress } = await this.#client.post(
      ImportedPage,
      this.#path(`imports/${this.#started().import}/${kind}`),
      { json, repeatable: true },
    );
    const isSame = JSON.stringify(progress) === JSON.stringify(this.#progress);
    if (isSame) throw new CliError("somebody else imports the same archive: wait for that", { code: "Busy" });
    this.#progress = progress;
  }

  #started(): ImportBegun {
    if (!this.#begun) throw new Error("the import was not begun");
    return this.#begun;
  }

  #path(rest: string): string {
    return `${branchPath(this.#address)}/${rest}`;
  }
}

function isAfter(place: { path: string; born: number }, other: { path: string; born: number }): boolean {
  const order = Buffer.compare(Buffer.from(place.path), Buffer.from(other.path));
  return order > 0 || (order === 0 && place.born > other.born);
}

function contentOf(name: string): ContentId {
  const dash = name.indexOf("-");
  return { digest: name.slice(0, dash), size: Number(name.slice(dash + 1)) };
}
