import type { ContentId } from "../../../protocol/content.ts";
import type { FileEntry } from "../../../protocol/files.ts";
import type { BranchApi } from "../../branch/contract/api.ts";
import type { ListEntry } from "../../branch/contract/files.ts";
import type { CommitPosition } from "../../branch/contract/pipelines.ts";
import { ancestors, type Glob } from "../../core/glob.ts";
import { comparePaths } from "../../core/path-order.ts";

/** Most calls that the looks of one request make together to the branches of its inputs. */
export const MAX_LOOK_CALLS = 200;
/** After so long the looks of one request end; milliseconds. */
const MAX_LOOK_MS = 2000;
/** Entries in one call. */
const PAGE_ENTRIES = 1000;
/** Most matches that one look keeps the paths of. It counts the others. */
export const MAX_KEPT_MATCHES = 5000;
/**
 * What any look may call, so that each has seen the beginning of its branch, however much the others read. More than 40 inputs
 * come to more than MAX_LOOK_CALLS by these alone.
 */
const OWN_CALLS = { newest: 4, after: 5 };

/** What a branch holds for an input now. */
export interface Look {
  /** The newest commit; null if there is none. */
  readonly commit: string | null;
  /** Whether there is a file. */
  readonly hasData: boolean;
  /** How many files and directories were seen that the glob matches. */
  readonly matches: number;
  /** The first of them, in order of their paths, MAX_KEPT_MATCHES at most; "" is the root. */
  readonly paths: readonly string[];
  /** What is in those of `paths` that are files. */
  readonly files: ReadonlyMap<string, ContentId>;
  /** Where the branch was looked at, and since when; null if it has no commit. */
  readonly at: (CommitPosition & { readonly since?: CommitPosition }) | null;
  /** Whether `matches` are all. */
  readonly complete: boolean;
}

/** How often a look begins anew. */
const TRIES = 5;

const NOTHING: Look = {
  ...{ commit: null, hasData: false, matches: 0, paths: [], files: new Map(), at: null, complete: true },
};

/** What the looks of one request may still do together: a request's calls and time have a bound, however large its branches are. */
export class LookBudget {
  #calls: number;
  readonly #now: () => number;
  readonly #endsAt: number;

  /** `inputs`: of the request, each of which has calls of its own. `now`: milliseconds. */
  constructor({
    inputs,
    now = Date.now,
  }: {
    readonly inputs: readonly { readonly from: string | null }[];
    readonly now?: () => number;
  }) {
    const own = inputs.map(({ from }) => (from === null ? OWN_CALLS.newest : OWN_CALLS.after));
    this.#calls = MAX_LOOK_CALLS - own.reduce((sum, calls) => sum + calls, 0);
    this.#now = now;
    this.#endsAt = now() + MAX_LOOK_MS;
  }

