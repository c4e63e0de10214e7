import type { Command } from "commander";
import { Pipeline } from "../../../protocol/pipelines.ts";
import { withClient } from "../../gateway/client.ts";
import { type ClientOptions, name, withClientOptions, withExamples } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

/** `sluice pipeline stop` */
export function addPipelineStop(group: Command): void {
  const command = group
    .command("stop")
    .description(
      "Stops a pipeline: its unfinished jobs are killed, and no commit makes one until it is started.",
    )
    .argument("<name>", "the pipeline", name)
    .action((pipelineName: string, options: ClientOptions) =>
      withClient(options, async (client) => {
        const path = `/pipelines/${pipelineName}/stop`;
        const pipeline = await client.call(Pipeline, { method: "POST", path, repeatable: true });
        if (options.json) printJson(pipeline);
        else printLine(`stopped ${pipeline.name}`);
      }),
    );
  withExamples(withClientOptions(command), "sluice pipeline stop edges");
}
