import { shrunk } from "../plan.ts";
import { Tally } from "../tally.ts";
import { runJobsPlan } from "./jobs.ts";
import { type JobsPlan, planJobs } from "./plan.ts";

/** How many smaller histories are tried for one in which something is wrong. */
const BUDGET = 200;

/** A history of pipelines in which something is wrong, with as few steps as possible; undefined: nothing is wrong. */
export async function reportOfJobs(seed: number, tally?: Tally): Promise<string | undefined> {
  const plan = planJobs(seed);
  const faults = await faultsOf(plan, tally);
  if (faults.length === 0) return undefined;
  // A smaller plan has steps of this one.
  const fails = async (smaller: object) => (await faultsOf({ ...plan, ...smaller })).length > 0;
  const least = { ...plan, ...(await shrunk(plan, { fails, budget: BUDGET })) } as JobsPlan;
  return [
    `jobs, history ${seed}: ${faults.join("\n  ")}`,
    `the smallest that fails has ${least.steps.length} of ${plan.steps.length} steps${least.isCalm ? ", and nothing goes wrong in it" : ""}:`,
    `steps: ${least.steps.map(({ number, kind }) => `${number} ${kind}`).join(", ")}; schedule ${least.schedule}`,
    ...(await faultsOf(least)).map((fault) => `wrong: ${fault}`),
  ].join("\n  ");
}

async function faultsOf(plan: JobsPlan, tally = new Tally()): Promise<readonly string[]> {
  try {
    return await runJobsPlan(plan, tally);
  } catch (error) {
    return [error instanceof Error ? (error.stack ?? error.message) : String(error)];
  }
}
