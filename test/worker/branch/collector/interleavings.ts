import { runInDurableObject } from "cloudflare:test";
import { vi } from "vitest";
import { contentName } from "../../../../protocol/content.ts";
import { chunkBlobName } from "../../../../worker/blobs/blob-name.ts";
import type { Body, Content } from "../../../../worker/blobs/content.ts";
import { R2BlobStore } from "../../../../worker/blobs/stores.ts";
import { HELD } from "../held.ts";
import type { BranchStub } from "../support.ts";
import { branchOf, chunked, DAY_MS, freshBranch, joined, startOpenCommit } from "../support.ts";
import { type AnyStub, type Effects, passTime } from "./effects.ts";

/** Steps that somebody takes in this order, each at once; between any two of them others may take theirs. */
export type Walk = readonly ((stage: Stage) => Promise<void>)[];

/** A blob store in memory: of the stage whose turn it is. Its blobs are texts. */
export class MemoryStore {
  texts = new Map<string, string>();

  constructor() {
    vi.spyOn(R2BlobStore.prototype, "put").mockImplementation(async () => {});
    vi.spyOn(R2BlobStore.prototype, "delete").mockImplementation(async (names) => {
      for (const name of names) this.texts.delete(name);
    });
    vi.spyOn(R2BlobStore.prototype, "list").mockImplementation(async ({ prefix, after = "", limit }) => {
      const all = [...this.texts.keys()].filter((name) => name.startsWith(prefix) && name > after).sort();
      const names = all.slice(0, limit);
      return { names, next: all.length > limit ? (names.at(-1) ?? null) : null };
    });
  }
}

let stages = 0;

/** Whose a blob is. */
interface Owner {
  readonly upload: string;
  readonly uid: string;
}

/** One small branch, one that may be made from it, and what those who walk remember. */
export class Stage {
  readonly bucket: string;
  readonly branch: BranchStub;
  readonly effects: Effects;
  /** What walks have read or been told, by names of their own; with the rows it says where all stand. */
  readonly memory = new Map<string, unknown>();
  readonly #store: MemoryStore;
  readonly #blobs = new Map<string, string>();
  readonly #texts = new Map<string, string>();
  readonly #name: string;
  readonly #fork: BranchStub;
  /** An object that nobody has called has nothing, and asking it would make it. */
  #hasFork = false;

  private constructor(effects: Effects, store: MemoryStore) {
    stages++;
    this.#name = `stage-${stages}`;
    this.bucket = `master.${this.#name}`;
    this.branch = branchOf(this.bucket);
    this.#fork = branchOf(`fork.${this.#name}`);
    this.effects = effects;
    this.#store = store;
  }

  /** A file "s", an upload of two parts of which the second has the bytes of "s", and an open commit. */
  static async set(effects: Effects, store: MemoryStore): Promise<Stage> {
    const stage = new Stage(effects, store);
    const { branch, memory } = stage;
    stage.enter();
    await freshBranch(stage.bucket);
    const opened = await branch.uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    const source = stage.content("source", opened);
    const { upload: first } = opened;
    await stage.name(source, branch.files.put({ path: "s", content: source, attributes: {}, upload: first }));
    const begun = await branch.multipart.create({ path: "m", attributes: {}, ttlMs: DAY_MS });
    if (!begun.ok) throw new Error(begun.reason);
    const { upload } = begun;
    const part = stage.content("part", begun);
    await stage.name(part, branch.multipart.addPart({ upload, number: 1, content: part }));
    await branch.multipart.addPart({ upload, number: 2, content: { ...source, keeps: [source] } });
    memory.set("begun", { upload, uid: begun.uid });
    memory.set("openCommit", await startOpenCommit(branch, 6 * DAY_MS));
    return stage;
  }

  /** It is this stage's turn. */
  enter(): void {
    this.#store.texts = this.#blobs;
  }

  /** For whoever makes it, or calls it from then on. */
  get fork(): BranchStub {
    this.#hasFork = true;
    return this.#fork;
  }

