import { type Plan, shrunk } from "./plan.ts";
import { historyOf, runHistory } from "./run.ts";
import { Tally } from "./tally.ts";

/** How many smaller histories are tried for one in which something is wrong. */
const BUDGET = 600;

/** A history in which something is wrong, made as small as it can be, for people; undefined: nothing is wrong. */
export async function reportOf(plan: Plan, tally?: Tally): Promise<string | undefined> {
  const faults = await faultsOf(plan, tally);
  if (faults.length === 0) return undefined;
  const least = await shrunk(plan, {
    fails: async (smaller) => (await faultsOf(smaller)).length > 0,
    budget: BUDGET,
  });
  return [
    `history ${plan.schedule}: ${faults.join("\n  ")}`,
    `the smallest that fails has ${least.steps.length} of ${plan.steps.length} steps${least.isCalm ? ", and nothing goes wrong in it" : ""}:`,
    ...(await storyOf(least)),
  ].join("\n  ");
}

/** The history of a seed, as `reportOf`. */
export async function reportOfSeed(seed: number, tally?: Tally): Promise<string | undefined> {
  return await reportOf(historyOf(seed), tally);
}

async function faultsOf(plan: Plan, tally = new Tally()): Promise<readonly string[]> {
  try {
    return (await runHistory(plan, tally)).faults;
  } catch (error) {
    return [error instanceof Error ? (error.stack ?? error.message) : String(error)];
  }
}

/** What was asked and answered, in order, and what is wrong with it. */
async function storyOf(plan: Plan): Promise<string[]> {
  const numbers = plan.steps.map(({ number, kind }) => `${number} ${kind}`).join(", ");
  const result = await runHistory(plan).catch((error) => ({ taken: [], faults: [String(error)] }));
  const asked = result.taken.flatMap(({ begun, ended, bucket, text, answer }) => [
    { at: begun, line: `${bucket}: ${text}` },
    {
      at: ended,
      line: `${bucket}: ${text.split(" ").slice(0, 2).join(" ")} is answered ${answer.kind === "made" ? answer.commit : answer.kind === "saw" ? answer.what : ""}`,
    },
  ]);
  const lines = asked.filter(({ at }) => Number.isFinite(at)).sort((one, other) => one.at - other.at);
  return [
    `steps: ${numbers}; schedule ${plan.schedule}`,
    ...(plan.isSmall ? ["limits are small"] : []),
    ...(plan.jumps ?? []).map(({ step, byMs }) => `before step ${step} the clock jumps by ${byMs} ms`),
    ...lines.map(({ at, line }) => `${String(at).padStart(4)}  ${line}`),
    ...result.faults.map((fault) => `wrong: ${fault}`),
  ];
}
