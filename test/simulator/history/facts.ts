import { decodeTime } from "ulid";
import type { ObjectTag } from "../../../protocol/object-tags.ts";
import type { Writer } from "../../../worker/branch/contract/answers.ts";
import type { Keep, Lifecycle, ModifiedOf } from "../../../worker/branch/contract/settings.ts";
import { IS_NAMED } from "../../../worker/branch/retention/name-store.ts";
import type { CorsRule } from "../../../worker/core/cors.ts";
import type { SimulatedObject } from "../platform/objects.ts";
import type { World } from "../platform/world.ts";
import { statesBetween } from "./states.ts";

const DAY_MS = 24 * 60 * 60_000;
/** So far a clock is set back at most; milliseconds. */
const LONGEST_BACK_MS = 60 * 60_000;

/** What a branch is set to. */
export interface Settled {
  readonly public: boolean;
  readonly emptyOnly: boolean;
  readonly nearReads: boolean;
  readonly writer: Writer | null;
  readonly keep: Keep | null;
  readonly lifecycle: Lifecycle | null;
  readonly cors: readonly CorsRule[] | null;
  readonly modified: ModifiedOf | null;
}

/** What a branch was beside its tree, from one moment on up to the next one. */
export interface Facts {
  /** As in State. */
  readonly since: number;
  /** Null: there is no branch, or nobody sees it yet. */
  readonly generation: number | null;
  /** The number of the newest commit. */
  readonly head: number;
  /** Commits before this one are kept only if something names them, and so they are from then on. */
  readonly horizon: number;
  /** Commits by the names of tags. */
  readonly tags: ReadonlyMap<string, string>;
  readonly settled: Settled;
  /** The pipeline whose output it is; null: it is none's. */
  readonly holder: string | null;
  /** Commits that can be read no more. */
  readonly gone: ReadonlySet<string>;
  /** Until when commits stay whose tag went, by the clock. */
  readonly graces: ReadonlyMap<string, number>;
}

const PLAIN: Settled = {
  ...{ public: false, emptyOnly: false, writer: null, keep: null, lifecycle: null },
  ...{ cors: null, modified: null, nearReads: false },
};
const NOTHING: Facts = {
  since: 0,
  generation: null,
  head: 0,
  horizon: 0,
  tags: new Map(),
  settled: PLAIN,
  holder: null,
  gone: new Set(),
  graces: new Map(),
};

/** A file that a commit of a lifecycle rule deleted, as it was. */
export interface Expired {
  readonly path: string;
  readonly tags: readonly ObjectTag[];
}

/** A commit of some generation. */
interface Made {
  readonly id: string;
  readonly gen: number;
  readonly seq: number;
  readonly createdAt: number;
  /** The key that made it; null: nobody said. */
  readonly key: string | null;
  /** What was said of it, as JSON. */
  readonly annotation: string | null;
  /** The job that made it. */
  readonly origin: string | null;
}

const LIVE = `
  SELECT
    gen,
    (SELECT max(seq) FROM commits WHERE commits.gen = generations.gen) AS head,
    ifnull((SELECT horizon FROM horizons WHERE horizons.gen = generations.gen), 0) AS horizon,
    (SELECT json_array(public, emptyOnly, json(writer), json(keep), json(lifecycle), json(cors), modified, nearReads)
      FROM settings WHERE settings.gen = generations.gen) AS settings,
    (SELECT json_group_array(json_array(name, "commit")) FROM tags WHERE tags.gen = generations.gen) AS tags,
    (SELECT pipeline FROM writer WHERE uid IS NOT NULL) AS holder
  FROM generations
  WHERE deletedAt IS NULL AND NOT EXISTS (SELECT 1 FROM forks WHERE forks.gen = generations.gen AND state < 2)
  ORDER BY gen DESC LIMIT 1`;
const NEW_COMMITS = `
  SELECT gen, seq, id, createdAt, (SELECT key FROM authors WHERE number = author) AS key, annotation, origin
  FROM commits WHERE gen = ? AND seq > ? AND kind = 0 ORDER BY seq`;
/** What a read by a commit finds. */
const READABLE = `
  SELECT id FROM commits AS named WHERE gen = ? AND kind = 0 AND (seq >= ? OR ${IS_NAMED})`;
