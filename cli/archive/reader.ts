import type { FileHandle } from "node:fs/promises";
import { z } from "zod";
import { ArchivedBranch } from "../../protocol/archives.ts";
import { type ContentId, contentName, parseContentName } from "../../protocol/content.ts";
import type { Range } from "../../runner/lib/in-parts.ts";
import { hashPieces } from "../../runner/lib/tree-hash.ts";
import { CliError } from "../output/failure.ts";
import {
  ArchiveEnd,
  ArchiveHead,
  CONTENTS,
  EntriesHash,
  entryOf,
  FIRST_ENTRY,
  LAST_ENTRY,
  Offsets,
  type PageKind,
} from "./format.ts";
import { BLOCK_BYTES, paddingOf, readTarHeader } from "./tar.ts";

/** Most bytes of an entry that is no content: a page is far smaller. */
const MAX_ENTRY_BYTES = 64 * 1024 * 1024;
const PIECE_BYTES = 1024 * 1024;

/** Of a page of files: where the contents are that it names. */
const Places = z.object({ at: Offsets });

/** A page of a branch, and where it is. */
export interface PageEntry extends Range {
  readonly kind: PageKind;
  readonly name: string;
}

/** A branch of an archive. */
export interface BranchInArchive {
  readonly branch: ArchivedBranch;
  readonly pages: readonly PageEntry[];
  readonly counts: ArchiveEnd["branches"][string];
}

/** What is in an archive. */
export interface ArchiveIndex {
  readonly repo: string;
  readonly branches: readonly BranchInArchive[];
  /** Tells the archive from every other one. */
  readonly sha256: string;
}

/** Reads an archive, a file that can be read anywhere. */
export class ArchiveReader {
  readonly #file: FileHandle;
  readonly #path: string;

  constructor(file: FileHandle, path: string) {
    this.#file = file;
    this.#path = path;
  }

  /**
   * Goes through all of the archive but the bytes of contents, before anything is made of it: it must be whole, and as it was
   * written. With `contents`, through these, too; it hears how many bytes were read.
   */
  async index({ contents }: { readonly contents?: (bytes: number) => void } = {}): Promise<ArchiveIndex> {
    const hash = new EntriesHash();
    const found = new FoundEntries();
    for await (const { name, ...range } of this.#entries()) {
      if (name.startsWith(CONTENTS)) {
        if (contents) await this.#checkContent(name, { range, onBytes: contents });
        continue;
      }
      const bytes = await this.#readEntry(name, range);
      if (name === LAST_ENTRY) {
        const end = this.#parsed(ArchiveEnd, { name, bytes });
        if (found.repo === undefined) throw this.#damaged(`${FIRST_ENTRY} is missing`);
        if (end.sha256 !== hash.finish()) throw this.#damaged("its pages are not those that were written");
        return { repo: found.repo, sha256: end.sha256, branches: found.branches(end) };
      }
      hash.add(name, bytes);
      if (contents) await this.#checkPlaces(name, bytes);
      if (name === FIRST_ENTRY) found.repo = this.#parsed(ArchiveHead, { name, bytes }).repo;
      else found.add({ name, ...range }, () => this.#headOf(name, bytes));
    }
    throw this.#damaged("its end is missing");
  }

  #headOf(name: string, bytes: Buffer): ArchivedBranch {
    const head = this.#parsed(ArchivedBranch, { name, bytes });
    if (entryOf(name)?.branch === head.name) return head;
    throw this.misfit(`${name} is of the branch '${head.name}'`);
  }

  /** All files of the tar, in their order. */
  async *#entries(): AsyncGenerator<Range & { readonly name: string }> {
    for (let at = 0; ; ) {
      const entry = readTarHeader(await this.#read({ offset: at, length: BLOCK_BYTES }));
      if (entry === null) return;
      if (!entry) throw this.#damaged(`there is no header at byte ${at}`);
      const { name, size } = entry;
      yield { name, offset: at + BLOCK_BYTES, length: size };
      at += BLOCK_BYTES + size + paddingOf(size);
    }
  }

  /** A page by its schema. */
  async page<Schema extends z.ZodType>(schema: Schema, entry: PageEntry): Promise<z.infer<Schema>> {
    return this.#parsed(schema, { name: entry.name, bytes: await this.#read(entry) });
  }

  /** The bytes of a content that begins at an offset, or a run of them. */
  async *content(
    content: ContentId,
    {
      begins,
      range = { offset: 0, length: content.size },
    }: { readonly begins: number; readonly range?: Range },
  ): AsyncGenerator<Buffer> {
    await this.#beginsAt(contentName(content), begins);
    yield* this.#pieces({ offset: begins + range.offset, length: range.length });
  }

