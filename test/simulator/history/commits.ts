import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import { ended, endNowAndThen, insist, isMishap, mishapSimulation } from "./mishaps.ts";
import { faultsOf, type ShownCommit, type Taken } from "./model.ts";
import { chooseStep, filesOf, take } from "./steps.ts";
import { Tally } from "./tally.ts";

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
export async function runCommits(seed: number, tally = new Tally()): Promise<HistoryResult> {
  const { simulation, calm } = mishapSimulation(seed, tally);
  const { world } = simulation;
  const taken: Taken[] = [];
  await simulation.as(async () => {
    await insist(() => simulation.branch(BUCKET).lifecycle.create());
    endNowAndThen(simulation, { calm, tally });
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      for (let n = 0; n < STEPS; n++) {
        const step = chooseStep(world.random, `${client}.${n}`);
        const begun = world.events;
        const outcome = await tally
          .during(step.kind, () => take(simulation.branch(BUCKET), step))
          .catch((error) => {
            if (!isMishap(error)) throw error;
            return { kind: "unknown" } as const;
          });
        tally.add(`outcome ${outcome.kind}`);
        taken.push({ step, outcome, begun, ended: outcome.kind === "unknown" ? Infinity : world.events });
      }
    });
    await Promise.all(clients);
  });
  calm.is = true;
  await simulation.pass(REST_MS);
  const commits = await simulation.as(() => commitsOf(simulation.branch(BUCKET)));
  const faults = [...faultsOf(taken, { commits }), ...ended(simulation)];
  simulation.close();
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