/** Open commits that began with a commit, and reverts to it, name it. */
const BEGUN_WITH = `
  SELECT 1 FROM open_commits WHERE gen = ?1 AND base = ?2 AND state < 2
  UNION ALL SELECT 1 FROM reverting WHERE gen = ?1 AND target = ?2`;
/** One that was deleted stays for its own forks. */
const FORKED_FROM = `
  SELECT 1 FROM forks WHERE parent = ? AND "commit" = ? AND createdAt > ?
    AND (state IN (1, 2) OR state = 3 AND EXISTS (SELECT 1 FROM roots WHERE goneAt IS NULL))`;
/** Of (? gen), if it came out of an archive, which says itself when the branch was made. */
const IMPORTED = "SELECT uid FROM imports WHERE gen = ?";

const DIED =
  "SELECT path, attributes ->> '$.tags' AS tags FROM files WHERE gen = ? AND died = ? AND kind < 2";
const AT_HEAD = `
  SELECT path, attributes ->> '$.tags' AS tags FROM files WHERE gen = ? AND died IS NULL AND kind < 2`;

interface TaggedRow {
  readonly path: string;
  readonly tags: string | null;
}

/** What was there at the last look. */
interface Looked {
  readonly live?: readonly LiveRow[];
  readonly readable?: readonly IdRow[] | null;
}

interface IdRow {
  readonly id: string;
}

interface LiveRow {
  readonly gen: number;
  readonly head: number | null;
  readonly horizon: number;
  readonly settings: string | null;
  readonly tags: string;
  readonly holder: string | null;
}

/**
 * What a branch ever was beside its tree, as its disk had it: its tags, its settings, and which commits can be read. Each commit
 * that goes is compared with the naive rule of what is kept (docs/contract.md) in the transaction that lets it go.
 */
export class FactsObserver {
  readonly states: Facts[] = [NOTHING];
  /** What should not have been done: commits that went and were to stay, writes into what somebody else alone may write to. */
  readonly faults: string[] = [];
  /** What commits of lifecycle rules deleted. */
  readonly expired = new Map<string, readonly Expired[]>();
  readonly #object: SimulatedObject;
  readonly #world: World;
  readonly #stamp: () => number;
  /** All other branches, which may be forks of this one. */
  readonly #others: () => readonly SimulatedObject[];
  /** Commits by their ids; one that came back out of an archive is of several generations. */
  readonly #made = new Map<string, Made[]>();
  /** Of those, what is not on the disk yet. */
  #unsafe: Made[] = [];
  #known = { text: "", now: NOTHING };
  #looked: Looked = {};
  #written: Facts[] = [];

  constructor(
    object: SimulatedObject,
    options: {
      readonly world: World;
      readonly stamp: () => number;
      readonly others: () => readonly SimulatedObject[];
    },
  ) {
    this.#object = object;
    this.#world = options.world;
    this.#stamp = options.stamp;
    this.#others = options.others;
    object.storage.watch({
      wrote: () => this.#look(),
      flushed: () => this.#keep(),
      lost: () => this.#forget(),
    });
  }

  get last(): Facts {
    return this.states.at(-1) ?? NOTHING;
  }

  between(from: number, to: number): readonly Facts[] {
    return statesBetween(this.states, { from, to });
  }

  /** Whether a commit could be read. */
  shows({ generation, head, gone }: Facts, commit: string): boolean {
    const made = this.#madeIn(generation, commit);
    return made !== undefined && made.seq <= head && !gone.has(commit);
  }

