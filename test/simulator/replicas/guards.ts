/** Whoever is shown what a branch has. */
export type Reader = "reads" | "listings" | "feed" | "wake-ups" | "forks" | "tags" | "exports";

/** What goes wrong without a guard: an answer that is true of no moment between question and answer, or what else is promised. */
type Wrong = "answer" | "slow" | "count";

/** What keeps replicas right, each by its name in docs/replicas.md. */
const WRONG_WITHOUT = {
  "confirmed by the instance": "answer",
  "one life": "answer",
  "one instance of the branch": "answer",
  "number of an answer": "answer",
  "number of a lease": "answer",
  "every change counts": "answer",
  "lease asked": "answer",
  "lapsed empties": "answer",
  "counted from asking": "answer",
  drift: "answer",
  "timer, not clock": "answer",
  "clock set back": "answer",
  "renewals refused": "slow",
  "refusal withdraws": "slow",
  "holder on disk": "answer",
  "disk first": "answer",
  "writes wait": "answer",
  "refusals wait": "answer",
  "judged by the newest": "answer",
  "restart withdraws": "answer",
  "restore withdraws": "answer",
  "reads counted once": "count",
  "visible to reads": "answer",
  "visible to listings": "answer",
  "visible to feed": "answer",
  "visible to wake-ups": "answer",
  "visible to forks": "answer",
  "visible to tags": "answer",
  "visible to exports": "answer",
} as const satisfies Record<string, Wrong>;

export type Guard = keyof typeof WRONG_WITHOUT;

export const GUARDS = Object.keys(WRONG_WITHOUT) as readonly Guard[];

/** The guards that a history has. */
export type Guards = ReadonlySet<Guard>;

export const ALL_GUARDS: Guards = new Set(GUARDS);

export function guardsWithout(removed: Guard): Guards {
  return new Set(GUARDS.filter((guard) => guard !== removed));
}

export function wrongWithout(guard: Guard): Wrong {
  return WRONG_WITHOUT[guard];
}
