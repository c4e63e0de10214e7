import { isUlid } from "../../../protocol/names.ts";
import type { VersionEntry, VersionMark } from "../../../worker/branch/contract/files.ts";
import type { Facts, FactsObserver } from "./facts.ts";
import { entryOf, type PageAsked } from "./pages.ts";
import type { Stage } from "./stage.ts";
import type { State } from "./states.ts";

/*
 * The naive rule of versions: each is something that happened to a path at a commit. None is lacking that a commit has which can be
 * read, nor the deletion of such a one. What commits had that are kept no more may be listed yet. Of paths of which something was
 * to be erased, what is left is not told here.
 */

/** A page of versions, and a moment of the branch. */
export interface VersionsRead {
  readonly bucket: string;
  readonly facts: Facts;
  readonly observer: FactsObserver;
  readonly state: State;
  readonly request: Omit<PageAsked, "after"> & { readonly after?: VersionMark };
  readonly entries: readonly VersionEntry[];
  readonly next: VersionMark | null;
}

/** Something that happened to a path. */
interface PathEvent {
  readonly path: string;
  readonly seq: number;
  readonly version: string;
  /** Null: it was deleted. */
  readonly digest: string | null;
}

interface Events {
  readonly all: readonly PathEvent[];
  /** Those that must be listed. */
  readonly required: readonly PathEvent[];
}

/** Whether that is a page of the versions of that moment. */
export function isPageOfVersions(stage: Stage, read: VersionsRead): boolean {
  const { facts, state, request, entries } = read;
  const isErased = (path: string) => stage.erased.some((one) => one.path === path);
  const events = eventsOf(stage, read);
  return (
    facts.generation !== null &&
    facts.generation === state.generation &&
    entries.length <= request.limit &&
    entries.every(
      (entry) => entry.kind === "prefix" || isErased(entry.path) || isTrue(entry, { read, events }),
    ) &&
    isSorted(entries.filter(({ path }) => !isErased(path))) &&
    events.required.every((event) => isErased(event.path) || isListed(event, { read, events }))
  );
}

/** Whether a version is something that happened, and the newest of its path only if it is. */
function isTrue(
  { path, version, latest, ...entry }: Exclude<VersionEntry, { kind: "prefix" }>,
  { read: { observer, state, facts }, events: { all } }: { read: VersionsRead; events: Events },
): boolean {
  const seq = observer.seqIn(facts, version);
  const event = all.find((one) => one.path === path && one.seq === seq);
  // Commits that an archive says are gone have no state here.
  if (seq === undefined || !event) return state.isOfArchive === true;
  const digest = entry.kind === "version" ? entry.digest : null;
  const isLatest = digest === null ? !state.tree.has(path) && latest : state.born.get(path) === seq;
  return digest === event.digest && latest === isLatest;
}

/** By path, the newest of a path first: ids of commits grow. */
function isSorted(entries: readonly VersionEntry[]): boolean {
  return entries.every((entry, index) => {
    const before = entries[index - 1];
    if (!before || before.path < entry.path) return true;
    return (
      before.path === entry.path &&
      before.kind !== "prefix" &&
      entry.kind !== "prefix" &&
      before.version > entry.version
    );
  });
}

/** Whether an event is listed, or before the page, or behind it. */
function isListed(
  { path, version }: PathEvent,
  { read: { request, entries, next } }: { read: VersionsRead; events: Events },
): boolean {
  const { after, ...page } = request;
  const name = entryOf(path, page);
  if (name === undefined || !isBehind({ path, version }, after, page)) return true;
  const last = entries.at(-1);
  if (next !== null && !isUpTo({ name, version }, last)) return true;
  return entries.some((entry) =>
    entry.kind === "prefix" ? entry.path === name : entry.path === path && entry.version === version,
  );
}

function isBehind(
  { path, version }: { path: string; version: string },
  after: VersionMark | undefined,
  page: PageAsked,
): boolean {
  if (!after) return true;
  if (after.version !== undefined && isUlid(after.version) && path === after.path)
    // A mark within a folder is none of a version.
    return entryOf(path, page) === path && version < after.version;
  return entryOf(path, { ...page, after: after.path }) !== undefined;
}

function isUpTo(
  { name, version }: { name: string; version: string },
  last: VersionEntry | undefined,
): boolean {
  if (!last) return false;
  if (name !== last.path) return name < last.path;
  return last.kind === "prefix" || version >= last.version;
}

/** All that became of paths up to a state. */
function eventsOf(stage: Stage, { bucket, facts, observer, state }: VersionsRead): Events {
  const states = (stage.observers.get(bucket)?.states ?? []).filter(
    ({ generation, commit, since }) =>
      generation === state.generation && commit !== null && since <= state.since,
  );
  // What is filled beside the tree makes states without a commit of their own.
  const made = states.filter((one, index) => one.commit !== states[index - 1]?.commit);
  const lives = new Lives();
  for (const one of made) {
    const version = one.commit ?? "";
    lives.add(one, {
      version,
      seq: observer.seqIn(facts, version) ?? 0,
      isShown: observer.shows(facts, version),
    });
  }
  return lives.end();
}

/** The lives of rows: from the commit that wrote a path to the one that wrote or deleted it. */
class Lives {
  readonly #all: PathEvent[] = [];
  readonly #required: PathEvent[] = [];
  /** `isNamed`: the commit is known that wrote it; an archive may lack that. */
  readonly #alive = new Map<
    string,
    { readonly event: PathEvent; readonly isNamed: boolean; isKept: boolean }
  >();
  #last = 0;

  add(
    state: State,
    commit: { readonly version: string; readonly seq: number; readonly isShown: boolean },
  ): void {
    this.#leave(state, commit);
    this.#come(state, commit);
    this.#last = commit.seq;
  }

  #leave(
    { born }: State,
    { version, seq, isShown }: { readonly version: string; readonly seq: number; readonly isShown: boolean },
  ): void {
    for (const [path, row] of [...this.#alive]) {
      if (born.get(path) === row.event.seq) {
        row.isKept ||= isShown && row.isNamed;
        continue;
      }
      this.#alive.delete(path);
      if (row.isKept) this.#required.push(row.event);
      if (born.has(path)) continue;
      const deletion = { path, seq, version, digest: null };
      this.#all.push(deletion);
      // Between commits of an archive others may be gone, one of which deleted it.
      if (row.isKept && seq === this.#last + 1) this.#required.push(deletion);
    }
  }

  #come(
    { born, tree }: State,
    { version, seq, isShown }: { readonly version: string; readonly seq: number; readonly isShown: boolean },
  ): void {
    for (const [path, bornAt] of born) {
      if (this.#alive.has(path)) continue;
      const event = { path, seq: bornAt, version, digest: tree.get(path) ?? "" };
      const isOfCommit = bornAt === seq;
      if (isOfCommit) this.#all.push(event);
      this.#alive.set(path, { event, isNamed: isOfCommit, isKept: isShown && isOfCommit });
    }
  }

  end(): Events {
    const alive = [...this.#alive.values()].flatMap(({ event, isKept }) => (isKept ? [event] : []));
    return { all: this.#all, required: [...this.#required, ...alive] };
  }
}
