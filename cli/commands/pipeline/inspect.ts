import { Pipeline, type WholePipelineVersion } from "../../../protocol/pipelines.ts";
import type { Command } from "../../command.ts";
import type { Client } from "../../gateway/client.ts";
import { type ClientOptions, name } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { printJson, printLine, printOwnText, printText, showTime } from "../../output/output.ts";
import { visibleJson } from "../../output/visible.ts";
import { hiddenText, versionNumber, versionOf } from "./versions.ts";

interface Options extends ClientOptions {
  readonly spec?: true;
  readonly at?: number;
}

export function addPipelineInspect(group: Command): void {
  group
    .command("inspect")
    .description("Shows a pipeline and its spec with every default filled in.")
    .argument("<name>", "the pipeline", name)
    .option("--at <version>", "as this version of its spec was, by its number", versionNumber)
    .option(
      "--spec",
      "print the spec alone, as 'sluice pipeline update' takes it: the text that was submitted, if it is kept, else JSON, as also with --json",
    )
    .clientAction(async (client, pipelineName: string, options: Options) => {
      if (options.at !== undefined) {
        const { at } = options;
        return await inspectVersion(client, { pipelineName, options: { ...options, at } });
      }
      if (options.spec)
        return printSpec(await versionOf(client, { pipeline: pipelineName, version: "latest" }), options);
      const pipeline = await pipelineOf(client, pipelineName);
      if (options.json) return printJson(pipeline);
      printPipeline(pipeline);
    })
    .clientOptions(
      "sluice pipeline inspect edges",
      "sluice pipeline inspect edges --json | jq .state",
      "sluice pipeline inspect edges --spec > edges.yaml",
      "sluice pipeline inspect edges --at 1",
    );
}

function pipelineOf(client: Client, pipelineName: string): Promise<Pipeline> {
  return client.get(Pipeline, `/pipelines/${pipelineName}`);
}

/** What `--spec` prints of. */
type Shown = Pick<WholePipelineVersion, "pipeline" | "spec" | "text" | "hidden">;

async function inspectVersion(
  client: Client,
  { pipelineName: pipeline, options }: { pipelineName: string; options: Options & { readonly at: number } },
): Promise<void> {
  const version = await versionOf(client, { pipeline, version: options.at });
  if (options.spec) return printSpec(version, options);
  if (options.json) return printJson(version);
  printVersion(version);
}

/** A version for people. */
function printVersion(version: WholePipelineVersion): void {
  printLine(`name       ${version.pipeline}`);
  printLine(`version    ${version.version}${version.present ? " (the present one)" : ""}`);
  printLine(`submitted  ${showTime(version.createdAt)}`);
  printLine(`key        ${version.keyDescription ?? version.key ?? "-"}`);
  printLine(`limited    ${showLimited(version.limited)}`);
  for (const path of version.hidden ?? []) printLine(`hidden     ${hiddenText(path)}`);
  printText(`spec       ${visibleJson(version.spec, { indent: 2 })}`);
}

/**
 * The text that the spec was read from, if it is kept and the key may see it, else the spec in JSON, as also with --json. A spec
 * that lacks something must not be taken for the whole one: an update with it would lose that.
 */
function printSpec({ pipeline, spec, text, hidden = [] }: Shown, { json }: Options): void {
  if (hidden.includes("transform.env")) {
    throw new CliError(
      `the spec of '${pipeline}' is not shown whole: this key may not see transform.env, since it may not read all of the inputs`,
      { code: "AccessDenied" },
    );
  }
  if (text === undefined || json) printText(visibleJson(spec, { indent: 2 }));
  else printOwnText(text);
}

/** A pipeline for people. */
function printPipeline(pipeline: Pipeline): void {
  printLine(`name     ${pipeline.name}`);
  if (pipeline.spec.description) printLine(`about    ${pipeline.spec.description}`);
  printLine(`state    ${pipeline.state}${pipeline.reason === null ? "" : ` (${pipeline.reason})`}`);
  printLine(`version  ${pipeline.version}`);
  printLine(`created  ${showTime(pipeline.createdAt)}`);
  printLine(`limited  ${showLimited(pipeline.limited)}`);
  printLine(`output   s3://${pipeline.outputBranch}.${pipeline.outputRepo}`);
  if (pipeline.errorsBranch !== undefined) {
    printLine(`errors   s3://${pipeline.errorsBranch}.${pipeline.outputRepo}`);
  }
  for (const path of pipeline.hidden ?? [])
    printLine(`hidden   ${path}: this key may not read all of the inputs`);
  printText(`spec     ${visibleJson(pipeline.spec, { indent: 2 })}`);
}

/** Whose the pipeline is, which decides over the secrets that it gets. */
function showLimited(limited: boolean): string {
  return limited ? "yes: the key that updated it last is limited to repos" : "no";
}
