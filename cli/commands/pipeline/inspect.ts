import type { Command } from "commander";
import { Pipeline } from "../../../protocol/pipelines.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { printJson, printLine, printText, showTime } from "../../output/output.ts";
import { visibleJson } from "../../output/visible.ts";

interface Options extends ClientOptions {
  readonly spec?: true;
}

/** `sluice pipeline inspect` */
export function addPipelineInspect(group: Command): void {
  const command = group
    .command("inspect")
    .description("Shows a pipeline and its spec with every default filled in.")
    .argument("<name>", "the pipeline", name)
    .option("--spec", "print the spec alone, as 'sluice pipeline update' takes it")
    .action((pipelineName: string, options: Options) =>
      withClient(options, async (client) => {
        const pipeline = await client.call(Pipeline, { method: "GET", path: `/pipelines/${pipelineName}` });
        if (options.spec) return printSpec(pipeline);
        if (options.json) return printJson(pipeline);
        printPipeline(pipeline);
      }),
    );
  withClientOptions(
    command,
    "sluice pipeline inspect edges",
    "sluice pipeline inspect edges --json | jq .state",
    "sluice pipeline inspect edges --spec > edges.json",
  );
}

/** A spec that lacks something must not be taken for the whole one: an update with it would lose that. */
function printSpec({ name: pipelineName, spec, hidden = [] }: Pipeline): void {
  if (hidden.length > 0) {
    throw new CliError(
      `the spec of '${pipelineName}' is not shown whole: this key may not see ${hidden.join(", ")}, since it may not read all of the inputs`,
      { code: "AccessDenied" },
    );
  }
  printText(visibleJson(spec, { indent: 2 }));
}

/** A pipeline for people. */
function printPipeline(pipeline: Pipeline): void {
  printLine(`name     ${pipeline.name}`);
  if (pipeline.spec.description) printLine(`about    ${pipeline.spec.description}`);
  printLine(`state    ${pipeline.state}${pipeline.reason === null ? "" : ` (${pipeline.reason})`}`);
  printLine(`version  ${pipeline.version}`);
  printLine(`created  ${showTime(pipeline.createdAt)}`);
  if (pipeline.limited !== undefined) printLine(`limited  ${showLimited(pipeline.limited)}`);
  printLine(`output   s3://${pipeline.outputBranch}.${pipeline.outputRepo}`);
  if (pipeline.errorsBranch !== undefined) {
    printLine(`errors   s3://${pipeline.errorsBranch}.${pipeline.outputRepo}`);
  }
  for (const path of pipeline.hidden ?? [])
    printLine(`hidden   ${path}: this key may not read all of the inputs`);
  printText(`spec     ${visibleJson(pipeline.spec, { indent: 2 })}`);
}

/** Whose the pipeline is, which decides over the secrets that it gets. */
function showLimited(limited: boolean | null): string {
  if (limited === null) return "yes, until a key that is not limited to repos updates it ('sluice doctor')";
  return limited ? "yes: the key that updated it last is limited to repos" : "no";
}