  async #readEntry(name: string, range: Range): Promise<Buffer> {
    if (range.length > MAX_ENTRY_BYTES) throw this.#damaged(`${name} is too large`);
    return await this.#read(range);
  }

  /** Throws if a content that a page of files names is not where it says. */
  async #checkPlaces(name: string, bytes: Buffer): Promise<void> {
    if (entryOf(name)?.kind !== "files") return;
    const { at } = this.#parsed(Places, { name, bytes });
    for (const [content, begins] of Object.entries(at)) await this.#beginsAt(content, begins);
  }

  /** Throws if a content does not begin there. */
  async #beginsAt(name: string, begins: number): Promise<void> {
    const offset = Math.max(0, begins - BLOCK_BYTES);
    const header = readTarHeader(await this.#read({ offset, length: BLOCK_BYTES }));
    if (header?.name !== `${CONTENTS}${name}` || header.size !== parseContentName(name)?.size) {
      throw this.#damaged(`the content ${name} is not at byte ${begins}`);
    }
  }

  /** Throws if a content that begins at an offset has other bytes than its name says. */
  async prove(content: ContentId, begins: number): Promise<void> {
    const real = await hashPieces(this.content(content, { begins }));
    if (contentName(real) !== contentName(content)) throw this.#otherBytes(contentName(content));
  }

  async *#pieces({ offset, length }: Range): AsyncGenerator<Buffer> {
    for (let done = 0; done < length; ) {
      const piece = await this.#read({ offset: offset + done, length: Math.min(PIECE_BYTES, length - done) });
      done += piece.length;
      yield piece;
    }
  }

  async #checkContent(
    name: string,
    { range, onBytes }: { range: Range; onBytes: (bytes: number) => void },
  ): Promise<void> {
    const said = parseContentName(name.slice(CONTENTS.length));
    const real = await hashPieces(this.#pieces(range), onBytes);
    if (!said || contentName(said) !== contentName(real)) throw this.#otherBytes(name.slice(CONTENTS.length));
  }

  #otherBytes(name: string): ArchiveDamagedError {
    return this.#damaged(`the content ${name} has other bytes`);
  }

  /** Throws if the file ends before. */
  async #read({ offset, length }: Range): Promise<Buffer> {
    const bytes = Buffer.allocUnsafe(length);
    for (let filled = 0; filled < length; ) {
      const { bytesRead } = await this.#file.read(bytes, filled, length - filled, offset + filled);
      if (bytesRead === 0) throw this.#damaged("it is cut off");
      filled += bytesRead;
    }
    return bytes;
  }

  #parsed<Schema extends z.ZodType>(
    schema: Schema,
    { name, bytes }: { name: string; bytes: Buffer },
  ): z.infer<Schema> {
    let value: unknown;
    try {
      value = JSON.parse(bytes.toString("utf8"));
    } catch {
      throw this.#damaged(`${name} is no JSON`);
    }
    return this.parsed(schema, name, value);
  }

  /** A value of an entry by its schema. Throws ArchiveDamagedError, which names the field and what stands there. */
  parsed<Schema extends z.ZodType>(schema: Schema, name: string, value: unknown): z.infer<Schema> {
    const parsed = schema.safeParse(value);
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    const { path = [], message = "" } = issue ?? {};
    throw this.misfit(`${name}: ${pathText(path)} ${message}${heldText(value, path)}`);
  }

  /** That an archive is none that a gateway wrote, and what to do. */
  misfit(what: string): ArchiveDamagedError {
    return this.#damaged(
      `${what}. It was altered or is damaged, or a later version of sluice wrote it: export the repo again, or take an archive that is as it was written`,
    );
  }

  #damaged(what: string): ArchiveDamagedError {
    return new ArchiveDamagedError(`${this.#path} is no whole archive of a repo: ${what}`);
  }
}

function pathText(path: readonly PropertyKey[]): string {
  return path
    .map((step) => (typeof step === "number" ? `[${step}]` : `.${String(step)}`))
    .join("")
    .replace(/^\./, "");
}

/** A value is repeated up to so many characters. */
const MAX_SHOWN_CHARACTERS = 100;

/** What stands at a path of a value, for the end of a sentence; nothing if there is nothing. */
function heldText(value: unknown, path: readonly PropertyKey[]): string {
  const held = path.reduce<unknown>((at, step) => {
    return typeof at === "object" && at !== null && Object.hasOwn(at, step)
      ? Reflect.get(at, step)
      : undefined;
  }, value);
  if (held === undefined) return "";
  const text = JSON.stringify(held);
  return `, not ${text.length > MAX_SHOWN_CHARACTERS ? `${text.slice(0, MAX_SHOWN_CHARACTERS)}…` : text}`;
}

/** The file is not what an export wrote: nothing can be made of it. */
export class ArchiveDamagedError extends CliError {
  constructor(message: string) {
    super(message, { code: "ArchiveDamaged" });
  }
}

/** What a walk over an archive has found of its branches. */
class FoundEntries {
  repo: string | undefined;
  readonly #heads = new Map<string, { readonly branch: ArchivedBranch; readonly pages: PageEntry[] }>();

  add({ name, ...range }: Range & { readonly name: string }, head: () => ArchivedBranch): void {
    const of = entryOf(name);
    if (of?.kind === "branch") this.#heads.set(of.branch, { branch: head(), pages: [] });
    else if (of) this.#heads.get(of.branch)?.pages.push({ kind: of.kind, name, ...range });
  }

  branches({ branches }: ArchiveEnd): BranchInArchive[] {
    return [...this.#heads.values()].map(({ branch, pages }) => {
      return { branch, pages, counts: branches[branch.name] ?? { commits: 0, tags: 0, files: 0 } };
    });
  }
}
