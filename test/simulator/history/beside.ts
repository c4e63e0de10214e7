import { type Entries, type Filled, isSame, type Seen, type State } from "./states.ts";

/*
 * The naive rule of what clients fill before it becomes a commit: open commits and multipart uploads. Each holds what was added to
 * it and nothing else, from one state of the branch to the next, and ends only if somebody asked for it or its time was over.
 */

/** What a call adds. */
export interface Filling {
  readonly into: string;
  /** What it holds afterwards, if the call is done in this state; undefined: the call would be refused. */
  readonly after: (state: State, entries: Entries) => Entries | undefined;
}

/** What a call ends. */
export interface Ending {
  readonly what: string;
  /** Whether it may end in this state, without a commit. */
  readonly may: (state: State) => boolean;
}

/** A call, as far as it is about what is filled. */
interface Noted {
  readonly id: string;
  readonly bucket: string;
  readonly text: string;
  readonly begun: number;
  readonly ended: number;
  readonly answer: { readonly kind: string };
  readonly fills?: Filling;
  readonly ends?: Ending;
}

/** Nothing that a history opens lives shorter after it was last filled; milliseconds. */
export const LEAST_TTL_MS = 150;
/** Most calls whose effect is seen at once: those of all clients may share a transaction. */
const AT_ONCE = 3;

/** How something that is filled may end by itself. */
export interface Endings {
  /** How long it lives at least after it was last filled; milliseconds. */
  ttlOf(name: string): number;
  /** Whether a lifecycle rule may end an upload then. */
  isByRule(
    ended: { readonly bucket: string; readonly filled: Filled } & Pick<Step, "before" | "after">,
  ): boolean;
}

const LEAST: Endings = { ttlOf: () => LEAST_TTL_MS, isByRule: () => false };

/** What is wrong with what was filled. */
export function besideFaults(
  taken: readonly Noted[],
  observed: ReadonlyMap<string, Seen>,
  ending: Endings = LEAST,
): string[] {
  const faults: string[] = [];
  for (const [bucket, observer] of observed) {
    const { states } = observer;
    const here = taken.filter((one) => one.bucket === bucket && (one.fills || one.ends));
    if (here.length === 0) continue;
    const filledAt = new Map<string, number>();
    for (const [index, after] of states.entries()) {
      const before = states[index - 1];
      if (!before || before.beside === after.beside) continue;
      const heads = states.slice(Math.max(0, index - 2), index + 1);
      const step: Step = { bucket, before, after, heads, here, ending };
      faults.push(...stepFaults(step, filledAt).map((fault) => `${bucket}: ${fault}`));
    }
    for (const one of here) {
      if (one.answer.kind !== "filled" || !one.fills) continue;
      const moments = observer.between(one.begun, one.ended);
      if (!isFilled({ ...one, fills: one.fills }, { moments, here }))
        faults.push(`${bucket}: ${one.text} was done, and is not in ${one.fills.into}`);
    }
  }
  return faults;
}

interface Step {
  readonly bucket: string;
  readonly ending: Endings;
  readonly before: State;
  readonly after: State;
  /** Calls that share a transaction may have seen what each other made of HEAD. */
  readonly heads: readonly State[];
  readonly here: readonly Noted[];
}

function stepFaults(step: Step, filledAt: Map<string, number>): string[] {
  const { before, after } = step;
  const filled = [...after.beside.keys()].filter((name) => !isMadeBy(name, { ...step, filledAt }));
  const isSameBranch = before.generation === after.generation;
  const gone = isSameBranch ? [...before.beside.keys()].filter((name) => !after.beside.has(name)) : [];
  const ended = gone.filter((name) => !isEndedBy(name, { ...step, filledAt }));
  const shown = ({ beside }: State, name: string) => shownEntries(beside.get(name)?.entries ?? NONE);
  return [
    ...filled.map((name) => `nobody made ${shown(after, name)} of ${shown(before, name)} in ${name}`),
    ...ended.map((name) => `nobody ended ${name}, which had ${shown(before, name)}`),
  ];
}

/** Whether what is filled has what it had before, or what calls added. */
function isMadeBy(name: string, step: Step & { readonly filledAt: Map<string, number> }): boolean {
  const { before, after, filledAt } = step;
  const entries = after.beside.get(name)?.entries ?? NONE;
  const was = before.beside.get(name)?.entries;
  if (!was || !isSame(was, entries)) filledAt.set(name, after.at);
  return leadsTo(entries, was ?? NONE, { ...step, name });
}

/** Whether what is filled may be no more: somebody asked for that, or its time was over. */
function isEndedBy(
  name: string,
  {
    bucket,
    ending,
    before,
    after,
    here,
    filledAt,
  }: Step & { readonly filledAt: ReadonlyMap<string, number> },
): boolean {
  const filled = before.beside.get(name);
  if (!filled) return false;
  const { goesInto, isByRule, isApplying, entries } = filled;
  if (isByRule) return true;
  // An upload into an open commit ends with it.
  if (goesInto !== null && !after.beside.has(goesInto)) return true;
  if (!isApplying && after.at >= (filledAt.get(name) ?? 0) + ending.ttlOf(name)) return true;
  if (ending.isByRule({ bucket, filled, before, after })) return true;
  const asked = here.filter(({ ends, begun }) => ends?.what === name && begun <= after.since);
  if (after.commit !== before.commit) return isApplying || asked.length > 0;
  // A revert that changes nothing makes no commit.
  return asked.some(({ ends }) => ends?.may(before)) || (isApplying && entries.size === 0);
}

const NONE: Entries = new Map();

/** Whether calls that were under way lead from one to the other; with `must`, only if that one is among them. */
function leadsTo(
  to: Entries,
  from: Entries,
  {
    name,
    before,
    after,
    heads,
    here,
    must,
  }: Omit<Step, "bucket" | "ending"> & { readonly name: string; readonly must?: Noted },
): boolean {
  const underWay = here.filter(
    ({ fills, begun, ended }) => fills?.into === name && begun <= after.since && ended > before.since,
  );
  const search = (entries: Entries, left: readonly Noted[], depth: number): boolean => {
    if (isSame(entries, to) && !(must && left.includes(must))) return true;
    if (depth === 0) return false;
    return left.some((one) =>
      heads.some((head) => {
        const next = one.fills?.after(head, entries);
        if (!next || (isSame(next, entries) && one !== must)) return false;
        return search(
          next,
          left.filter((other) => other !== one),
          depth - 1,
        );
      }),
    );
  };
  return search(from, underWay, AT_ONCE);
}

/** Whether a call that was answered did what it says, at some of these moments. */
function isFilled(
  one: Noted & { readonly fills: Filling },
  { moments, here }: { moments: readonly State[]; here: readonly Noted[] },
): boolean {
  const { into: name, after: then } = one.fills;
  return moments.some((after, index) => {
    const entries = after.beside.get(name)?.entries;
    if (!entries) return false;
    // It changed nothing.
    const same = then(after, entries);
    if (same && isSame(same, entries)) return true;
    const before = moments[index - 1];
    if (!before) return false;
    const heads = moments.slice(Math.max(0, index - 2), index + 1);
    const was = before.beside.get(name)?.entries ?? NONE;
    return leadsTo(entries, was, { name, before, after, heads, here, must: one });
  });
}

function shownEntries(entries: Entries): string {
  return JSON.stringify(Object.fromEntries([...entries].map(([name, value]) => [name, value.slice(0, 12)])));
}
