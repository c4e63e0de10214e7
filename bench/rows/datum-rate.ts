import { startRunner } from "../../test/support/dev-server.ts";
import { type BareCommand, bareCommand } from "../support/bare-command.ts";
import { Control } from "../support/control.ts";
import { trivialPipeline } from "../support/job-rate.ts";
import { interleaved } from "../support/pairs.ts";
import type { Row } from "../support/row.ts";
import { startBenchGateway } from "../support/servers.ts";

/** Datums of one job, and bare runs in one half of a pair. */
const COUNTS = { full: 400, quick: 150 } as const;
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
      const jobRate = await trivialPipeline({ control, image: "busybox", cmd: CMD });
      return [
        {
          what: `job of ${count} datums`,
          unit: "datums/s",
          against: `${bare.tool} in a loop`,
          pairs: await interleaved(pairs, {
            ours: () => jobRate(count),
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

async function bareRate(bare: BareCommand, count: number): Promise<number> {
  let millis = 0;
  for (let i = 0; i < count; i++) millis += await bare.run();
  return (count * 1000) / millis;
}
