import { besideFaults, type Ending, type Endings, type Filling } from "./beside.ts";
import type { Seen, State, Tree } from "./states.ts";

/** Something that was asked of a branch. */
export interface Taken {
  /** It is in the message of the commit that comes of it, if one does; or it is the job that made it. */
  readonly id: string;
  readonly bucket: string;
  /** What was asked, for people. */
  readonly text: string;
  /** When it was asked and when the answer came, in the count of all that the history noted. Infinity: no answer came. */
  readonly begun: number;
  readonly ended: number;
  readonly answer: Answer;
  /** Whether it may lead from one state of the branch to the next. Absent: it makes no commit. */
  readonly leads?: (change: Change) => boolean;
  /** What it adds to an open commit, or to a multipart upload. */
  readonly fills?: Filling;
  /** The open commit, or multipart upload, that it may end without a commit. */
  readonly ends?: Ending;
  /** Two commits may come of it. */
  readonly isTwofold?: boolean;
}

export interface Change {
  readonly before: State;
  readonly after: State;
}

/** What came of it. */
export type Answer =
  /** The answer was lost: it may have been done or not, or be done yet. */
  | { readonly kind: "unknown" }
  /** A commit was made, or null: nothing had to be changed. */
  | { readonly kind: "made"; readonly commit: string | null }
  /** It went into what it fills. */
  | { readonly kind: "filled" }
  /** What was answered is true of these states. It may say that it is as old as that. */
  | {
      readonly kind: "saw";
      readonly what: string;
      readonly of: (state: State) => boolean;
      readonly ageMs?: number;
    };

export const UNKNOWN: Answer = { kind: "unknown" };

/** Branches as they were, by their buckets. */
export type Observed = ReadonlyMap<string, Seen>;

/**
 * What is wrong with a history, by the naive rule: each branch is one sequence of states. What leads from one to the next was
 * asked before it was there and answered after, by one commit each; and what was answered is true of some state between
 * question and answer. Empty: nothing is.
 *
 * `othersMake`: of a commit that no client asked for, whether it may be. `endings`: how what is filled may end by itself.
 */
export function faultsOf(
  taken: readonly Taken[],
  observed: Observed,
  {
    othersMake = () => false,
    endings,
  }: {
    readonly othersMake?: (bucket: string, change: Change) => boolean;
    readonly endings?: Endings;
  } = {},
): string[] {
  const byId = new Map(taken.map((one) => [`${one.bucket} ${one.id}`, one]));
  const faults: string[] = [];
  const made = new Map<Taken, State>();
  for (const [bucket, { states }] of observed) {
    for (const [at, after] of states.entries()) {
      const before = states[at - 1];
      if (!before) continue;
      faults.push(...stateFaults({ before, after }).map((fault) => `${bucket}: ${fault}`));
      if (after.commit === null || after.commit === before.commit || after.archive !== undefined) continue;
      // Of a job nothing is said: it is known by its id.
      const one = byId.get(`${bucket} ${after.origin ?? after.message}`);
      if (one) faults.push(...changeFaults(one, { before, after }, made));
      else if (!othersMake(bucket, { before, after }))
        faults.push(
          `${bucket}: nobody asked for the commit ${shownState(after)} after ${shownTree(before.tree)}`,
        );
    }
  }
  for (const one of taken) faults.push(...answerFaults(one, { observed, made: made.get(one) }));
  faults.push(...besideFaults(taken, observed, endings));
  return faults;
}

/** What is wrong with a state, whoever asked for it: what was not written anew is as it was, and no file is below a file. */
function stateFaults({ before, after }: Change): string[] {
  if (after.generation === null || after.tree === before.tree) return [];
  const isSame = (path: string) =>
    before.generation !== after.generation ||
    before.born.get(path) !== after.born.get(path) ||
    before.attributes.get(path) === after.attributes.get(path);
  return [...after.tree.keys()].flatMap((path) => [
    ...(isSame(path) ? [] : [`${path} has other attributes at ${after.commit}, and was not written`]),
    ...[...after.tree.keys()]
      .filter((other) => other.startsWith(`${path}/`))
      .map((other) => `${other} is below the file ${path} at ${after.commit}`),
  ]);
}

function changeFaults(one: Taken, change: Change, made: Map<Taken, State>): string[] {
  const { after, before } = change;
  const { bucket, text, answer } = one;
  const isSecond = made.has(one) && !one.isTwofold;
  made.set(one, after);
  return [
    isSecond && `${bucket}: ${text} made two commits`,
    after.since < one.begun && `${bucket}: ${text} made its commit before it was asked for`,
    !one.leads?.(change) && `${bucket}: ${text} made ${shownTree(after.tree)} of ${shownTree(before.tree)}`,
    answer.kind === "made" &&
      answer.commit !== after.commit &&
      `${bucket}: ${text} was answered ${answer.commit} and made ${after.commit}`,
  ].filter((fault) => typeof fault === "string");
}

function answerFaults(
  one: Taken,
  { observed, made }: { observed: Observed; made: State | undefined },
): string[] {
  const { bucket, text, answer, begun, ended } = one;
  if (answer.kind === "unknown") return [];
  if (answer.kind === "made" && answer.commit !== null) {
    if (!made) return [`${bucket}: ${text} was answered ${answer.commit}, and is lost`];
    return made.since <= ended ? [] : [`${bucket}: ${text} was answered before its commit was on the disk`];
  }
  if (made) return [`${bucket}: ${text} made ${made.commit}, and was answered otherwise`];
  if (answer.kind === "filled") return [];
  const moments = observed.get(bucket)?.between(begun, ended) ?? [];
  const holds = (state: State) =>
    answer.kind === "saw" ? answer.of(state) : (one.leads?.({ before: state, after: state }) ?? true);
  if (moments.some(holds)) return [];
  const what = answer.kind === "saw" ? answer.what : "that nothing is to be changed";
  return [
    `${bucket}: ${text} was answered ${what}, which was true of none of ${moments.map(shownState).join(" | ")}`,
  ];
}

/** A tree with some paths put or, with null, deleted. */
export function changed(tree: Tree, changes: Iterable<readonly [path: string, digest: string | null]>): Tree {
  const copy = new Map(tree);
  for (const [path, digest] of changes) {
    if (digest === null) copy.delete(path);
    else copy.set(path, digest);
  }
  return copy;
}

export function shownTree(tree: Tree): string {
  const files = [...tree].sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${files.map(([path, digest]) => `${path}: ${digest.slice(0, 6)}`).join(", ")}}`;
}

function shownState({ generation, commit, message, tree }: State): string {
  return generation === null
    ? "no branch"
    : `${commit ?? "no commit"} (${message ?? "-"}) ${shownTree(tree)}`;
}
