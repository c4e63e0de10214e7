import type { Command } from "commander";
import { bucketName } from "../../../protocol/names.ts";
import { Pipeline, type PipelineList } from "../../../protocol/pipelines.ts";
import type { Client } from "../../gateway/client.ts";
import { namesOf, readersOf } from "../../gateway/jobs/downstream.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { printJson, printLine, printNote } from "../../output/output.ts";

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
        const readers = options.force && !options.keepOutput ? await outputReaders(client, pipelineName) : [];
        const answer = await client.send({
          method: "DELETE",
          path: `/api/v1/pipelines/${pipelineName}`,
          query: { keepOutput: options.keepOutput, force: options.force },
        });
        await answer.body.dump();
        if (options.json) return printJson({ deleted: pipelineName });
        if (readers.length > 0)
          printNote(`its output was read by ${namesOf(readers)}: the input is empty now`);
        printLine(`deleted ${pipelineName}`);
      }),
    );
  withClientOptions(command, "sluice pipeline delete edges", "sluice pipeline delete --keep-output edges");
}

/** The pipelines that are left without an input. Without --force the gateway names one and refuses. */
async function outputReaders(client: Client, name: string): Promise<PipelineList["pipelines"]> {
  const path = `/pipelines/${name}`;
  const { outputRepo, outputBranch, errorsBranch } = await client.call(Pipeline, { method: "GET", path });
  const branches = [outputBranch, ...(errorsBranch === undefined ? [] : [errorsBranch])];
  const readers = await Promise.all(
    branches.map((branch) => readersOf(client, bucketName({ repo: outputRepo, branch }))),
  );
  return readers.flat();
}
