import type { Command } from "commander";
import { Pipeline } from "../../../protocol/pipelines.ts";
import { withClient } from "../../gateway/client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { printJson, printLine, showTime } from "../../output/output.ts";

/** `sluice pipeline inspect` */
export function addPipelineInspect(group: Command): void {
  const command = group
    .command("inspect")
    .description("Shows a pipeline and its spec with every default filled in.")
    .argument("<name>", "the pipeline", name)
    .action((pipelineName: string, options: ClientOptions) =>
      withClient(options, async (client) => {
        const pipeline = await client.call(Pipeline, { method: "GET", path: `/pipelines/${pipelineName}` });
        if (options.json) return printJson(pipeline);
        printLine(`name     ${pipeline.name}`);
        printLine(`state    ${pipeline.state}${pipeline.reason === null ? "" : ` (${pipeline.reason})`}`);
        printLine(`version  ${pipeline.version}`);
        printLine(`created  ${showTime(pipeline.createdAt)}`);
        printLine(`output   s3://${pipeline.outputBranch}.${pipeline.outputRepo}`);
        printLine(`spec     ${JSON.stringify(pipeline.spec, null, 2)}`);
      }),
    );
  withClientOptions(
    command,
    "sluice pipeline inspect edges",
    "sluice pipeline inspect edges --json | jq .spec",
  );
}
