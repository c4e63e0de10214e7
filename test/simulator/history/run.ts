import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import type { Faults } from "../platform/faults.ts";
import { Simulation } from "../platform/simulation.ts";
import type { World } from "../platform/world.ts";
import { faultsOf, type ShownCommit, type Taken } from "./model.ts";
import { chooseStep, filesOf, take } from "./steps.ts";

/** Clients, and steps of each. */
const CLIENTS = 3;
const STEPS = 14;
const BUCKET = "master.photos";
/** How long nothing goes wrong after the steps before all is looked at; milliseconds. */
const REST_MS = 40 * 24 * 60 * 60_000;

export interface HistoryResult {
  readonly seed: number;
  readonly taken: readonly Taken[];
  readonly faults: readonly string[];
}

/** Several clients write to a branch while things go wrong; then everything is compared with the model. */
export async function runHistory(seed: number): Promise<HistoryResult> {
  const calm = { is: false };
  const simulation = new Simulation({ seed, faults: (world) => mishaps(world, calm) });
  const { world, branches } = simulation;
  const taken: Taken[] = [];
  await simulation.as(async () => {
    await insist(() => simulation.branch(BUCKET).lifecycle.create());
    endNowAndThen(simulation, calm);
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      for (let n = 0; n < STEPS; n++) {
        const step = chooseStep(world.random, `${client}.${n}`);
        const begun = world.events;
        const outcome = await take(simulation.branch(BUCKET), step).catch((error) => {
          if (!isMishap(error)) throw error;
          return { kind: "unknown" } as const;
        });
        taken.push({ step, outcome, begun, ended: outcome.kind === "unknown" ? Infinity : world.events });
      }
    });
    await Promise.all(clients);
  });
  calm.is = true;
  await simulation.pass(REST_MS);
  const commits = await simulation.as(() => commitsOf(simulation.branch(BUCKET)));
  const faults = faultsOf(taken, { commits });
  const { durableAlarm } = branches.object(BUCKET).storage;
  if (durableAlarm !== null) faults.push(`an alarm stands at ${durableAlarm}, and nothing is due`);
  return { seed, taken, faults };
}

/** The commits of a branch with their trees, the oldest first. */
async function commitsOf(branch: BranchApi): Promise<ShownCommit[]> {
  const commits: ShownCommit[] = [];
  for (let after: string | undefined; ; ) {
    const page = await branch.history.list({ limit: 100, ...(after !== undefined && { after }) });
    if (!page.ok) throw new Error(`the history was refused: ${page.reason}`);
    for (const { id, parent, annotation } of page.commits) {
      commits.push({ id, parent, files: await filesOf(branch, id), ...(annotation && { annotation }) });
    }
    if (page.next === null) return commits.reverse();
    after = page.next;
  }
}

const LOST = 0.03;

function mishaps({ random }: World, calm: { readonly is: boolean }): Faults {
  const happens = (probability: number) => !calm.is && random.chance(probability);
  return {
    failsToFlush: () => happens(0.01),
    losesCall: () => happens(LOST),
    losesAnswer: () => happens(LOST),
    failsBefore: () => happens(LOST),
    failsAfter: () => happens(LOST),
  };
}

/** Longest time between two ends of instances; milliseconds. */
const BETWEEN_ENDS_MS = 300;

function endNowAndThen({ world, branches }: Simulation, calm: { readonly is: boolean }): void {
  world.after(world.random.next() * BETWEEN_ENDS_MS, () => {
    if (calm.is) return;
    const up = branches.all().filter(({ isUp }) => isUp);
    if (up.length > 0) world.random.pick(up).end("it was evicted");
    endNowAndThen({ world, branches } as Simulation, calm);
  });
}

/** What a client hears if something went wrong on the way. */
function isMishap(error: unknown): boolean {
  return /Network connection lost|was reset|could not be reached/.test(String(error));
}

async function insist<T extends { ok: boolean }>(call: () => Promise<T>): Promise<void> {
  for (let tries = 0; tries < 50; tries++) {
    const answer = await call().catch((error) => {
      if (!isMishap(error)) throw error;
      return undefined;
    });
    if (answer?.ok || (answer && "reason" in answer && answer.reason === "already-exists")) return;
  }
  throw new Error("it can't be done");
}
