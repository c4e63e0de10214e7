import type { BranchAddress } from "../../protocol/names.ts";
import { putBurst } from "./burst.ts";
import type { Control } from "./control.ts";
import { newestJobEnd } from "./job-end.ts";
import type { BenchGateway } from "./servers.ts";
import { withSettlers } from "./settle.ts";
import { copyPipeline } from "./settled-trees.ts";
import { folderOf } from "./trees.ts";

/** Files of the branch: each job replaces one of them, so that only the number of jobs grows. */
const FILES = 10;
/** Commits that wait for their jobs at the same time. */
const BURST = 500;

/** A branch and a pipeline that has had `jobs` jobs, with a commit and a datum each. */
export interface JobHistory extends BranchAddress {
  readonly jobs: number;
  readonly pipeline: string;
}

/** Makes real jobs, whose datums are settled without a command being run. */
export async function growHistory(
  { gateway, control }: { gateway: BenchGateway; control: Control },
  { jobs, say }: { jobs: number; say: (message: string) => void },
): Promise<JobHistory> {
  const history = { repo: `history-${jobs}`, branch: "master", jobs, pipeline: `after-${jobs}` };
  const { pipeline } = history;
  await control.createBranch(history);
  await control.createPipeline(copyPipeline(history));
  const startedAt = performance.now();
  const work = async (): Promise<void> => {
    for (let first = 0; first < jobs; first += BURST) {
      const files = Array.from({ length: Math.min(BURST, jobs - first) }, (_, i) => ({
        path: `${folderOf(0)}/f${(first + i) % FILES}`,
        text: `for job ${first + i}\n`,
      }));
      const commit = await putBurst(gateway, { address: history, files });
      await newestJobEnd(control, { pipeline, commit, probeEveryMs: 50 });
    }
  };
  await withSettlers(control, { pipeline, work });
  say(`${jobs} jobs in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  return history;
}
