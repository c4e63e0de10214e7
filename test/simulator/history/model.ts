import type { CommitEntry } from "../../../worker/branch/contract/history.ts";
import { type Condition, idOf, type Outcome, type Step } from "./steps.ts";

/** A step that was taken: when it was asked, and when its answer came, in events of the world. */
export interface Taken {
  readonly step: Step;
  readonly outcome: Outcome;
  readonly begun: number;
  /** Infinity: its answer was lost. */
  readonly ended: number;
}

/** Digests by path. */
type Tree = ReadonlyMap<string, string>;

/** A commit as the branch shows it. */
export interface ShownCommit extends Pick<CommitEntry, "id" | "parent" | "annotation"> {
  readonly files: Tree;
}

/**
 * What is wrong with a history, by the naive rule: all commits of a branch are one sequence, each is what its step does to the tree
 * of the one before, a step that ended before another began comes before it, and what was answered is true of some moment of
 * the step. Empty: nothing is.
 *
 * `commits`: all of them, the oldest first. `from`: the tree that the branch began with.
 */
export function faultsOf(
  taken: readonly Taken[],
  { commits, from = new Map() }: { commits: readonly ShownCommit[]; from?: Tree },
): string[] {
  const byId = new Map(taken.flatMap((one) => ("id" in one.step ? [[one.step.id, one] as const] : [])));
  const faults: string[] = [];
  const sequence: Sequence = { made: [], trees: [from] };
  for (const commit of commits) {
    const one = byId.get(commit.annotation?.message ?? "");
    if (!one) return [...faults, `commit ${commit.id} is of no step`];
    faults.push(...commitFaults(one, commit, sequence));
    sequence.made.push(one);
    sequence.trees.push(applied(one.step, sequence.trees.at(-1) ?? from));
  }
  for (const one of taken) faults.push(...answerFaults(one, sequence));
  return faults;
}

/** The steps of the commits, and the trees before the first, between two, and after the last. */
interface Sequence {
  readonly made: Taken[];
  readonly trees: Tree[];
}

function commitFaults(one: Taken, commit: ShownCommit, { made, trees }: Sequence): string[] {
  const { step, outcome } = one;
  const before = trees.at(-1) ?? new Map();
  const expected = applied(step, before);
  const name = JSON.stringify(step);
  const isRefused = "condition" in step && step.condition && !holds(step.condition, before.get(step.path));
  return [
    made.includes(one) && `step ${name} made two commits`,
    made.some(({ begun }) => begun > one.ended) &&
      `step ${name} ended before a step began whose commit comes before its own`,
    isRefused && `step ${name} was done although its condition did not hold`,
    !isSame(expected, commit.files) &&
      `commit ${commit.id} of step ${name} has ${shown(commit.files)} instead of ${shown(expected)}`,
    outcome.kind === "done" &&
      outcome.commit !== commit.id &&
      `step ${name} was answered ${outcome.commit} and made ${commit.id}`,
  ].filter((fault) => typeof fault === "string");
}

/** Whether what a step was answered is true of no moment between its beginning and its end. */
function answerFaults(one: Taken, { made, trees }: Sequence): string[] {
  const { step, outcome } = one;
  const name = JSON.stringify(step);
  if (outcome.kind === "unknown") return [];
  if (outcome.kind === "done" && outcome.commit !== null) {
    return made.includes(one) ? [] : [`step ${name} was answered ${outcome.commit}, and is lost`];
  }
  // Commits whose steps ended before are there; of those that began after none is.
  const first = made.findLastIndex(({ ended }) => ended < one.begun) + 1;
  const after = made.findIndex(({ begun }) => begun > one.ended);
  const moments = trees.slice(first, after < 0 ? undefined : after + 1);
  if (moments.some((tree) => isTrueAt(tree, one))) return [];
  return [
    `step ${name} was answered ${answerText(outcome)}, which was true at no moment of it: ${moments.map(shown).join(" | ")}`,
  ];
}

function isTrueAt(tree: Tree, { step, outcome }: Taken): boolean {
  if (outcome.kind === "read")
    return step.kind === "read" && (tree.get(step.path) ?? null) === outcome.digest;
  if (outcome.kind === "listed") return isSame(tree, outcome.files);
  if (outcome.kind === "failed-condition") {
    return step.kind === "put" && step.condition !== undefined && !holds(step.condition, tree.get(step.path));
  }
  // Nothing was to be changed.
  if (step.kind === "put" && step.condition && !holds(step.condition, tree.get(step.path))) return false;
  return isSame(applied(step, tree), tree);
}

function applied(step: Step, before: Tree): Tree {
  const tree = new Map(before);
  if (step.kind === "put") tree.set(step.path, idOf(step.text).digest);
  if (step.kind === "delete") for (const path of step.paths) tree.delete(path);
  if (step.kind === "commit") {
    for (const path of step.deletes) tree.delete(path);
    for (const { path, text } of step.puts) tree.set(path, idOf(text).digest);
  }
  return tree;
}

function holds(condition: Condition, digest: string | undefined): boolean {
  return "absent" in condition ? digest === undefined : digest === idOf(condition.text).digest;
}

function isSame(one: Tree, other: Tree): boolean {
  return one.size === other.size && [...one].every(([path, digest]) => other.get(path) === digest);
}

function shown(tree: Tree): string {
  const files = [...tree].sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${files.map(([path, digest]) => `${path}: ${digest.slice(0, 6)}`).join(", ")}}`;
}

function answerText(outcome: Outcome): string {
  return outcome.kind === "listed" ? shown(outcome.files) : JSON.stringify(outcome);
}
