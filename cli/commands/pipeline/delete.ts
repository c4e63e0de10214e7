import type { Command } from "commander";
import { withClient } from "../../gateway/client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

interface Options extends ClientOptions {
  readonly keepOutput?: true;
  readonly force?: true;
}

/** `sluice pipeline delete` */
export function addPipelineDelete(group: Command): void {
  const command = group
    .command("delete")
    .description("Deletes a pipeline: its jobs end, and its output branch goes with it.")
    .argument("<name>", "the pipeline", name)
    .option("--keep-output", "leave the output branch, as a branch like any other")
    .option("--force", "even if another pipeline reads the output, which is then deleted under it")
    .action((pipelineName: string, options: Options) =>
      withClient(options, async (client) => {
        const answer = await client.send({
          method: "DELETE",
          path: `/api/v1/pipelines/${pipelineName}`,
          query: { keepOutput: options.keepOutput, force: options.force },
        });
        await answer.body.dump();
        if (options.json) printJson({ deleted: pipelineName });
        else printLine(`deleted ${pipelineName}`);
      }),
    );
  withClientOptions(command, "sluice pipeline delete edges", "sluice pipeline delete --keep-output edges");
}
