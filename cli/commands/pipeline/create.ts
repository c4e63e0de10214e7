import type { Command } from "commander";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printLine, printNote } from "../../output/output.ts";
import { readSpecFile } from "../../spec/spec-file.ts";
import { submit } from "../../spec/submission.ts";
import { foreseenWarnings } from "./check.ts";

/** `sluice pipeline create` */
export function addPipelineCreate(group: Command): void {
  const command = group
    .command("create")
    .description(
      "Creates a pipeline from a spec in JSON or YAML: which of the two it is, the ending of its name says (.json, .yaml, .yml), else how it begins. Every problem that the gateway finds in it is told.",
    )
    .requiredOption("-f, --file <spec>", "file with the spec, in JSON or YAML; - reads stdin")
    .action((options: ClientOptions & { readonly file: string }) =>
      withClient(options, async (client) => {
        const file = await readSpecFile(options.file);
        const warnings = await foreseenWarnings(client, { spec: file.spec, update: undefined });
        const pipeline = await submit(client, file);
        if (options.json) printJson(pipeline);
        else
          printLine(
            `created ${pipeline.name}; its output is s3://${pipeline.outputBranch}.${pipeline.outputRepo}`,
          );
        for (const warning of warnings) printNote(`warning: ${warning}`);
      }),
    );
  withClientOptions(
    command,
    "sluice pipeline create -f edges.json",
    "sluice pipeline create -f edges.yaml",
    "sed 's/IMAGE/edges:3/' edges.yaml | sluice pipeline create -f -",
  );
}
