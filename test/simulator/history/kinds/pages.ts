import type { ListEntry } from "../../../../worker/branch/contract/files.ts";
import type { Random } from "../../platform/random.ts";
import { askAside, refusedAside, type Said } from "../asides.ts";
import { entryOf, isPageOf, type PageAsked } from "../pages.ts";
import type { Kind, Stage, Turn } from "../stage.ts";
import { isSame } from "../states.ts";
import { treeOf } from "./keep.ts";

/** Listings in pages, of the tree as it is or was. */
export const PAGE_KINDS = {
  page: { weight: 3, take: page },
} satisfies Record<string, Kind>;

const PREFIXES = ["", "", "d", "dir/", "dir/sub/", "a", "x"];
const MARKS = ["", "a", "b", "dir/", "dir/c", "dir/sub/", "dir/sub/e", "zz"];
/** Pages that one client reads one after the other. */
export const PAGES = 3;

export function somePage(random: Random): PageAsked {
  return {
    prefix: random.pick(PREFIXES),
    ...(random.chance(0.5) && { delimiter: "/" as const }),
    ...(random.chance(0.4) && { after: random.pick(MARKS) }),
    limit: random.chance(0.5) ? 1 + random.below(3) : 1000,
  };
}

/** The tree at HEAD or at a commit that the branch made once, to somebody who may have no key. */
async function page(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const commits = (stage.observers.get(bucket)?.states ?? []).flatMap(({ commit }) => commit ?? []);
  const commit = commits.length > 0 && random.chance(0.4) ? random.pick(commits) : undefined;
  const publicOnly = random.chance(0.2);
  const isByView = random.chance(0.3);
  let asked = somePage(random);
  for (let n = 0; n < PAGES; n++) {
    const one = asked;
    const view = commit === undefined ? {} : isByView ? { openCommit: commit } : { commit };
    const request = {
      ...one,
      ...view,
      ...(publicOnly && { publicOnly }),
      ...(random.chance(0.3) && { modified: "file" as const }),
    };
    const answer = await askAside(
      stage,
      { id: `${id}.${n}`, bucket, text: `page ${id}.${n} ${JSON.stringify(request)}` },
      {
        call: () => stage.branch(bucket).files.list(request),
        saidOf: (list): Said => {
          if (!list.ok) return viewRefused(list.reason, { commit, publicOnly, isByView });
          const read = { names: list.entries.map(({ path }) => path), next: list.next };
          return {
            kind: "saw",
            what: `page ${JSON.stringify(read)}`,
            of: (facts, observer, state) => {
              if (facts.generation === null || (publicOnly && !facts.settled.public)) return false;
              if (commit !== undefined && !observer.shows(facts, commit)) return false;
              const tree = commit === undefined ? state.tree : stage.stateOf(bucket, commit)?.tree;
              const left =
                tree && leftOf(stage, { tree, entries: list.entries, next: list.next, asked: one });
              return left !== undefined && isPageOf(left.keys(), one, read) && hasDigests(left, list.entries);
            },
          };
        },
      },
    );
    if (!answer?.ok || answer.next === null) return;
    asked = { ...one, after: answer.next };
  }
}

/** A tree without what somebody wanted to be erased and is not listed, though it would be on the page. */
function leftOf(
  stage: Stage,
  {
    tree,
    entries,
    next,
    asked,
  }: {
    tree: ReadonlyMap<string, string>;
    entries: readonly ListEntry[];
    next: string | null;
    asked: PageAsked;
  },
): ReadonlyMap<string, string> {
  const listed = new Set(entries.map(({ path }) => path));
  const mayBeGone = (path: string, digest: string) =>
    stage.erased.some((one) => one.path === path && one.digest === digest);
  return new Map(
    [...tree].filter(([path, digest]) => {
      const name = entryOf(path, asked);
      const isBehind = next !== null && name !== undefined && name > next;
      return isBehind || listed.has(name ?? "") || !mayBeGone(path, digest);
    }),
  );
}

function hasDigests(tree: ReadonlyMap<string, string>, entries: readonly ListEntry[]): boolean {
  const listed = treeOf(entries);
  return isSame(listed, new Map([...tree].filter(([path]) => listed.has(path))));
}

/** A view that is not there, or not for everybody. */
export function viewRefused(
  reason: string,
  {
    commit,
    publicOnly,
    isByView = false,
  }: { commit: string | undefined; publicOnly: boolean; isByView?: boolean },
): Said {
  if (reason === "not-public")
    return {
      kind: "saw",
      what: reason,
      of: ({ generation, settled }) => publicOnly && (generation === null || !settled.public),
    };
  if (reason === "no-such-version" || (isByView && reason === "no-such-open-commit"))
    return {
      kind: "saw",
      what: reason,
      of: (facts, observer) => commit !== undefined && !observer.shows(facts, commit),
    };
  return refusedAside({ reason });
}
