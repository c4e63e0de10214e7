import type { AnswerOf } from "../../../branch/contract/answers.ts";
import type { BranchApi } from "../../../branch/contract/api.ts";
import type { CommitPosition, FeedCalls } from "../../../branch/contract/pipelines.ts";
import type { Peers } from "../../context.ts";
import { isAfter } from "../../inputs/source-store.ts";
import type { Definition, InputRule, Revision } from "../../lifecycle/definition.ts";

type Unplaced = Pick<InputRule, "repo" | "branch" | "from">;

/**
 * Where each input's `from` stands in the history of its branch. Asked for once, when a version of the specification is
 * submitted, and written down with it; what the version before had is taken from there. Returns undefined if a branch
 * has no such commit.
 */
export async function findStarts(
  peers: Peers,
  inputs: readonly Unplaced[],
  before: readonly InputRule[] = [],
): Promise<Revision["starts"] | undefined> {
  const starts: (CommitPosition | null)[] = [];
  for (const input of inputs) {
    const start = input.from === null ? null : await startOf(peers, input, before);
    if (start === undefined) return undefined;
    starts.push(start);
  }
  return starts;
}

async function startOf(
  peers: Peers,
  { repo, branch, from }: Unplaced,
  before: readonly InputRule[],
): Promise<CommitPosition | undefined> {
  const known = before.find(
    (input) => input.repo === repo && input.branch === branch && input.from === from,
  )?.start;
  if (known) return known;
  const found = await peers.branch({ repo, branch }).feed.position({ commit: from ?? "" });
  return found ? { generation: found.generation, seq: found.seq } : undefined;
}

/** What of a branch belongs to an input at a position, as a Branch object is asked for it. */
export function writtenSince(
  start: CommitPosition | null,
  { generation, seq }: CommitPosition,
): CommitPosition & { since?: CommitPosition } {
  return start === null ? { generation, seq } : { generation, seq, since: start };
}

/**
 * The last place that an input of a source starts at, or null if none of them starts late. What that input has the
 * others have too: if it holds a file, so does each input of the source.
 */
export function lastStart({ inputs }: Definition, source: number): CommitPosition | null {
  let last: CommitPosition | null = null;
  for (const { source: read, start } of inputs) {
    if (read === source && start && (!last || isAfter(start, last))) last = start;
  }
  return last;
}

/** Files asked for at a time while looking for the first that is not an empty directory. */
const PAGE = 500;

/** Whether a file that was written after `start` is there at a position. An empty directory does not count. */
export async function holdsFile(
  branch: BranchApi,
  { at, start }: { at: CommitPosition; start: CommitPosition | null },
): Promise<boolean> {
  const asked = writtenSince(start, at);
  let after: string | null = "";
  for (let limit = 1; after !== null; limit = PAGE) {
    const page: AnswerOf<FeedCalls["filesAt"]> = await branch.feed.filesAt({
      ...asked,
      prefix: "",
      after,
      limit,
    });
    if (page.files.some(({ kind }) => kind === "file")) return true;
    after = page.next;
  }
  return false;
}