  get #branches(): BranchStub[] {
    return this.#hasFork ? [this.branch, this.#fork] : [this.branch];
  }

  /** The multipart upload that stood at first. */
  get begun(): Owner {
    return this.memory.get("begun") as Owner;
  }

  get openCommit(): string {
    return String(this.memory.get("openCommit"));
  }

  /** A content of one chunk, whose blob is in the store. `write`: which one of the same bytes in this upload. */
  content(text: string, { upload, uid }: Owner, write = "first"): Content {
    const { digest, size } = chunked(text, []);
    const blob = chunkBlobName({ digest, size }, { upload, uid, write });
    this.#blobs.set(blob, text);
    this.#texts.set(contentName({ digest, size }), text);
    return chunked(text, [blob]);
  }

  /** A call that names bytes which are up. Whoever is refused takes them away, as the gateway does. */
  async name(content: Content, call: Promise<{ readonly ok: boolean }>): Promise<void> {
    const { ok } = await call;
    const { body } = content;
    if (!ok && body.kind === "chunks") for (const { blob } of body.chunks) this.#blobs.delete(blob);
  }

  /** A content put together from others. */
  joined(parts: readonly Content[]): Content {
    const content = joined(parts);
    this.#texts.set(contentName(content), parts.map((part) => this.#texts.get(contentName(part))).join(""));
    return content;
  }

  pass(ms: number): Promise<void> {
    return passTime(this.effects, ms, this.#branches as AnyStub[]);
  }

  /** Names whose bytes can't be read as they must be. */
  async unreadable(): Promise<string[]> {
    const found: string[] = [];
    const { openCommit } = this;
    for (const branch of this.#branches) {
      const views = branch === this.branch ? [{}, { openCommit }] : [{}];
      for (const view of views) {
        const page = await branch.files.list({ prefix: "", limit: 100, ...view });
        for (const { path } of page.ok ? page.entries : []) {
          const file = await branch.files.read({ path, ...view });
          if (!file.ok || this.#textOf(file.body) !== this.#texts.get(contentName(file))) {
            found.push(`${path} of ${JSON.stringify(view)}`);
          }
        }
      }
    }
    return found;
  }

  /** What is in the store that no row names, and what rows name that is not there; to be asked at rest. */
  async leftOver(): Promise<string[]> {
    const named = new Set<string>();
    const wrong: string[] = [];
    for (const branch of this.#branches) {
      for (const blob of await namedBlobs(branch)) named.add(blob);
      wrong.push(...(await wrongRefs(branch)));
    }
    return [
      ...wrong,
      ...[...this.#blobs.keys()].filter((blob) => !named.has(blob)).map((blob) => `${blob} is left`),
      ...[...named].filter((blob) => !this.#blobs.has(blob)).map((blob) => `${blob} is gone`),
    ];
  }

  /** Where everything stands, in words that are the same in another run that came here. */
  async state(): Promise<string> {
    const dumps = [];
    for (const branch of this.#branches) dumps.push(await dumpOf(branch));
    const text = JSON.stringify([dumps, [...this.#blobs.keys()].sort(), [...this.memory].sort()]);
    return withoutAccidents(text.replaceAll(this.#name, "stage"));
  }

  #textOf(body: Body): string | undefined {
    if (body.kind !== "chunks") return undefined;
    return body.chunks.map(({ blob }) => this.#blobs.get(blob) ?? "gone").join("");
  }
}

/** Ids and lives by the order in which they come; times not at all. */
function withoutAccidents(text: string): string {
  const ids = new Map<string, number>();
  const numbered = (id: string): string => {
    if (!ids.has(id)) ids.set(id, ids.size);
    return `#${ids.get(id)}`;
  };
  return text
    .replaceAll(/[0-9A-HJKMNP-TV-Z]{26}/g, numbered)
    .replaceAll(/"life":(\d+)/g, (_, life) => `"life":"${numbered(life)}"`)
    .replaceAll(/\b\d{12,16}\b/g, "T");
}

/** Every row of an object. */
async function dumpOf(branch: BranchStub): Promise<unknown[]> {
  return await runInDurableObject(branch, (_, { storage: { sql } }) => {
    const tables = sql
      .exec<{ name: string }>(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_cf*' AND name NOT GLOB 'sqlite*'",
      )
      .toArray();
    return tables.map(({ name }) => {
      const rows = sql.exec(`SELECT * FROM ${name}`).toArray();
      return [name, rows.map((row) => Object.fromEntries(Object.entries(row).map(plain)))];
    });
  });
}

function plain([column, value]: [string, SqlStorageValue]): [string, unknown] {
  return [column, value instanceof ArrayBuffer ? [...new Uint8Array(value)].join() : value];
}

async function namedBlobs(branch: BranchStub): Promise<string[]> {
  const bodies = await runInDurableObject(branch, (_, { storage: { sql } }) => {
    if (sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'contents'").toArray().length === 0) return [];
    return sql
      .exec("SELECT body FROM contents WHERE kind = 1")
      .toArray()
      .map(({ body }) => String(body));
  });
  return bodies.flatMap((body) => (JSON.parse(body) as { blob: string }[]).map(({ blob }) => blob));
}

/** Contents that are not kept by as many as their refs say. */
async function wrongRefs(branch: BranchStub): Promise<string[]> {
  return await runInDurableObject(branch, (_, { storage: { sql } }) => {
    if (sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'contents'").toArray().length === 0) return [];
    return sql
      .exec(WRONG_REFS)
      .toArray()
      .map((row) => `refs: ${JSON.stringify(row)}`);
  });
}

const WRONG_REFS = `
  SELECT lower(hex(digest)) AS digest, size, gen, refs, (
    SELECT count(*) FROM files
    WHERE kind = 0 AND files.digest = contents.digest AND files.size = contents.size AND files.gen = contents.gen
  ) + (
    SELECT count(*) FROM staged JOIN open_commits ON open_commits.number = staged.openCommit
    WHERE gone = 0 AND staged.digest = contents.digest AND staged.size = contents.size AND open_commits.gen = contents.gen
  ) + (
    SELECT count(*) FROM ${HELD} AS held
    JOIN (SELECT id, gen FROM uploads UNION SELECT upload, gen FROM ended) AS holders ON holders.id = held.upload
    WHERE held.digest = contents.digest AND held.size = contents.size AND holders.gen = contents.gen
  ) + (
    SELECT count(*) FROM contents AS keeper CROSS JOIN json_each(keeper.keeps) AS kept
    WHERE kept.value = lower(hex(contents.digest)) || '-' || contents.size AND keeper.gen = contents.gen
  ) AS counted
  FROM contents WHERE refs <> counted`;

export interface Explored {
  readonly states: number;
  readonly runs: number;
}

interface Exploration {
  readonly walks: readonly Walk[];
  readonly set: () => Promise<Stage>;
  /** At each state that was not met before. */
  readonly look: (stage: Stage) => Promise<void>;
  /** When nobody takes a step any more: at the end, and wherever so few steps are left. */
  readonly end: (stage: Stage) => Promise<void>;
  readonly restWithin: number;
}

/**
 * Goes through every order in which walks may take their steps. Two orders that lead to the same state go on as one:
 * what is the same from there on is looked at once.
 */
export async function explore(exploration: Exploration): Promise<Explored> {
  const { look, end, restWithin } = exploration;
  const seen = new Set<string>();
  const orders: (readonly number[])[] = [[]];
  let runs = 0;
  /** Goes on until what it meets was met before. */
  const goOn = async (run: Run): Promise<void> => {
    for (;;) {
      const state = `${run.done}: ${await run.stage.state()}`;
      if (seen.has(state)) return;
      seen.add(state);
      await look(run.stage);
      const [next, ...others] = run.ready;
      if (next === undefined) return await end(run.stage);
      orders.push(...others.map((other) => [...run.order, other]));
      // Whoever has steps left may also never take them.
      if (run.left <= restWithin) await follow(run.order, ({ stage }) => end(stage));
      run.stage.enter();
      await run.take(next);
    }
  };
  const follow = async (order: readonly number[], then: (run: Run) => Promise<void>): Promise<void> => {
    runs++;
    const run = new Run(exploration.walks, await exploration.set());
    try {
      for (const walk of order) await run.take(walk);
      await then(run);
    } catch (error) {
      const why = error instanceof Error ? error.stack : error;
      throw new Error(`after the steps of walks ${run.order}: ${why}`, { cause: error });
    }
  };
  for (let order = orders.pop(); order; order = orders.pop()) await follow(order, goOn);
  return { states: seen.size, runs };
}

/** One order of steps on a stage of its own. */
class Run {
  readonly stage: Stage;
  readonly order: number[] = [];
  /** How many steps each walk has taken. */
  readonly done: number[];
  readonly #walks: readonly Walk[];

  constructor(walks: readonly Walk[], stage: Stage) {
    this.#walks = walks;
    this.stage = stage;
    this.done = walks.map(() => 0);
  }

  /** The walks that are not at their end. */
  get ready(): number[] {
    return this.#walks.flatMap((steps, walk) => ((this.done[walk] ?? 0) < steps.length ? [walk] : []));
  }

  /** How many steps are left. */
  get left(): number {
    return this.#walks.reduce((sum, steps, walk) => sum + steps.length - (this.done[walk] ?? 0), 0);
  }

  async take(walk: number): Promise<void> {
    const step = this.done[walk] ?? 0;
    this.order.push(walk);
    this.done[walk] = step + 1;
    await this.#walks[walk]?.[step]?.(this.stage);
  }
}
