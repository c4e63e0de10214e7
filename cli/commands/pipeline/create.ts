import type { Command } from "commander";
import { Pipeline } from "../../../protocol/pipelines.ts";
import { withClient } from "../../gateway/client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";
import { readSpecFile } from "../../spec/spec-file.ts";

/** `sluice pipeline create` */
export function addPipelineCreate(group: Command): void {
  const command = group
    .command("create")
    .description(
      "Creates a pipeline from a spec in JSON. Every problem that the gateway finds in it is told.",
    )
    .requiredOption("-f, --file <spec>", "file with the spec; - reads stdin")
    .action((options: ClientOptions & { readonly file: string }) =>
      withClient(options, async (client) => {
        const spec = await readSpecFile(options.file);
        const pipeline = await client.call(Pipeline, { method: "POST", path: "/pipelines", json: spec });
        if (options.json) printJson(pipeline);
        else
          printLine(
            `created ${pipeline.name}; its output is s3://${pipeline.outputBranch}.${pipeline.outputRepo}`,
          );
      }),
    );
  withClientOptions(
    command,
    "sluice pipeline create -f edges.json",
    "jq . edges.json | sluice pipeline create -f -",
  );
}