  /** Those of the branch as it is now, that can be read. */
  shown(): string[] {
    return [...this.#made.keys()].filter((commit) => this.shows(this.last, commit));
  }

  /** When a commit was made, by the branch's clock. */
  madeAt(commit: string): number {
    return this.#made.get(commit)?.[0]?.createdAt ?? 0;
  }

  /** Those of a moment that can be read, the newest first. */
  listed(facts: Facts): { readonly id: string; readonly seq: number }[] {
    return [...this.#made.keys()]
      .filter((commit) => this.shows(facts, commit))
      .flatMap((id) => this.seqsOf([id]).map((seq) => ({ id, seq })))
      .sort((one, other) => other.seq - one.seq);
  }

  /** The number of a commit of the branch, whether it can be read or not; undefined: it is none of it, or not yet. */
  seqIn({ generation, head }: Facts, commit: string): number | undefined {
    const made = this.#madeIn(generation, commit);
    return made && made.seq <= head ? made.seq : undefined;
  }

  #madeIn(generation: number | null, commit: string): Made | undefined {
    return this.#made.get(commit)?.find(({ gen }) => gen === generation);
  }

  filesAtHead(): Expired[] {
    return this.#object.storage.read<TaggedRow>(AT_HEAD, this.last.generation).map(taggedOf);
  }

  /** The numbers of commits. */
  seqsOf(commits: Iterable<string>): number[] {
    return [...commits].flatMap((commit) => this.#made.get(commit)?.[0]?.seq ?? []);
  }

  /** By the naive rule: whether a commit that can be read is to stay, as the branch is and at this time. */
  isToStay(facts: Facts, commit: string): boolean {
    const made = this.#madeIn(facts.generation, commit);
    if (!made) return false;
    const { tags, graces, horizon } = facts;
    if (made.seq >= horizon && this.#isInRange(facts, made)) return true;
    if ([...tags.values()].includes(commit) || (graces.get(commit) ?? 0) > this.#world.latestClock)
      return true;
    if (this.#object.storage.read(BEGUN_WITH, made.gen, made.seq).length > 0) return true;
    const [imported] = this.#object.storage.read<{ uid: string }>(IMPORTED, made.gen);
    // What came back out of an archive is no parent of forks that were there before: an earlier generation is.
    return this.isForked(commit, imported ? decodeTime(imported.uid) + LONGEST_BACK_MS : 0);
  }

  /** Whether a branch stands that was made, later than a time, from a commit of whatever generation. */
  isForked(commit: string, after = 0): boolean {
    return this.#others().some(
      ({ storage }) =>
        storage.has("forks") && storage.read(FORKED_FROM, this.#object.name, commit, after).length > 0,
    );
  }

  /** Whether a commit is one of those that a branch is set to keep: its newest, and those replaced a short time ago. */
  #isInRange({ head, settled: { keep } }: Facts, { gen, seq }: Made): boolean {
    const { commits, days } = keep ?? {};
    if (seq === head || (commits === undefined && days === undefined)) return true;
    if (commits !== undefined && seq > head - commits) return true;
    if (days === undefined) return false;
    const next = [...this.#made.values()].flat().find((other) => other.gen === gen && other.seq === seq + 1);
    return (next?.createdAt ?? this.#now) > this.#now - days * DAY_MS;
  }

  get #now(): number {
    return Math.floor(this.#world.clock);
  }

  #keep(): void {
    for (const facts of this.#written) this.states.push({ ...facts, since: this.#stamp() });
    this.#written = [];
    this.#unsafe = [];
  }

  #forget(): void {
    this.#written = [];
    for (const { id, gen } of this.#unsafe) {
      const others = this.#made.get(id)?.filter((made) => made.gen !== gen) ?? [];
      if (others.length > 0) this.#made.set(id, others);
      else this.#made.delete(id);
    }
    this.#unsafe = [];
    this.#known = { text: "", now: this.last };
    this.#looked = {};
  }

  #look(): void {
    const { storage } = this.#object;
    const before = this.#known.now;
    const live = storage.look<LiveRow>(LIVE);
    const [row] = live;
    if (!row) {
      if (before.generation !== null) this.#add("", NOTHING);
      return;
    }
    const { gen, head, horizon, settings, holder } = row;
    const rows = horizon > 0 ? storage.look<IdRow>(READABLE, gen, horizon) : null;
    if (live === this.#looked.live && rows === this.#looked.readable) return;
    this.#looked = { live, readable: rows };
    const readable = rows?.map(({ id }) => id) ?? null;
    const text = JSON.stringify([row, readable]);
    if (text === this.#known.text) return;
    const isSame = before.generation === gen;
    this.#meet(gen, isSame ? before : undefined);
    const tags = new Map<string, string>(JSON.parse(row.tags));
    const untagged = isSame ? [...before.tags].filter(([name, commit]) => tags.get(name) !== commit) : [];
    const facts: Facts = {
      since: 0,
      generation: gen,
      head: head ?? 0,
      horizon,
      tags,
      settled: settings === null ? PLAIN : settledOf(JSON.parse(settings)),
      holder,
      gone: readable === null ? new Set() : this.#goneOf(gen, new Set(readable)),
      graces: new Map([
        ...(isSame ? before.graces : []),
        ...untagged.map(([, commit]) => [commit, this.#now + DAY_MS] as const),
      ]),
    };
    if (isSame && horizon > 0) this.#compareGone(before, facts);
    this.#add(text, facts);
  }

  /** Commits that are new since a moment of their generation; undefined: all of it are. */
  #meet(generation: number, before: Facts | undefined): void {
    const { storage } = this.#object;
    for (const made of storage.look<Made>(NEW_COMMITS, generation, before?.head ?? 0)) {
      this.#made.set(made.id, [...(this.#made.get(made.id) ?? []), made]);
      this.#unsafe.push(made);
      if (before) this.#admit(before.settled, made);
      // One that comes back out of an archive may come without what expired by it.
      if (made.annotation?.includes("expired by") && !this.expired.has(made.id))
        this.expired.set(made.id, storage.read<TaggedRow>(DIED, generation, made.seq).map(taggedOf));
    }
  }

  /** Into a protected branch one key alone writes. */
  #admit({ writer }: Settled, { id, key, origin }: Made): void {
    if (writer === null || ("key" in writer ? writer.key === key : origin !== null)) return;
    this.faults.push(
      `${this.#object.name} took ${id} of ${key}, and is protected for ${JSON.stringify(writer)}`,
    );
  }

  #compareGone(before: Facts, after: Facts): void {
    const { name } = this.#object;
    for (const made of [...this.#made.values()].flat()) {
      const { gen, seq, id } = made;
      const isPassed = gen === after.generation && seq >= before.horizon && seq < after.horizon;
      if (isPassed && this.#isInRange(after, made))
        this.faults.push(`${name} gave up ${id}, which it is set to keep: ${shownFacts(after)}`);
    }
    for (const commit of after.gone)
      if (!before.gone.has(commit) && this.isToStay(after, commit))
        this.faults.push(`${name} let go of ${commit}, which was to stay: ${shownFacts(after)}`);
    for (const commit of before.gone)
      if (!after.gone.has(commit)) this.faults.push(`${name} has ${commit} again, which was gone`);
  }

  #goneOf(generation: number, readable: ReadonlySet<string>): ReadonlySet<string> {
    return new Set(
      [...this.#made.values()]
        .flat()
        .filter(({ id, gen }) => gen === generation && !readable.has(id))
        .map(({ id }) => id),
    );
  }

  #add(text: string, facts: Facts): void {
    this.#known = { text, now: facts };
    this.#written.push(facts);
  }
}

function taggedOf({ path, tags }: TaggedRow): Expired {
  return { path, tags: JSON.parse(tags ?? "[]") };
}

function settledOf([isPublic, emptyOnly, writer, keep, lifecycle, cors, modified, nearReads]: [
  number,
  number,
  Settled["writer"],
  Settled["keep"],
  Settled["lifecycle"],
  Settled["cors"],
  Settled["modified"],
  number,
]): Settled {
  const flags = { public: isPublic === 1, emptyOnly: emptyOnly === 1 };
  return { ...flags, writer, keep, lifecycle, cors, modified, nearReads: nearReads === 1 };
}

/** What a branch is set to, in the order in which it is compared. */
export function inOrder(settled: Settled): Settled {
  const { public: isPublic, emptyOnly, writer, keep, lifecycle, cors, modified, nearReads } = settled;
  return { public: isPublic, emptyOnly, writer, keep, lifecycle, cors, modified, nearReads };
}

export function shownFacts({ generation, head, tags, settled }: Facts): string {
  if (generation === null) return "no branch";
  return `${head} commits, tags ${JSON.stringify([...tags])}, ${JSON.stringify(settled)}`;
}
