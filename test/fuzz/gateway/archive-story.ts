import { open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { checkBranch } from "../../../cli/archive/check.ts";
import { exportRepo } from "../../../cli/archive/export-repo.ts";
import { FIRST_ENTRY, LAST_ENTRY } from "../../../cli/archive/format.ts";
import { importRepo } from "../../../cli/archive/import-repo.ts";
import { ArchiveDamagedError, ArchiveReader } from "../../../cli/archive/reader.ts";
import { BLOCK_BYTES, paddingOf, readTarHeader } from "../../../cli/archive/tar.ts";
import { ArchiveWriter } from "../../../cli/archive/writer.ts";
import { Client, GatewayError } from "../../../cli/gateway/client.ts";
import type { ContentId } from "../../../protocol/content.ts";
import { parseContentName } from "../../../protocol/content.ts";
import { seededBytes } from "../../support/random.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { spoiledValue } from "../schema-values.ts";
import type { Tally } from "../tally.ts";
import { type Ground, headOf, leave, mustBeSound } from "./ground.ts";

/*
 * An archive of a repo, as a file, that somebody changed: bytes of it, or values in its pages with a new digest over them. What is
 * read of it is refused in words, and then there is no branch; or it is a branch that is sound.
 */

interface Entry {
  readonly name: string;
  readonly bytes: Buffer;
}

/** What is changed of an archive of so many entries. */
export interface Change {
  /** `bytes`: at places from 0 to 1. `cut`: it ends at the first of them. `page`: values in a page. */
  readonly how: "none" | "bytes" | "cut" | "page";
  readonly at: readonly (readonly [place: number, byte: number])[];
  readonly page: number;
  /** Says how a value is spoiled. */
  readonly spoil: number;
}

export const change: fc.Arbitrary<Change> = fc.record({
  how: fc.constantFrom("none", "bytes", "cut", "page", "page", "page"),
  at: fc.array(fc.tuple(fc.double({ min: 0, max: 0.9999, noNaN: true }), fc.nat(255)), {
    minLength: 1,
    maxLength: 3,
  }),
  page: fc.nat(10),
  spoil: fc.nat(),
});

const progress = { begin() {}, grow() {}, advance() {}, end() {} };

/** Archives of one repo with replaced, deleted and large files and tags. */
export class ArchiveStories {
  readonly #ground: Ground;
  readonly #client: Client;
  readonly #path = join(scratchFolder(), "archive.tar");
  readonly #whole: Buffer;

  private constructor(ground: Ground, { client, whole }: { client: Client; whole: Buffer }) {
    this.#ground = ground;
    this.#client = client;
    this.#whole = whole;
  }

  static async open(ground: Ground): Promise<ArchiveStories> {
    const client = new Client({ ...ground.door, endpointSource: "", keySource: "" });
    const repo = ground.nextName();
    const bucket = `master.${repo}`;
    await ground.s3.createBucket(bucket);
    for (const [key, size] of [
      ["a/b", 3],
      ["a-c", 5000],
      ["a/b", 10],
      ["gone", 1],
    ] as const)
      await ground.s3.put(bucket, key, seededBytes(size, size));
    await ground.s3.delete(bucket, "gone");
    await ground.control.ask("PUT", `/repos/${repo}/branches/master/tags/v1`, {});
    const pieces: Uint8Array[] = [];
    const sink = { write: async (bytes: Uint8Array) => void pieces.push(bytes.slice()) };
    await exportRepo(client, { repo, branches: ["master"], sink, progress });
    return new ArchiveStories(ground, { client, whole: Buffer.concat(pieces) });
  }

  async play(change: Change, tally: Tally): Promise<void> {
    const repo = this.#ground.nextName();
    await writeFile(this.#path, await changed(this.#whole, change));
    const outcome = await this.#bring(repo);
    tally.add(`archive, ${change.how}`, outcome);
    if (change.how === "none" && outcome !== "good") throw new Error(`a whole archive is ${outcome}`);
    const head = await headOf(this.#ground, repo);
    if (outcome === "good") await mustBeSound(this.#ground, repo);
    else if (head !== undefined) throw new Error(`it is ${outcome}, and there is a branch`);
    await leave(this.#ground, repo);
  }

  async #bring(repo: string): Promise<"good" | "damaged" | "refused"> {
    const file = await open(this.#path, "r");
    try {
      const reader = new ArchiveReader(file, this.#path);
      const index = await reader.index();
      const isFound = await this.#isFound(reader);
      const [done] = await importRepo(this.#client, {
        reader,
        index,
        repo,
        branches: index.branches,
        progress,
      });
      // Nothing at all is in an archive whose end names no branch.
      if (isFound && done) throw new Error("the check of the file finds a fault, and the gateway takes it");
      return done ? "good" : "refused";
    } catch (error) {
      if (error instanceof ArchiveDamagedError) return "damaged";
      if (error instanceof GatewayError && error.status >= 400 && error.status < 500) return "refused";
      throw error;
    } finally {
      await file.close();
    }
  }

  /** Whether the check that needs no gateway finds something. */
  async #isFound(reader: ArchiveReader): Promise<boolean> {
    try {
      const { branches } = await reader.index({ contents: () => {} });
      for (const branch of branches) await checkBranch(reader, branch, Date.now());
      return false;
    } catch (error) {
      if (error instanceof ArchiveDamagedError) return true;
      throw error;
    }
  }
}

async function changed(whole: Buffer, { how, at, page, spoil }: Change): Promise<Buffer> {
  if (how === "none") return whole;
  if (how === "cut") return whole.subarray(0, Math.floor((at[0]?.[0] ?? 0) * whole.length));
  if (how === "page") return await withPage(entriesOf(whole), { page, spoil });
  const bytes = Buffer.from(whole);
  for (const [place, byte] of at) bytes[Math.floor(place * bytes.length)] = byte;
  return bytes;
}

/** The archive anew, with one of its pages spoiled. */
async function withPage(
  entries: readonly Entry[],
  { page, spoil }: { page: number; spoil: number },
): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  const writer = new ArchiveWriter({ write: async (bytes) => void pieces.push(bytes.slice()) });
  const pages = entries.filter(
    ({ name }) => name.endsWith(".json") && name !== FIRST_ENTRY && name !== LAST_ENTRY,
  );
  const spoiltName = pages[page % pages.length]?.name;
  for (const { name, bytes } of entries) {
    const content = contentOf(name);
    if (content) await writer.addContent(content, once(bytes));
    else if (name === LAST_ENTRY) await writer.end(JSON.parse(bytes.toString()).branches);
    else
      await writer.add(
        name,
        name === spoiltName ? spoilt(JSON.parse(bytes.toString()), spoil) : JSON.parse(bytes.toString()),
      );
  }
  return Buffer.concat(pieces);
}

function spoilt(value: unknown, seed: number): unknown {
  return fc.sample(spoiledValue(fc.constant(value)), { numRuns: 1, seed })[0];
}

function contentOf(name: string): ContentId | undefined {
  return name.startsWith("contents/") ? parseContentName(name.slice("contents/".length)) : undefined;
}

async function* once(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes;
}

function entriesOf(tar: Buffer): Entry[] {
  const entries: Entry[] = [];
  for (let at = 0; at < tar.length; ) {
    const header = readTarHeader(tar.subarray(at, at + BLOCK_BYTES));
    if (!header) break;
    const from = at + BLOCK_BYTES;
    entries.push({ name: header.name, bytes: tar.subarray(from, from + header.size) });
    at = from + header.size + paddingOf(header.size);
  }
  return entries;
}
