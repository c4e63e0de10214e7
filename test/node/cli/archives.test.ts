import { open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import type { ZodType } from "zod";
import { checkBranch } from "../../../cli/archive/check.ts";
import { exportRepo } from "../../../cli/archive/export-repo.ts";
import { branchEntry, FIRST_ENTRY, FORMAT, FORMAT_VERSION, pageName } from "../../../cli/archive/format.ts";
import { ArchiveDamagedError, ArchiveReader } from "../../../cli/archive/reader.ts";
import { ArchiveWriter, type Sink } from "../../../cli/archive/writer.ts";
import { type Ask, Client, GatewayError } from "../../../cli/gateway/client.ts";
import type { ArchivedFile } from "../../../protocol/archives.ts";
import { type ContentId, contentName } from "../../../protocol/content.ts";
import { contentIdOf } from "../../../runner/lib/tree-hash.ts";
import { type Archive, BAD_ARCHIVES, soundArchive } from "../../support/archive-cases.ts";
import { ROOT_KEY } from "../../support/keys.ts";
import { scratchFolder } from "../../support/scratch.ts";

/** More than is fetched ahead. */
const LARGE = 300 * 1024;
const GONE = new GatewayError("There is no such export any more.", { status: 404, code: "NotFound" });

/** A gateway with one branch: each export of it reads the next of these states, of which each file has a content of its own. */
class FakeGateway {
  /** Files by name; an error in the place of their bytes is what a read of them ends with, once. */
  readonly #states: readonly Readonly<Record<string, Buffer | Error>>[];
  readonly #contents = new Map<string, Buffer | Error>();
  #begun = 0;
  ended = 0;

  constructor(...states: readonly Readonly<Record<string, Buffer | Error>>[]) {
    this.#states = states;
  }

  get client(): Client {
    const client = new Client({ ...ROOT_KEY, endpoint: "http://gateway", endpointSource: "", keySource: "" });
    return Object.assign(client, {
      call: async (answers: ZodType, ask: Ask) => answers.parse(await this.#answer(ask)),
      send: async (ask: Ask) => ({ body: await this.#body(ask) }),
    });
  }

  get begun(): number {
    return this.#begun;
  }

  async #answer({ path, query }: Ask): Promise<unknown> {
    if (path.endsWith("/exports")) {
      this.#begun++;
      const settings = { public: false, cors: null, writer: null };
      const branch = { name: "master", createdAt: 1, head: 1, floor: 0, settings };
      return { export: `E${this.#begun}`, branch, rows: 1 };
    }
    if (this.#isOver(path)) throw GONE;
    if (path.endsWith("/commits")) {
      const commit = [1, "01ARZ3NDEKTSV4RRFFQ69G5FAV", 1, 1, 0, null, null, null, null, 0];
      return { commits: query?.after === 0 ? [commit] : [], next: null };
    }
    if (path.endsWith("/tags")) return { tags: [], next: null };
    const names = Object.keys(this.#state);
    const name = names[names.indexOf(String(query?.after)) + 1];
    if (name === undefined) return { files: [], contents: [], next: null };
    const content = this.#contentOf(name);
    const file: ArchivedFile = [name, 1, null, content.digest, content.size, null, null];
    return { files: [file], contents: [], next: { path: name, born: 1 } };
  }

  /** Something was erased once the next state is there to be read. */
  #isOver(path: string): boolean {
    const number = Number(/\/exports\/E(\d+)/.exec(path)?.[1]);
    return number < this.#states.length && /\/files$/.test(path) && this.#contents.size > 1;
  }

  get #state(): Readonly<Record<string, Buffer | Error>> {
    return this.#states[this.#begun - 1] ?? {};
  }

  #contentOf(name: string): ContentId {
    const bytes = this.#state[name];
    const real = bytes instanceof Error ? Buffer.alloc(LARGE, name) : (bytes ?? Buffer.alloc(0));
    const content = contentIdOf(real);
    this.#contents.set(contentName(content), bytes instanceof Error ? bytes : real);
    return content;
  }

  async #body({ method, path }: Ask): Promise<Readable> {
    if (method === "DELETE") {
      this.ended++;
      this.#contents.clear();
      return Object.assign(Readable.from([]), { dump: async () => {} });
    }
    const name = path.slice(path.lastIndexOf("/") + 1);
    const bytes = this.#contents.get(name);
    if (bytes === undefined) throw GONE;
    if (Buffer.isBuffer(bytes)) {
      return Object.assign(Readable.from([bytes]), { arrayBuffer: async () => new Uint8Array(bytes).buffer });
    }
    // Some of it comes, and the next time all of it.
    const [file = ""] = Object.entries(this.#state).find(([, one]) => one === bytes) ?? [];
    const whole = Buffer.alloc(LARGE, file);
    this.#contents.set(name, whole);
    return Readable.from(cutOff(whole, bytes));
  }
}

async function* cutOff(bytes: Buffer, error: Error): AsyncGenerator<Buffer> {
  yield bytes.subarray(0, 1000);
  throw error;
}

interface MemorySink extends Sink {
  readonly bytes: () => Buffer;
}

function memory({ goesBack }: { goesBack: boolean }): MemorySink {
  let bytes = Buffer.alloc(0);
  return {
    bytes: () => bytes,
    write: async (more) => {
      bytes = Buffer.concat([bytes, more]);
    },
    ...(goesBack && {
      truncate: async (length: number) => {
        bytes = Buffer.from(bytes.subarray(0, length));
      },
    }),
  };
}

const progress = { begin() {}, grow() {}, advance() {}, end() {} };

function exported(gateway: FakeGateway, sink: Sink) {
  return exportRepo(gateway.client, { repo: "photos", branches: ["master"], sink, progress });
}

/** Reads an archive whole, contents too; answers the entries of its files. */
async function entriesOf(sink: MemorySink): Promise<string[]> {
  const path = join(scratchFolder(), "photos.tar");
  await writeFile(path, sink.bytes());
  const file = await open(path, "r");
  try {
    const { branches } = await new ArchiveReader(file, path).index({ contents: () => {} });
    return branches.flatMap(({ pages }) => pages.map(({ name }) => name));
  } finally {
    await file.close();
  }
}

describe("an export", () => {
  const [one, two, other] = ["1", "2", "3"].map((text) => Buffer.alloc(LARGE, text));
  if (!one || !two || !other) throw new Error("no contents");

  test("that ends since something was erased is begun anew, and nothing that was read before stays in the archive", async () => {
    const gateway = new FakeGateway({ a: one, b: two, c: one }, { a: other, b: two });
    const sink = memory({ goesBack: true });
    const done = await exported(gateway, sink);
    expect(gateway).toMatchObject({ begun: 2, ended: 2 });
    expect(done.branches).toEqual({ master: { commits: 1, tags: 0, files: 2 } });
    const pages = ["commits-000001", "files-000001", "files-000002"];
    expect(await entriesOf(sink)).toEqual(pages.map((page) => `branches/master/${page}.json`));
    const names = (content: Buffer) => sink.bytes().includes(contentName(contentIdOf(content)));
    expect([one, two, other].map(names)).toEqual([false, true, true]);
  });

  test("into a pipe, which can't go back, ends with the reason", async () => {
    const gateway = new FakeGateway({ a: one, b: two, c: one }, { a: other });
    await expect(exported(gateway, memory({ goesBack: false }))).rejects.toThrow(
      "the export of the branch 'master' ended before all of it was read, so there is no archive: There is no such export any more.",
    );
    expect(gateway).toMatchObject({ begun: 1, ended: 1 });
  });

  test("reads a large content again whose connection breaks in the middle of it", async () => {
    const gateway = new FakeGateway({ a: new Error("terminated"), b: two });
    const sink = memory({ goesBack: true });
    await exported(gateway, sink);
    expect(gateway.begun).toBe(1);
    expect(await entriesOf(sink)).toHaveLength(3);
  });

  test("that can't be written on ends with the reason of that, and blames no content", async () => {
    const full = Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
    const sink = memory({ goesBack: true });
    const write: Sink["write"] = async (bytes) => {
      if (sink.bytes().length + bytes.length > LARGE) throw full;
      await sink.write(bytes);
    };
    const gateway = new FakeGateway({ a: one, b: two });
    await expect(exported(gateway, { ...sink, write })).rejects.toBe(full);
    expect(gateway).toMatchObject({ begun: 1, ended: 1 });
  });
});

describe("a check of an archive", () => {
  test("takes what a branch could have written", async () => {
    await expect(checked(soundArchive())).resolves.toBeUndefined();
  });

  test.each(BAD_ARCHIVES)("refuses $what, and says where and what to do", async ({ archive, names }) => {
    const error = await checked(archive()).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(ArchiveDamagedError);
    expect(String(error)).toContain(names);
    expect(String(error)).toContain("export the repo again");
  });
});

/** Writes an archive, and checks it. */
async function checked({ branch, commits, tags, files, contents }: Archive): Promise<void> {
  const sink = memory({ goesBack: false });
  const writer = new ArchiveWriter(sink);
  await writer.add(FIRST_ENTRY, { format: FORMAT, version: FORMAT_VERSION, repo: "r", branches: ["master"] });
  await writer.add(branchEntry("master"), { name: "master", ...branch });
  await writer.add(pageName("master", "commits", 1), { commits });
  await writer.add(pageName("master", "tags", 1), { tags });
  await writer.add(pageName("master", "files", 1), { files, contents, at: {} });
  await writer.end({ master: { commits: commits.length, tags: tags.length, files: files.length } });
  const path = join(scratchFolder(), "checked.tar");
  await writeFile(path, sink.bytes());
  const handle = await open(path, "r");
  try {
    const reader = new ArchiveReader(handle, path);
    const { branches } = await reader.index({ contents: () => {} });
    for (const each of branches) await checkBranch(reader, each, Date.now());
  } finally {
    await handle.close();
  }
}
