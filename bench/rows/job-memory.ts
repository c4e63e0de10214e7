import { startRunner } from "../../test/support/dev-server.ts";
import { commitTexts } from "../support/bulk-commit.ts";
import { Control } from "../support/control.ts";
import { newestJobEnd } from "../support/job-end.ts";
import { residentMiB } from "../support/memory.ts";
import type { Row } from "../support/row.ts";
import { startBenchGateway } from "../support/servers.ts";
import { median } from "../support/stats.ts";

/** Datums of the job, and when the memory is first looked at. */
const DATUMS = { full: { all: 10_000, early: 1000 }, quick: { all: 2000, early: 500 } } as const;
/** Memory goes up and down with the garbage collectors: each look is the median over so many more datums. */
const WINDOW = 0.1;
const INPUT = { repo: "many", branch: "master" };
const PIPELINE = "trivial";

/** A long job must not make gateway or runner grow. */
export const jobMemory: Row = {
  name: "job-memory",
  title: "memory of gateway and runner at the end of a long job, against early in it",
  async run({ scale, say }) {
    const { all, early } = DATUMS[scale];
    const gateway = await startBenchGateway();
    const control = new Control(gateway.door);
    const runner = startRunner(gateway.door, { node: "bench" });
    const samples: Sample[] = [];
    try {
      await control.createBranch(INPUT);
      await control.createPipeline({
        pipeline: { name: PIPELINE },
        transform: { image: "busybox", cmd: ["true"] },
        parallelism_spec: { strategy: "CONSTANT", constant: 2 },
        inputs: [{ name: "in", repo: { name: INPUT.repo }, branch: INPUT.branch, glob: "/*" }],
      });
      const files = Array.from({ length: all }, (_, i) => ({ path: `file-${i}`, text: `file ${i}\n` }));
      const commit = await commitTexts(control, { address: INPUT, files });
      const startedAt = performance.now();
      await newestJobEnd(control, {
        pipeline: PIPELINE,
        commit,
        probeEveryMs: 100,
        progress: ({ datums: { processed } }) =>
          samples.push({
            processed,
            gateway: residentMiB(gateway.pid, "VmRSS"),
            runner: residentMiB(runner.pid, "VmRSS"),
          }),
      });
      say(`${all} datums in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
    } finally {
      await runner.stop();
      await control.close();
      await gateway.stop();
    }
    const between = (from: number, to: number) =>
      samples.filter(({ processed }) => processed >= from && processed <= to);
    const atStart = between(early, early + all * WINDOW);
    const atEnd = between(all * (1 - WINDOW), all);
    return (["gateway", "runner"] as const).map((who) => ({
      what: `${who}, after ${all} datums`,
      unit: "MiB",
      against: `after ${early}`,
      pairs: [
        {
          ours: median(atEnd.map((sample) => sample[who])),
          other: median(atStart.map((sample) => sample[who])),
        },
      ],
      compare: "ratio",
      target: { atMost: 1.2 },
    }));
  },
};

interface Sample {
  readonly processed: number;
  /** MiB */
  readonly gateway: number;
  readonly runner: number;
}
