import type { Command } from "commander";
import { Pipeline } from "../../../protocol/pipelines.ts";
import { withClient } from "../../gateway/client.ts";
import { type ClientOptions, name, withClientOptions, withExamples } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

/** `sluice pipeline start` */
export function addPipelineStart(group: Command): void {
  const command = group
    .command("start")
    .description(
      "Starts a stopped pipeline: one job for what its inputs hold now, if they moved since its last job.",
    )
    .argument("<name>", "the pipeline", name)
    .action((pipelineName: string, options: ClientOptions) =>
      withClient(options, async (client) => {
        const path = `/pipelines/${pipelineName}/start`;
        const pipeline = await client.call(Pipeline, { method: "POST", path, repeatable: true });
        if (options.json) printJson(pipeline);
        else printLine(`started ${pipeline.name}`);
      }),
    );
  withExamples(withClientOptions(command), "sluice pipeline start edges");
}
