import { startRunner } from "../../test/support/dev-server.ts";
import { type BareCommand, bareCommand } from "../support/bare-command.ts";
import { commitTexts } from "../support/bulk-commit.ts";
import { Control } from "../support/control.ts";
import { newestJobEnd } from "../support/job-end.ts";
import { interleaved } from "../support/pairs.ts";
import type { Row } from "../support/row.ts";
import { startBenchGateway } from "../support/servers.ts";

/** Datums of one job, and bare runs in one half of a pair. */
const COUNTS = { full: 400, quick: 150 } as const;
const INPUT = { repo: "small", branch: "master" };
const PIPELINE = "trivial";
const CMD = ["true"];

/** What a datum costs beside its command. */
export const datumRate: Row = {
  name: "datum-rate",
  title: "datums per second, trivial command, one node, one worker, process executor",
  async run({ pairs, scale }) {
    const gateway = await startBenchGateway();
    const control = new Control(gateway.door);
    const runner = startRunner(gateway.door, { node: "bench" });
    const bare = await bareCommand({ cmd: CMD, input: { path: "file", text: "file\n" } });
    const count = COUNTS[scale];
    try {
      await control.createBranch(INPUT);
      await control.createPipeline({
        pipeline: { name: PIPELINE },
        transform: { image: "busybox", cmd: CMD },
        parallelism_spec: { strategy: "CONSTANT", constant: 1 },
        inputs: [{ name: "in", repo: { name: INPUT.repo }, branch: INPUT.branch, glob: "/*" }],
      });
      return [
        {
          what: `job of ${count} datums`,
          unit: "datums/s",
          against: `${bare.tool} in a loop`,
          pairs: await interleaved(pairs, {
            ours: () => jobRate(control, count),
            other: () => bareRate(bare, count),
          }),
          compare: "ratio",
          target: { atLeast: 0.5 },
        },
      ];
    } finally {
      await runner.stop();
      bare.remove();
      await control.close();
      await gateway.stop();
    }
  },
};

let batches = 0;

async function jobRate(control: Control, count: number): Promise<number> {
  batches += 1;
  const files = Array.from({ length: count }, (_, i) => ({
    path: `batch-${batches}-${i}`,
    text: `file ${i} of batch ${batches}\n`,
  }));
  const commit = await commitTexts(control, { address: INPUT, files });
  const startedAt = performance.now();
  await newestJobEnd(control, { pipeline: PIPELINE, commit, probeEveryMs: 20 });
  return (count * 1000) / (performance.now() - startedAt);
}

async function bareRate(bare: BareCommand, count: number): Promise<number> {
  let millis = 0;
  for (let i = 0; i < count; i++) millis += await bare.run();
  return (count * 1000) / millis;
}
