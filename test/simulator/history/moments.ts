import type { Taken } from "./model.ts";
import type { Seen, State } from "./states.ts";

/** What a branch may have been between any two moments, as far as its log and what clients were told say. */
export interface Moments extends Seen {
  /** Commits that were there before they were asked for. */
  readonly faults: readonly string[];
}

/**
 * The log says in which order the states of a branch came, and not when. That follows from what clients were told: a state was
 * not there before its commit was asked for, and it was there from the moment on when somebody had heard of it, or of a later
 * one. Calls are taken in the order of their answers, and each counts as the earliest state that fits: if this order contradicts
 * itself, every other one does, too.
 */
export function momentsOf(
  log: readonly State[],
  taken: readonly Taken[],
  { isWithReads }: { readonly isWithReads: boolean },
): Moments {
  const byId = new Map(taken.map((one) => [one.id, one]));
  let since = 0;
  const states = log.map((state, index) => {
    if (index > 0) since = Math.max(since, byId.get(state.message ?? "")?.begun ?? 0);
    return { ...state, since };
  });
  const made = new Map(states.slice(1).map(({ message }, index) => [message, index + 1]));
  /** The earliest state that the branch can have been in from a moment on; by moments that grow. */
  const earliest: { readonly at: number; readonly index: number }[] = [{ at: 0, index: 0 }];
  const earliestAt = (at: number): number => earliest.findLast((one) => one.at <= at)?.index ?? 0;
  const newestAt = (at: number): number => states.findLastIndex((state) => state.since <= at);
  const between = (from: number, to: number) => states.slice(earliestAt(from), newestAt(to) + 1);

  for (const one of [...taken].sort((a, b) => a.ended - b.ended)) {
    if (one.ended === Number.POSITIVE_INFINITY) break;
    const index = made.get(one.id) ?? (isWithReads ? earliestThatFits(one) : undefined);
    if (index !== undefined && index > earliestAt(one.ended)) earliest.push({ at: one.ended, index });
  }

  function earliestThatFits({ begun, ended, answer, leads }: Taken): number | undefined {
    const first = earliestAt(begun);
    const fits = (state: State) => {
      if (answer.kind === "saw") return answer.of(state);
      return answer.kind === "made" && (leads?.({ before: state, after: state }) ?? true);
    };
    const found = between(begun, ended).findIndex(fits);
    return found < 0 ? undefined : first + found;
  }

  const faults = taken.flatMap(({ id, bucket, text, begun }) => {
    const index = made.get(id);
    return index !== undefined && index <= earliestAt(begun)
      ? [`${bucket}: ${text} made a commit that is older than what was seen before it was asked for`]
      : [];
  });
  return { states, between, faults };
}
