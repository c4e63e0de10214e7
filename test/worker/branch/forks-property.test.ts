// @module-tag rest
import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { R2BlobStore } from "../../../worker/blobs/stores.ts";
import { atRest, rowsOf, treeOf } from "./fork-support.ts";
import { crashAt, restarted } from "./large-support.ts";
import {
  type BranchStub,
  branchOf,
  chunked,
  committed,
  freshBucket,
  ledgerOf,
  randomNumbers,
} from "./support.ts";

const STEPS = 40;
const BRANCHES = 5;
const PATHS = ["a", "b", "c/d"];
const TEXTS = ["one", "two", "three", "four"];
/** Where steps are cut off: between any two writes of either side. */
const CRASHES = [
  /INSERT INTO forks/,
  /INSERT INTO roots/,
  /INSERT INTO generations/,
  /INSERT INTO files/,
  /INSERT INTO commits/,
  /UPDATE generations/,
  /UPDATE forks/,
  /DELETE FROM files/,
  /DELETE FROM contents/,
  /DELETE FROM forks/,
];

/** What a branch must show: by path, the bytes. */
type Tree = Readonly<Record<string, string>>;

interface Model {
  readonly bucket: string;
  readonly branch: BranchStub;
  /** Undefined: it is not there. */
  commits: { id: string; tree: Tree }[] | undefined;
}

/** Blobs that were deleted in this test. */
const deleted = new Set<string>();

beforeEach(() => {
  deleted.clear();
  vi.spyOn(console, "warn").mockImplementation(() => {});
  vi.spyOn(R2BlobStore.prototype, "delete").mockImplementation(async (names) => {
    for (const name of names) deleted.add(name);
  });
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** Writes a file in a blob of its own, and returns the commit; null if it was there already. */
async function write(branch: BranchStub, path: string, text: string): Promise<string | null> {
  const opened = await branch.uploads.open({});
  if (!opened.ok) throw new Error(opened.reason);
  const { upload } = opened;
  const content = chunked(text, [`b/${upload}`]);
  return committed(await branch.files.put({ path, content, attributes: {}, upload }));
}

/** The blobs that the rows of a branch name, and those that it would delete. */
async function blobsOf(branch: BranchStub): Promise<{ named: string[]; condemned: unknown[] }> {
  const bodies = await runInDurableObject(branch, (_, { storage: { sql } }) =>
    sql
      .exec("SELECT body FROM contents WHERE kind = 1 AND gen IN (SELECT gen FROM files)")
      .toArray()
      .map(({ body }) => String(body)),
  );
  const named = bodies.flatMap((body) => JSON.parse(body).map(({ blob }: { blob: string }) => blob));
  return { named, condemned: (await ledgerOf(branch)).condemned };
}

/** Whatever is named anywhere was neither condemned nor deleted. */
async function expectBytesThere(models: readonly Model[]): Promise<void> {
  const made = models.filter(({ commits }) => commits !== undefined);
  const all = await Promise.all(models.map(({ branch }) => blobsOf(branch).catch(() => NO_BLOBS)));
  const going = new Set([...deleted, ...all.flatMap((blobs) => blobs.condemned)]);
  expect(all.flatMap(({ named }) => named).filter((blob) => going.has(blob))).toEqual([]);
  for (const { branch, commits = [] } of made) {
    const head = commits.at(-1);
    const shown = (await treeOf(branch)) as { path: string; size: number }[];
    expect(shown.map(({ path, size }) => [path, size])).toEqual(
      Object.entries(head?.tree ?? {})
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([path, text]) => [path, text.length]),
    );
  }
}

const NO_BLOBS = { named: [], condemned: [] };

/** A history of branches that anybody may make, write to, delete and cut off. */
class History {
  readonly models: readonly Model[] = Array.from({ length: BRANCHES }, () => {
    const bucket = freshBucket();
    return { bucket, branch: branchOf(bucket), commits: undefined };
  });
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = randomNumbers(seed);
  }

  async step(): Promise<void> {
    const model = this.#pick(this.models);
    if (model.commits === undefined) await this.#make(model);
    else if (this.#random() < 0.3) await this.#delete(model);
    else await this.#write(model, model.commits);
  }

  async #make(model: Model): Promise<void> {
    const parents = this.models.filter(({ commits }) => commits !== undefined);
    if (parents.length === 0 || this.#random() < 0.1) return await this.#makeEmpty(model);
    const { branch } = model;
    const { bucket: parent, commits = [] } = this.#pick(parents);
    const from = this.#pick([undefined, ...commits]);
    const asked = { parent, ...(from && { commit: from.id }) };
    await this.#mayCrash(async () => await branch.lifecycle.fork(asked));
    expect(await branch.lifecycle.fork(asked)).toMatchObject({ ok: true, parent });
    await atRest(branch);
    const log = await branch.history.list({ limit: 10 });
    if (!log.ok) throw new Error(`the fork of ${parent} is ${log.reason}`);
    expect(log.commits).toHaveLength(1);
    const tree = (from ?? commits.at(-1))?.tree ?? {};
    model.commits = log.commits.map(({ id }) => ({ id, tree }));
  }

  async #makeEmpty(model: Model): Promise<void> {
    expect(await model.branch.lifecycle.create()).toMatchObject({ ok: true });
    model.commits = [];
  }

  async #delete(model: Model): Promise<void> {
    await this.#mayCrash(async () => await model.branch.lifecycle.destroy());
    await model.branch.lifecycle.destroy();
    model.commits = undefined;
  }

  async #write({ branch }: Model, commits: NonNullable<Model["commits"]>): Promise<void> {
    const [path, text] = [this.#pick(PATHS), this.#pick(TEXTS)];
    const { tree = {} } = commits.at(-1) ?? {};
    const id = await write(branch, path, text);
    if (id !== null) commits.push({ id, tree: { ...tree, [path]: text } });
  }

  /** Does something; now and then it is cut off, and everybody starts anew. */
  async #mayCrash(work: () => Promise<unknown>): Promise<void> {
    if (this.#random() < 0.5) return void (await work());
    const crash = crashAt({ statement: this.#pick(CRASHES), nth: 1 + Math.floor(this.#random() * 2) });
    await work().catch(() => {});
    for (const { branch } of this.models) await restarted(branch);
    crash.resume();
  }

  #pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.#random() * items.length)] as T;
  }
}

describe("random histories of forks, crashes and deletions", () => {
  for (let seed = 1; seed <= 12; seed++) {
    test(`lose no bytes and leave none behind: seed ${seed}`, async () => {
      const history = new History(seed);
      const { models } = history;
      for (let step = 0; step < STEPS; step++) {
        await history.step();
        await expectBytesThere(models);
      }
      for (const { branch, commits } of models) if (commits) await branch.lifecycle.destroy();
      const branches = models.map(({ branch }) => branch);
      await atRest(...branches);
      for (const branch of branches) {
        expect(await rowsOf(branch)).toMatchObject({ forks: 0, roots: 0, onLoan: 0 });
      }
    });
  }
});
