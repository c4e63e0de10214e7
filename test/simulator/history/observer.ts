import type { SimulatedObject } from "../platform/objects.ts";
import { attributesOf, type Filled, isSame, NOTHING, type State, statesBetween } from "./states.ts";

interface CommitRow {
  readonly seq: number;
  readonly id: string;
  readonly annotation: string | null;
  readonly origin: string | null;
}

/** One whose rows are still being copied is seen by nobody. */
const GENERATIONS = `
  SELECT gen, deletedAt FROM generations
  WHERE gen >= ? AND NOT EXISTS (SELECT 1 FROM forks WHERE forks.gen = generations.gen AND state < 2) ORDER BY gen`;
const NEW_COMMITS = `
  SELECT seq, id, annotation, origin FROM commits WHERE gen = ? AND seq > ? AND kind = 0 ORDER BY seq`;

/** Of (?1 gen): what is filled, each by itself, and then all that is in it. */
const FILLED = `
  SELECT id AS name, state, NULL AS goesInto, NULL AS path, NULL AS initiatedAt, NULL AS entry, NULL AS value,
    ifnull(annotation, '') LIKE '%expired by the lifecycle rule%' AS isByRule FROM open_commits
  WHERE gen = ?1 AND origin IS NULL AND state < 2
  UNION ALL
  SELECT id, state, NULL, NULL, NULL, path,
    ifnull(lower(hex(digest)), '') || ' ' || ifnull(precondition, '') || ' ' || iif(bytesAt IS NULL, '', 'tags'), 0
  FROM open_commits JOIN staged ON openCommit = number WHERE gen = ?1 AND origin IS NULL AND state < 2
  UNION ALL
  SELECT upload, 0, openCommit, path, initiatedAt, NULL, NULL, 0 FROM multiparts
  WHERE gen = ?1 AND (openCommit IS NULL OR openCommit IN (SELECT id FROM open_commits WHERE state < 2))
  UNION ALL
  SELECT upload, 0, openCommit, NULL, NULL, number, lower(hex(parts.digest)), 0 FROM multiparts JOIN parts USING (upload)
  WHERE gen = ?1 AND (openCommit IS NULL OR openCommit IN (SELECT id FROM open_commits WHERE state < 2))`;

interface FilledRow {
  readonly name: string;
  readonly state: number;
  readonly goesInto: string | null;
  readonly path: string | null;
  readonly initiatedAt: number | null;
  readonly entry: string | number | null;
  readonly value: string | null;
  readonly isByRule: 0 | 1;
}

interface FileRow {
  readonly path: string;
  readonly digest: Uint8Array;
  readonly born: number;
  readonly attributes: string | null;
}

interface GenerationRow {
  readonly gen: number;
  readonly deletedAt: number | null;
}

/** Of (? gen): the archive that a generation came out of, and the last commit that came so. */
const ARCHIVE = `
  SELECT archive, head FROM imports JOIN generations USING (uid) WHERE generations.gen = ? AND state = 1`;

interface ArchiveRow {
  readonly archive: string;
  readonly head: number;
}

/**
 * Everything that a branch ever was, as its disk had it: it looks after each transaction, so what goes later by retention or by an
 * erasure was seen before. All of it is one sequence, which is what clients are compared with.
 */
export class BranchObserver {
  readonly states: State[] = [NOTHING];
  readonly #object: SimulatedObject;
  readonly #stamp: () => number;
  readonly #now: () => number;
  /** The newest generation that was seen, and its newest commit. */
  #newest = 0;
  #seq = 0;
  /** As they were when the disk had all. */
  #kept = { newest: 0, seq: 0 };
  /** What is not on the disk yet. */
  #written: State[] = [];

  constructor(
    object: SimulatedObject,
    { stamp, now }: { readonly stamp: () => number; readonly now: () => number },
  ) {
    this.#object = object;
    this.#stamp = stamp;
    this.#now = now;
    object.storage.watch({
      wrote: () => this.#look(),
      flushed: () => this.#keep(),
      lost: () => this.#forget(),
    });
  }

  get last(): State {
    return this.states.at(-1) ?? NOTHING;
  }

  /** What it may have been between two moments: from what was on the disk at the first up to what was at the second. */
  between(from: number, to: number): readonly State[] {
    return statesBetween(this.states, { from, to }).filter(({ isPassed }) => !isPassed);
  }

  #keep(): void {
    for (const state of this.#written) this.states.push({ ...state, since: this.#stamp() });
    this.#written = [];
    this.#kept = { newest: this.#newest, seq: this.#seq };
  }