  /** Takes one more call, if there is one and time is left. */
  take(): boolean {
    if (this.#calls <= 0 || this.#now() >= this.#endsAt) return false;
    this.#calls--;
    return true;
  }
}

/** A place in the tree, and what is asked for behind it. */
interface PageRequest {
  readonly prefix: string;
  readonly after?: string;
  readonly limit: number;
}

interface TreePage<Entry = FileEntry> {
  readonly entries: readonly Entry[];
  readonly next: string | null;
}

/** The tree that a look reads. */
interface Tree {
  /** File by file, in order of their paths. */
  page(request: PageRequest): Promise<TreePage>;
  /** As `page`, but each directory below the prefix is one entry. Absent: the branch does not tell it so. */
  folded?(request: PageRequest): Promise<TreePage<ListEntry>>;
}

/** Looks at the newest commit of a branch. */
export function lookAtInput(branch: BranchApi, glob: Glob, budget = alone({ from: null })): Promise<Look> {
  return lookAtNewest(branch, budget, async (commit) => {
    const tree: Tree = {
      page: (request) => listed<FileEntry>(branch, { ...request, commit }),
      folded: (request) => listed<ListEntry>(branch, { ...request, commit, delimiter: "/" }),
    };
    const seen = await lookAtTree(tree, glob, budget);
    return { commit, ...seen, at: await branch.feed.position({ commit }) };
  });
}

/** Looks at those files of a branch's newest commit that were written after another commit. */
export function lookAfter(
  branch: BranchApi,
  { glob, from }: { glob: Glob; from: string },
  budget = alone({ from }),
): Promise<Look> {
  const look = async (commit: string): Promise<Look> => {
    const [head, since] = await Promise.all([
      branch.feed.position({ commit }),
      branch.feed.position({ commit: from }),
    ]);
    if (!since) return NOTHING;
    if (!head) throw new Error(`the commit ${commit} is not there any more`);
    const at = { ...head, since };
    const page = async ({ after = "", ...request }: PageRequest): Promise<TreePage> => {
      const { files, next } = await branch.feed.filesAt({ ...at, ...request, after });
      return { entries: files, next };
    };
    return { commit, ...(await lookAtTree({ page }, glob, budget)), at };
  };
  return lookAtNewest(branch, budget, look, { from });
}

function alone(input: { readonly from: string | null }): LookBudget {
  return new LookBudget({ inputs: [input] });
}

/**
 * Looks at the newest commit. A branch that keeps few may have given that back before the last page is read, or the one that the
 * look begins after: then there is a newer one to look at, with what is left of the budget.
 */
async function lookAtNewest(
  branch: BranchApi,
  budget: LookBudget,
  look: (commit: string) => Promise<Look>,
  { from }: { from?: string } = {},
): Promise<Look> {
  for (let tries = 1; ; tries++) {
    const status = await branch.lifecycle.status();
    if (!status.ok || status.head === null) return NOTHING;
    try {
      return await look(status.head);
    } catch (error) {
      const read = [status.head, ...(from === undefined ? [] : [from])];
      const places = await Promise.all(read.map((commit) => branch.feed.position({ commit })));
      if (tries === TRIES || !places.includes(null)) throw error;
      // A look that begins anew makes the same few calls again.
      for (let call = 0; call < OWN_CALLS.after; call++) budget.take();
    }
  }
}

/** A branch that is deleted meanwhile holds nothing more. Throws if the commit is not there any more. */
async function listed<Entry>(
  branch: BranchApi,
  request: PageRequest & { readonly commit: string; readonly delimiter?: "/" },
): Promise<TreePage<Entry>> {
  const page = await branch.files.list({ ...request, anyGeneration: true });
  // Without a delimiter there are no common prefixes.
  if (page.ok) return { entries: page.entries as readonly Entry[], next: page.next };
  if (page.reason === "no-such-branch") return { entries: [], next: null };
  throw new Error(`the commit ${request.commit} could not be read: ${page.reason}`);
}

type Seen = Pick<Look, "hasData" | "matches" | "paths" | "files" | "complete">;

async function lookAtTree(tree: Tree, glob: Glob, budget: LookBudget): Promise<Seen> {
  const found = new Matches(glob);
  // A glob that matches the root alone says nothing of what is in it.
  const isRoot = glob.prefix === "" && !glob.mayMatchBelow("");
  const complete = isRoot || (await walk(tree, { glob, found, budget }));
  const hasData = found.hasData || (await holdsFile(tree, budget));
  if (hasData && glob.matches("")) found.add("");
  return { hasData, complete, ...found.all() };
}

/** Empty directories do not count. A first file behind many thousands of them is not seen. */
async function holdsFile(tree: Tree, budget: LookBudget): Promise<boolean> {
  let page = await tree.page({ prefix: "", limit: 1 });
  while (page.entries.every(({ kind }) => kind !== "file")) {
    if (page.next === null || !budget.take()) return false;
    page = await tree.page({ prefix: "", after: page.next, limit: PAGE_ENTRIES });
  }
  return true;
}

/** What a glob matches, counted, and the first of it kept. */
class Matches {
  readonly #glob: Glob;
  readonly #paths: string[] = [];
  readonly #files = new Map<string, ContentId>();
  #count = 0;
  /** Whether a file was seen, be it a match or not. */
  hasData = false;

  constructor(glob: Glob) {
    this.#glob = glob;
  }

