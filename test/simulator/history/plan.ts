import { Random } from "../platform/random.ts";

/** A step of a history. Whatever is left to choice in it follows from its own seed, so others can be left out without changing it. */
export interface PlannedStep {
  /** Its place in the whole plan, which it keeps if others are left out. */
  readonly number: number;
  /** Each client takes one step after the other. */
  readonly client: number;
  readonly kind: string;
  readonly seed: number;
}

/** The clock jumps right before a step. */
export interface Jump {
  readonly step: number;
  readonly byMs: number;
}

export interface Plan {
  readonly steps: readonly PlannedStep[];
  /** The seed of all else: what takes how long, what fails, who ends. */
  readonly schedule: number;
  /** When the clock is set. */
  readonly jumps?: readonly Jump[];
  /** Nothing fails and nobody ends. */
  readonly isCalm?: boolean;
  /** The limits of branches are small (../limits/limits.ts). */
  readonly isSmall?: boolean;
  /** Each request is answered by an isolate of its own. */
  readonly forgets?: boolean;
  /** Variables of the Worker, beside those that all have. */
  readonly vars?: Readonly<Record<string, string>>;
}

export interface PlanOptions {
  readonly clients: number;
  readonly steps: number;
  /** How often each kind occurs beside the others. */
  readonly weights: Readonly<Record<string, number>>;
}

/** The plan of a seed. */
export function planOf(seed: number, { clients, steps, weights }: PlanOptions): Plan {
  const random = new Random(seed);
  const kinds = Object.entries(weights).flatMap(([kind, weight]) => Array<string>(weight).fill(kind));
  return {
    schedule: seed,
    jumps: jumpsOf(seed, clients * steps),
    steps: Array.from({ length: clients * steps }, (_, number) => ({
      number,
      client: number % clients,
      kind: random.pick(kinds),
      seed: random.below(2 ** 31),
    })),
  };
}

const HOUR_MS = 60 * 60_000;
/** How often the clock of a history jumps an hour back, and how often a day forward. */
const JUMPS = 0.15;

/** Jumps of the clock in a history of so many steps. Nothing else of the plan follows from them. */
export function jumpsOf(seed: number, steps: number): Jump[] {
  const random = new Random(seed ^ 0x3c6ef372);
  return [-HOUR_MS, 24 * HOUR_MS].flatMap((byMs) =>
    random.chance(JUMPS) ? [{ step: random.below(steps), byMs }] : [],
  );
}

/** How many schedules a smaller plan is tried with: without a step, all that comes after it has another time. */
const SCHEDULES = 6;

/**
 * A plan with as few steps as possible with which something is still wrong. `fails` runs one; `budget` is how often it may.
 * Resolves with the plan itself if no smaller one fails.
 */
export async function shrunk(
  plan: Plan,
  { fails, budget }: { readonly fails: (plan: Plan) => Promise<boolean>; readonly budget: number },
): Promise<Plan> {
  let left = budget;
  const failing = async (smaller: Plan): Promise<Plan | undefined> => {
    for (let n = 0; n < SCHEDULES; n++) {
      if (left-- <= 0) return undefined;
      const tried = { ...smaller, schedule: plan.schedule + n };
      if (await fails(tried)) return tried;
    }
    return undefined;
  };
  let least = (await failing({ ...plan, isCalm: true })) ?? plan;
  if (least.jumps?.length) least = (await failing({ ...least, jumps: [] })) ?? least;
  for (let size = Math.ceil(least.steps.length / 2); size >= 1; ) {
    let isSmaller = false;
    for (let from = 0; from < least.steps.length; ) {
      const steps = least.steps.toSpliced(from, size);
      const smaller = await failing({ ...least, steps });
      if (smaller) {
        least = smaller;
        isSmaller = true;
      } else from += size;
    }
    if (left <= 0) return least;
    if (size > 1) size = Math.ceil(size / 2);
    else if (!isSmaller) break;
  }
  return least;
}
