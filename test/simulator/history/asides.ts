import { type Facts, type FactsObserver, shownFacts } from "./facts.ts";
import { isMishap } from "./mishaps.ts";
import type { BranchObserver } from "./observer.ts";
import type { Stage } from "./stage.ts";
import type { State } from "./states.ts";

/*
 * What is asked that is about no tree at HEAD: tags, settings, reads of the past. Its answers are compared with what the branch
 * was beside its tree (facts.ts), by the same rule: each is true of some moment between question and answer.
 */

export interface FactsChange {
  readonly before: Facts;
  readonly after: Facts;
}

/** What an answer says. */
export type Said =
  /** Nothing. */
  | { readonly kind: "unknown" }
  /** Just that change was made. */
  | { readonly kind: "changed"; readonly what: string; readonly by: (change: FactsChange) => boolean }
  /** That was so. */
  | {
      readonly kind: "saw";
      readonly what: string;
      readonly of: (facts: Facts, observer: FactsObserver, state: State) => boolean;
    };

export interface Aside {
  readonly bucket: string;
  readonly text: string;
  /** As in Taken. */
  readonly begun: number;
  readonly ended: number;
  readonly said: Said;
  /** Whether it may lead from one state to the next. Absent: it changes nothing. */
  readonly leads?: (change: FactsChange) => boolean;
}

type Asked = Pick<Aside, "bucket" | "text" | "leads"> & {
  readonly id: string;
  /** Also what was true then counts, before it was asked. */
  readonly since?: number;
};

/** Asks something that is about no tree at HEAD, and notes it with its answer. */
export async function askAside<T>(
  stage: Stage,
  { id, since, ...asked }: Asked,
  { call, saidOf }: { readonly call: () => Promise<T>; readonly saidOf: (answer: T) => Said },
): Promise<T | undefined> {
  const begun = Math.min(stage.stamp(), since ?? Number.POSITIVE_INFINITY);
  const answer = await call().catch((error) => {
    if (!isMishap(error)) throw error;
    return undefined;
  });
  const said: Said = answer === undefined ? { kind: "unknown" } : saidOf(answer);
  const what = said.kind === "unknown" ? said.kind : said.what;
  stage.tally.add(`answer ${what.split(" ")[0]}`);
  const ended = said.kind === "unknown" ? Number.POSITIVE_INFINITY : stage.stamp();
  stage.asides.push({ ...asked, begun, ended, said });
  // For the story of the history.
  stage.taken.push({
    ...{ id, bucket: asked.bucket, text: asked.text, begun, ended },
    answer: said.kind === "unknown" ? said : { kind: "saw", what, of: () => true },
  });
  return answer;
}

/** A refusal that says nothing but of a branch that is not there. */
export function refusedAside({ reason }: { readonly reason: string }): Said {
  if (reason.endsWith("-unavailable")) return { kind: "unknown" };
  const isAbsent = reason === "no-such-branch" || reason === "forking";
  return { kind: "saw", what: reason, of: ({ generation }) => !isAbsent || generation === null };
}

/** What is wrong with what was answered, and what nobody asked for. */
export function asideFaults(stage: Stage): string[] {
  const { asides, facts, observers } = stage;
  return [
    ...asides.flatMap((one) =>
      answerFaults(one, { facts: facts.get(one.bucket), states: observers.get(one.bucket) }),
    ),
    ...protectionFaults(stage),
    ...[...facts].flatMap(([bucket, observer]) => [
      ...observer.faults,
      ...unaskedFaults(stage, { bucket, observer }),
    ]),
  ];
}

interface Observed {
  readonly facts: FactsObserver | undefined;
  readonly states: BranchObserver | undefined;
}

function answerFaults(one: Aside, { facts: observer, states }: Observed): string[] {
  const { bucket, text, said } = one;
  if (!observer || !states || said.kind === "unknown" || isTrue(one, { facts: observer, states })) return [];
  const moments = observer.between(one.begun, one.ended).map(shownFacts);
  return [`${bucket}: ${text} was answered ${said.what}, which was true of none of ${moments.join(" | ")}`];
}

/** Writes that were refused since somebody else alone may write, or a pipeline, when nobody was kept out. */
function protectionFaults({ taken, facts }: Stage): string[] {
  const isKeptOut: Readonly<Record<string, (facts: Facts) => boolean>> = {
    protected: ({ settled }) => settled.writer !== null,
    "pipeline-output": ({ holder }) => holder !== null,
  };
  return taken.flatMap(({ bucket, text, answer, begun, ended }) => {
    const is = answer.kind === "saw" ? isKeptOut[answer.what] : undefined;
    if (!is || answer.kind !== "saw") return [];
    const moments = facts.get(bucket)?.between(begun, ended) ?? [];
    return moments.some(is)
      ? []
      : [`${bucket}: ${text} was refused as ${answer.what}, and nobody was kept out`];
  });
}

/** Changes of tags and settings that nobody asked for. */
function unaskedFaults(
  { asides }: Stage,
  { bucket, observer: { states } }: { bucket: string; observer: FactsObserver },
): string[] {
  return states.flatMap((after, at) => {
    const before = states[at - 1];
    if (!before || before.generation !== after.generation || isAsBefore({ before, after })) return [];
    const isAsked = asides.some(
      (one) => one.bucket === bucket && one.begun <= after.since && one.leads?.({ before, after }),
    );
    return isAsked ? [] : [`${bucket}: nobody asked for ${shownFacts(after)} after ${shownFacts(before)}`];
  });
}

function isTrue(
  { said, begun, ended }: Aside,
  { facts: observer, states }: { readonly facts: FactsObserver; readonly states: BranchObserver },
): boolean {
  const moments = observer.between(begun, ended);
  if (said.kind === "unknown") return true;
  if (said.kind === "saw") {
    const trees = states.between(begun, ended);
    return moments.some((facts) => trees.some((state) => said.of(facts, observer, state)));
  }
  return moments.some((after, at) => {
    const before = moments[at - 1];
    return before !== undefined && said.by({ before, after });
  });
}

export function isAsBefore({ before, after }: FactsChange): boolean {
  return isSameOf("tags", { before, after }) && isSameOf("settled", { before, after });
}

export function isSameOf(what: "tags" | "settled", { before, after }: FactsChange): boolean {
  const text = (facts: Facts) => JSON.stringify(what === "tags" ? [...facts.tags].sort() : facts.settled);
  return text(before) === text(after);
}
