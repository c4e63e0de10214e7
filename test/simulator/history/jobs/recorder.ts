import type { SimulatedObject } from "../../platform/objects.ts";
import type { Texts } from "./texts.ts";

/** A commit of a branch or its deletion, with what was there after it: texts by paths. */
export interface RecordedEvent {
  readonly generation: number;
  readonly seq: number;
  readonly id: string;
  readonly kind: "commit" | "deletion";
  /** The job that made it. */
  readonly origin: string | null;
  readonly createdAt: number;
  readonly tree: ReadonlyMap<string, string>;
  /** By path, the number of the commit that wrote what is there. */
  readonly born: ReadonlyMap<string, number>;
}

/** A version of a file, by the commit that wrote it. */
interface Version {
  readonly path: string;
  readonly version: string;
}

interface Erased {
  readonly erased?: readonly Version[];
}

const NEW_COMMITS = `
  SELECT gen, seq, id, kind, createdAt, origin FROM commits WHERE (gen, seq) > (?, ?) ORDER BY gen, seq`;
const NEW_BODIES =
  "SELECT rowid AS at, CAST(body AS TEXT) AS body FROM contents WHERE kind = 1 AND rowid > ?";
const FILES = `
  SELECT path, kind, digest, born FROM files
  WHERE gen = ?1 AND born <= ?2 AND (died IS NULL OR died > ?2) AND kind < 2 ORDER BY path`;

interface CommitRow {
  readonly gen: number;
  readonly seq: number;
  readonly id: string;
  readonly kind: number;
  readonly createdAt: number;
  readonly origin: string | null;
}

interface FileRow {
  readonly path: string;
  readonly kind: number;
  readonly digest: Uint8Array;
  readonly born: number;
}

const EMPTY: ReadonlyMap<string, string> = new Map();
const NONE_BORN: ReadonlyMap<string, number> = new Map();

/** All that ever was durable of a branch's history, whatever the branch keeps of it. */
export class Recorder {
  readonly events: RecordedEvent[] = [];
  /** Blobs that contents had. */
  readonly blobs = new Set<string>();
  readonly #object: SimulatedObject;
  readonly #texts: Texts;
  #contents = 0;

  constructor(object: SimulatedObject, texts: Texts) {
    this.#object = object;
    this.#texts = texts;
    object.storage.watch({ wrote: () => {}, flushed: () => this.#look(), lost: () => {} });
  }

  /** The last thing that happened. */
  get last(): RecordedEvent | undefined {
    return this.events.at(-1);
  }

  /** What was there at a position, but for versions that were erased, and for what was written up to the commit `from`. */
  treeAt(
    { generation, seq }: { generation: number; seq: number },
    { erased = [], from = null }: { erased?: readonly Erased[]; from?: string | null } = {},
  ): ReadonlyMap<string, string> | undefined {
    if (seq === 0) return EMPTY;
    const event = this.events.find((each) => each.generation === generation && each.seq === seq);
    const start = from === null ? undefined : this.events.find(({ id }) => id === from);
    const gone = erased
      .flatMap(({ erased: some = [] }) => some)
      .filter((version) => this.#spans(version).first.includes(event));
    if (!event || (gone.length === 0 && !start)) return event?.tree;
    const isOld = (path: string) =>
      start !== undefined &&
      (start.generation > generation ||
        (start.generation === generation && (event.born.get(path) ?? 0) <= start.seq));
    return new Map(
      [...event.tree].filter(([path]) => !isOld(path) && !gone.some((version) => version.path === path)),
    );
  }

  /** Whether it can't be told at which commits versions were there: the same text came back later, perhaps as the same version. */
  isAmbiguous({ erased = [] }: Erased): boolean {
    return erased.some((version) => {
      const { first, again } = this.#spans(version);
      return first.length === 0 || again;
    });
  }

  /** The commits that have a version, and whether its text comes back after them. */
  #spans({ path, version }: Version): { first: (RecordedEvent | undefined)[]; again: boolean } {
    const from = this.events.findIndex(({ id }) => id === version);
    const text = this.events[from]?.tree.get(path);
    if (text === undefined) return { first: [], again: false };
    const later = this.events.slice(from);
    const end = later.findIndex(({ tree }) => tree.get(path) !== text);
    const first = end < 0 ? later : later.slice(0, end);
    return { first, again: later.slice(first.length).some(({ tree }) => tree.get(path) === text) };
  }

  /** How many things have happened up to a position. */
  indexOf({ generation, seq }: { generation: number; seq: number }): number {
    return this.events.filter(
      (event) => event.generation < generation || (event.generation === generation && event.seq <= seq),
    ).length;
  }

  #look(): void {
    const { storage } = this.#object;
    if (!storage.has("commits")) return;
    const { generation = 0, seq = 0 } = this.last ?? {};
    const rows = storage.look<CommitRow>(NEW_COMMITS, generation, seq);
    for (const { gen, kind, ...row } of rows) {
      const isDeletion = kind === 1;
      this.events.push({
        ...row,
        generation: gen,
        kind: isDeletion ? "deletion" : "commit",
        ...(isDeletion ? { tree: EMPTY, born: NONE_BORN } : this.#tree(gen, row.seq)),
      });
    }
    const bodies = storage.look<{ at: number; body: string }>(NEW_BODIES, this.#contents);
    for (const { at, body } of bodies) {
      this.#contents = Math.max(this.#contents, at);
      for (const [, blob] of body.matchAll(/"(b\/[^"]+)"/g)) if (blob !== undefined) this.blobs.add(blob);
    }
  }

  #tree(generation: number, seq: number): Pick<RecordedEvent, "tree" | "born"> {
    const rows = this.#object.storage.look<FileRow>(FILES, generation, seq);
    const textOf = (digest: Uint8Array) => this.#texts.of(Buffer.from(digest).toString("hex"));
    return {
      tree: new Map(rows.map(({ path, kind, digest }) => [path, kind === 1 ? "" : textOf(digest)])),
      born: new Map(rows.map(({ path, born }) => [path, born])),
    };
  }
}
