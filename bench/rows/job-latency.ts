import type { BranchAddress } from "../../protocol/names.ts";
import { startRunner } from "../../test/support/dev-server.ts";
import { bareCommand } from "../support/bare-command.ts";
import type { Control } from "../support/control.ts";
import type { Figure } from "../support/figure.ts";
import { filesIn, flatness, shortCount } from "../support/flatness.ts";
import { newestJobEnd } from "../support/job-end.ts";
import { growHistory, type JobHistory } from "../support/job-history.ts";
import { interleaved } from "../support/pairs.ts";
import type { Bench, Row } from "../support/row.ts";
import { COPY, growSettledTrees, type SettledTree } from "../support/settled-trees.ts";
import { medianOf } from "../support/stats.ts";
import { folderOf } from "../support/trees.ts";

const FILES = { full: [1000, 100_000, 1_000_000], quick: [1000, 20_000] } as const;
const EARLIER_JOBS = { full: [10, 10_000], quick: [10, 1000] } as const;
/** Jobs in one half of a pair: its value is their median. */
const JOBS = 5;

/** From the PUT of one file to the success of its job, each file being a datum and all the others settled before. */
export const jobLatency: Row = {
  name: "job-latency",
  title: "one-file commit until job success: p50 by files, by earlier jobs, and against a bare run",
  async run(bench) {
    const { say, scale } = bench;
    const trees = await growSettledTrees(FILES[scale], say);
    const { gateway, control, all } = trees;
    try {
      const histories: JobHistory[] = [];
      for (const jobs of EARLIER_JOBS[scale]) histories.push(await growHistory(trees, { jobs, say }));
      const runner = startRunner(gateway.door, { node: "bench" });
      const measure = (subject: Subject): Promise<number> =>
        medianOf(JOBS, () => jobMillis(control, subject));
      const curve = { what: "PUT → success", unit: "ms", measure };
      try {
        const [smallest] = all;
        if (!smallest) throw new Error("there is no tree");
        return [
          ...(await flatness<SettledTree>(bench, { ...curve, sizes: all, name: filesIn })),
          ...(await flatness<JobHistory>(bench, {
            ...curve,
            sizes: histories,
            name: ({ jobs }) => `${shortCount(jobs)} jobs before`,
          })),
          await againstBareRun(bench, () => measure(smallest)),
        ];
      } finally {
        await runner.stop();
      }
    } finally {
      await trees.stop();
    }
  },
};

/** A branch and the pipeline that reads it. */
interface Subject extends BranchAddress {
  readonly pipeline: string;
}

let written = 0;

async function jobMillis(control: Control, { pipeline, ...address }: Subject): Promise<number> {
  written += 1;
  const path = `${folderOf(written)}/new-${written}`;
  const startedAt = performance.now();
  const commit = await control.putFile(address, { path, bytes: `file ${written}\n` });
  const { datums } = await newestJobEnd(control, { pipeline, commit });
  const millis = performance.now() - startedAt;
  if (datums.processed !== 1) throw new Error(`a job of ${pipeline} ran ${datums.processed} datums`);
  return millis;
}

async function againstBareRun({ pairs }: Bench, measure: () => Promise<number>): Promise<Figure> {
  const bare = await bareCommand({ ...COPY, input: { path: "d0000/new", text: "file\n" } });
  try {
    return {
      what: "PUT → success, smallest tree",
      unit: "ms",
      against: `bare run in ${bare.tool}`,
      pairs: await interleaved(pairs, { ours: measure, other: () => medianOf(JOBS, () => bare.run()) }),
      compare: "ratio",
      target: { atMost: 20 },
    };
  } finally {
    bare.remove();
  }
}
