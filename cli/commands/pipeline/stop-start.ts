import type { Command } from "commander";
import { Pipeline } from "../../../protocol/pipelines.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

const ACTS = {
  stop: {
    done: "stopped",
    does: "Stops a pipeline: its unfinished jobs are killed, and no commit makes one until it is started.",
  },
  start: {
    done: "started",
    does: "Starts a stopped pipeline: one job for what its inputs hold now, if they moved since its last job.",
  },
} as const;

/** `sluice pipeline stop` and `sluice pipeline start` */
export function addPipelineStopStart(group: Command): void {
  for (const [act, { done, does }] of Object.entries(ACTS)) {
    const command = group
      .command(act)
      .description(does)
      .argument("<name>", "the pipeline", name)
      .action((pipelineName: string, options: ClientOptions) =>
        withClient(options, async (client) => {
          const path = `/pipelines/${pipelineName}/${act}`;
          const pipeline = await client.call(Pipeline, { method: "POST", path, repeatable: true });
          if (options.json) printJson(pipeline);
          else printLine(`${done} ${pipeline.name}`);
        }),
      );
    withClientOptions(command, `sluice pipeline ${act} edges`);
  }
}
