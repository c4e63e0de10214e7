import type { BranchAddress } from "../../protocol/names.ts";
import { startRunner } from "../../test/support/dev-server.ts";
import { putBurst } from "../support/burst.ts";
import { Control } from "../support/control.ts";
import type { Figure } from "../support/figure.ts";
import { newestJobEnd } from "../support/job-end.ts";
import { interleaved } from "../support/pairs.ts";
import type { Bench, Row } from "../support/row.ts";
import { type BenchGateway, startBenchGateway } from "../support/servers.ts";
import { withSettlers } from "../support/settle.ts";
import { copyPipeline } from "../support/settled-trees.ts";
import { folderOf } from "../support/trees.ts";

/** Commits of the smaller burst; the larger one has twice as many. */
const COMMITS = { full: 1000, quick: 200 } as const;
/** Twice the work may take a tenth more than twice the time. */
const AT_MOST = 2.2;
const PROBE_EVERY_MS = 20;

/** Many PUTs at once, each a commit and so a job: twice as many must take twice as long. */
export const burst: Row = {
  name: "burst",
  title: "a burst of one-file commits until the last of their jobs is a success, against half as many",
  async run(bench) {
    const gateway = await startBenchGateway();
    const control = new Control(gateway.door);
    const setting = { bench, gateway, control };
    try {
      // The runner's figure is what users see; most of it is the commands. The other one is the gateway's part alone.
      return [
        await compareBursts(setting, {
          what: "no commands run",
          pipeline: "settled",
          around: (work) => withSettlers(control, { pipeline: "settled", work }),
        }),
        await compareBursts(setting, {
          what: "one runner",
          pipeline: "run",
          around: (work) => withRunner(gateway, work),
        }),
      ];
    } finally {
      await control.close();
      await gateway.stop();
    }
  },
};

interface Setting {
  readonly bench: Bench;
  readonly gateway: BenchGateway;
  readonly control: Control;
}

interface Way {
  readonly what: string;
  readonly pipeline: string;
  /** Has the jobs done while the work goes on. */
  around(work: () => Promise<Figure>): Promise<Figure>;
}

async function compareBursts(setting: Setting, { what, pipeline, around }: Way): Promise<Figure> {
  const { bench, control } = setting;
  const address = { repo: `burst-${pipeline}`, branch: "master" };
  const commits = COMMITS[bench.scale];
  await control.createBranch(address);
  await control.createPipeline(copyPipeline({ ...address, pipeline }));
  const seconds = (count: number): Promise<number> => burstSeconds(setting, { address, pipeline, count });
  return around(async () => ({
    what: `${2 * commits} commits, ${what}`,
    unit: "s",
    against: `${commits} commits`,
    pairs: await interleaved(bench.pairs, {
      ours: () => seconds(2 * commits),
      other: () => seconds(commits),
    }),
    compare: "ratio",
    target: { atMost: AT_MOST },
  }));
}

let bursts = 0;

async function burstSeconds(
  { gateway, control, bench }: Setting,
  { address, pipeline, count }: { address: BranchAddress; pipeline: string; count: number },
): Promise<number> {
  bursts += 1;
  const files = Array.from({ length: count }, (_, i) => ({
    path: `${folderOf(i)}/burst-${bursts}-${i}`,
    text: `file ${i} of burst ${bursts}\n`,
  }));
  const startedAt = performance.now();
  const commit = await putBurst(gateway, { address, files });
  const putSeconds = (performance.now() - startedAt) / 1000;
  await newestJobEnd(control, { pipeline, commit, probeEveryMs: PROBE_EVERY_MS });
  const seconds = (performance.now() - startedAt) / 1000;
  bench.say(`${count} commits in ${putSeconds.toFixed(1)} s, their jobs in ${seconds.toFixed(1)} s`);
  return seconds;
}

async function withRunner<T>(gateway: BenchGateway, work: () => Promise<T>): Promise<T> {
  const runner = startRunner(gateway.door, { node: "bench" });
  try {
    return await work();
  } finally {
    await runner.stop();
  }
}