  #forget(): void {
    this.#written = [];
    ({ newest: this.#newest, seq: this.#seq } = this.#kept);
  }

  #look(): void {
    const { storage } = this.#object;
    const seen = this.#written.length;
    // One that came and went between two looks was there, too.
    for (const { gen, deletedAt } of storage.look<GenerationRow>(GENERATIONS, this.#newest)) {
      const came = gen > this.#newest ? storage.read<ArchiveRow>(ARCHIVE, gen)[0] : undefined;
      if (gen > this.#newest) this.#begin(gen, came);
      for (const commit of storage.look<CommitRow>(NEW_COMMITS, gen, this.#seq))
        this.#commit(gen, { commit, came });
      if (deletedAt !== null && (this.#written.at(-1) ?? this.last).generation !== null) this.#add(NOTHING);
    }
    this.#lookBeside(seen);
  }

  /** What is filled changed together with the last of the states that were just seen, or alone. */
  #lookBeside(seen: number): void {
    const last = this.#written.at(-1) ?? this.last;
    if (last.generation === null) return;
    const rows = this.#object.storage.look<FilledRow>(FILLED, last.generation);
    if (rows.length === 0 && last.beside.size === 0) return;
    const beside = filledOf(rows, last.beside);
    if (isFilledAlike(beside, last.beside)) return;
    if (this.#written.length > seen) this.#written.pop();
    // It is no longer only what an archive had.
    const { archive: _, isPassed: __, ...now } = last;
    this.#add({ ...now, beside });
  }

  #begin(generation: number, came: ArchiveRow | undefined): void {
    this.#newest = generation;
    this.#seq = 0;
    const ofArchive = came && { archive: came.archive, isPassed: came.head > 0, isOfArchive: true };
    this.#add({ ...NOTHING, generation, ...ofArchive });
  }

  #commit(
    generation: number,
    { commit: { seq, id, annotation, origin }, came }: { commit: CommitRow; came: ArchiveRow | undefined },
  ): void {
    this.#seq = seq;
    const message = annotation === null ? null : ((JSON.parse(annotation).message as string) ?? null);
    const { beside } = this.#written.at(-1) ?? this.last;
    const ofArchive = came && seq <= came.head && { archive: came.archive, isPassed: seq < came.head };
    const last = this.#written.at(-1) ?? this.last;
    const isOfArchive = last.generation === generation && last.isOfArchive === true;
    this.#add({
      generation,
      commit: id,
      message,
      origin,
      beside,
      ...this.#tree(generation, seq),
      ...ofArchive,
      ...(isOfArchive && { isOfArchive }),
    });
  }

  #add(state: Omit<State, "since" | "at">): void {
    this.#written.push({ ...state, since: 0, at: this.#now() });
  }

  #tree(generation: number, seq: number): Pick<State, "tree" | "born" | "attributes"> {
    const rows = this.#object.storage.read<FileRow>(
      `SELECT path, digest, born, attributes FROM files
       WHERE gen = ?1 AND kind < 2 AND born <= ?2 AND (died IS NULL OR died > ?2)`,
      generation,
      seq,
    );
    return {
      tree: new Map(rows.map(({ path, digest }) => [path, Buffer.from(digest).toString("hex")])),
      born: new Map(rows.map(({ path, born }) => [path, born])),
      attributes: new Map(
        rows.flatMap(({ path, attributes }) =>
          attributes === null ? [] : [[path, attributesOf(JSON.parse(attributes))]],
        ),
      ),
    };
  }
}

/** While an open commit is applied, what it has goes bit by bit into the commit: it counts as it was when that began. */
function filledOf(
  rows: readonly FilledRow[],
  before: ReadonlyMap<string, Filled>,
): ReadonlyMap<string, Filled> {
  const beside = new Map<string, Filled & { readonly entries: Map<string, string> }>();
  for (const { name, state, goesInto, path, initiatedAt, entry, value, isByRule } of rows) {
    const isApplying = state === 1;
    const known = beside.get(name);
    if (!known) {
      const entries = new Map(isApplying ? before.get(name)?.entries : []);
      beside.set(name, { goesInto, path, initiatedAt, isByRule: isByRule === 1, isApplying, entries });
    } else if (!isApplying && !known.isByRule && entry !== null)
      known.entries.set(String(entry), value ?? "");
  }
  return beside;
}

function isFilledAlike(one: ReadonlyMap<string, Filled>, other: ReadonlyMap<string, Filled>): boolean {
  return (
    one.size === other.size &&
    [...one].every(([name, { isApplying, entries }]) => {
      const same = other.get(name);
      return same?.isApplying === isApplying && isSame(entries, same.entries);
    })
  );
}
