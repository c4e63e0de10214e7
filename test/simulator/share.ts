import { reportOfJobs } from "./history/jobs/report.ts";
import { reportOfSeed } from "./history/report.ts";
import type { Seeds, Told } from "./history/shares.ts";
import { Tally } from "./history/tally.ts";

/* A process that runs its share of many histories, and tells the one that began it what came of them. */

// What goes wrong is said in the log, and wrong it goes all the time.
console.warn = () => {};
console.error = () => {};

/** A history of pipelines takes as long as some ten others: a seed that this divides has one, too, and so has one that is run alone. */
const BETWEEN_JOBS = 10;

process.once("message", (seeds: Seeds) => void run(seeds));

async function run({ from, to, every }: Seeds): Promise<void> {
  const tally = new Tally();
  for (let seed = from; seed < to; seed += every) {
    const reports = [await reportOfSeed(seed, tally)];
    if (seed % BETWEEN_JOBS === 0 || to - from === 1) reports.push(await reportOfJobs(seed, tally));
    for (const report of reports) if (report !== undefined) tell({ report });
  }
  tell({ counts: [...tally.counts] });
  process.disconnect();
}

function tell(told: Told): void {
  process.send?.(told);
}