  /** One path, if the glob matches it; a file with what is in it. */
  add(path: string, content?: ContentId): void {
    if (!this.#glob.matches(path)) return;
    this.#count++;
    if (this.#paths.length === MAX_KEPT_MATCHES) return;
    this.#paths.push(path);
    if (content) this.#files.set(path, { digest: content.digest, size: content.size });
  }

  /** A file, or an empty directory "a/b/", and the directories above it that the path before it was not in. */
  addWithAncestors(entry: FileEntry, before: string): void {
    const { kind, path } = entry;
    // Directories that both are in end at the last "/" of what both begin with.
    let same = 0;
    while (same < path.length && path[same] === before[same]) same++;
    for (let at = path.indexOf("/", same); at !== -1; at = path.indexOf("/", at + 1)) {
      this.add(path.slice(0, at));
    }
    if (kind !== "file") return;
    this.hasData = true;
    this.add(path, entry);
  }

  all(): Pick<Look, "matches" | "paths" | "files"> {
    const paths = this.#paths.toSorted(comparePaths);
    return { matches: this.#count, paths, files: this.#files };
  }
}

interface Walk {
  readonly glob: Glob;
  readonly found: Matches;
  readonly budget: LookBudget;
}

/**
 * Reads file by file, since many small directories come in one page. If a page ends in a directory with nothing more to find,
 * such as one that the glob matches as a whole, it goes on behind that, so that a directory with a million files costs a page.
 * If that comes again in the same directory, the next ones there come folded, a thousand in a page, up to one in which there may
 * be matches. Says whether it came to the end.
 */
async function walk(tree: Tree, walking: Walk): Promise<boolean> {
  const { glob, found, budget } = walking;
  const passing = new Passing(tree, walking);
  /** Up to here all was seen. */
  let at = "";
  /** The last entry: the directories that it is in are counted. A page may end behind it, at one that is not shown. */
  let before = "";
  // The first page is a call that each look has.
  for (let isFirst = true; isFirst || budget.take(); isFirst = false) {
    const page = await tree.page({ prefix: glob.prefix, after: at, limit: PAGE_ENTRIES });
    for (const entry of page.entries) {
      found.addWithAncestors(entry, before);
      before = entry.path;
    }
    if (page.next === null) return true;
    at = page.next;
    const closed = closedDirectory(glob, before);
    // What is behind the last entry may be elsewhere: a page can be short.
    if (closed === undefined || !at.startsWith(closed)) continue;
    const behind = await passing.over(closed);
    if (behind.open === "end" || behind.open === "cut") return behind.open === "end";
    at = behind.at;
    before = behind.open ?? before;
  }
  return false;
}

/** How a walk passes over directories. */
class Passing {
  readonly #tree: Tree;
  readonly #walk: Walk;
  #folded: Folded | undefined;
  /** Where the last one was. */
  #in: string | undefined;

  constructor(tree: Tree, walking: Walk) {
    this.#tree = tree;
    this.#walk = walking;
  }

  /** Where the walk goes on behind a directory, which may be in one, `open`, that is counted already; or that it has ended. */
  async over(closed: string): Promise<{ readonly at: string; readonly open?: string | "end" | "cut" }> {
    const { folded } = this.#tree;
    const { prefix } = this.#walk.glob;
    const parent = foldedAt(closed, this.#walk.glob);
    const isAgain = this.#in === parent;
    this.#in = parent;
    if (!folded || !isAgain) return { at: endOf(closed) };
    if (this.#folded?.prefix !== parent) this.#folded = new Folded(folded, parent);
    const open = await this.#folded.pass(closed, this.#walk);
    if (open !== null) return { at: open, open };
    return parent.length <= prefix.length ? { at: "", open: "end" } : { at: endOf(parent) };
  }
}

/** The entries of one directory, each directory in it one of them. */
class Folded {
  readonly prefix: string;
  readonly #read: NonNullable<Tree["folded"]>;
  #entries: readonly ListEntry[] = [];
  #next: string | null = null;

  constructor(read: NonNullable<Tree["folded"]>, prefix: string) {
    this.#read = read;
    this.prefix = prefix;
  }

  /** Counts what comes behind a directory, up to one in which there may be matches, and names that; null: there is none. */
  async pass(directory: string, { glob, found, budget }: Walk): Promise<string | "cut" | null> {
    this.#entries = this.#entries.filter(({ path }) => comparePaths(path, directory) > 0);
    // What was read of the directory's neighbours before ends before it: they are read from here on.
    if (this.#entries.length === 0) this.#next = directory;
    for (;;) {
      for (const [index, entry] of this.#entries.entries()) {
        const { kind, path } = entry;
        if (kind === "file") {
          found.hasData = true;
          found.add(path, entry);
        }
        if (kind !== "prefix") continue;
        const name = path.slice(0, -1);
        found.add(name);
        if (!glob.mayMatchBelow(name)) continue;
        this.#entries = this.#entries.slice(index + 1);
        return path;
      }
      if (this.#next === null) return null;
      if (!budget.take()) return "cut";
      const page = await this.#read({ prefix: this.prefix, after: this.#next, limit: PAGE_ENTRIES });
      this.#entries = page.entries;
      this.#next = page.next;
    }
  }
}

/** The highest directory of a path, with its slash, in which nothing more can match; undefined: there is none. */
function closedDirectory(glob: Glob, path: string): string | undefined {
  const directory = ancestors(path).find((above) => above !== "" && !glob.mayMatchBelow(above));
  return directory === undefined ? undefined : `${directory}/`;
}

/** The prefix by which a directory's neighbours are listed. */
function foldedAt(directory: string, { prefix }: Glob): string {
  const parent = directory.slice(0, directory.lastIndexOf("/", directory.length - 2) + 1);
  return prefix.length > parent.length ? prefix : parent;
}

/** Behind all paths in a directory: none is longer than 1,024 bytes, and no character is greater. */
function endOf(directory: string): string {
  return directory + "\u{10ffff}".repeat(256);
}
