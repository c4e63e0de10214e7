import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import type { Command } from "commander";
import { Pipeline } from "../../protocol/pipelines.ts";
import { CliError } from "../failure.ts";
import { type ClientOptions, withClientOptions, withExamples } from "../options.ts";
import { printJson, printLine } from "../output.ts";
import { withClient } from "../with-client.ts";

interface Options extends ClientOptions {
  readonly file: string;
}

/** `sluice pipeline create` */
export function addPipelineCreate(group: Command): void {
  const command = group
    .command("create")
    .description(
      "Creates a pipeline from a spec in JSON. Every problem that the gateway finds in it is told.",
    )
    .requiredOption("-f, --file <spec>", "file with the spec; - reads stdin")
    .action((options: Options) =>
      withClient(options, async (client) => {
        const spec = await readSpec(options.file);
        const pipeline = await client.call(Pipeline, { method: "POST", path: "/pipelines", json: spec });
        if (options.json) printJson(pipeline);
        else
          printLine(
            `created ${pipeline.name}; its output is s3://${pipeline.outputBranch}.${pipeline.outputRepo}`,
          );
      }),
    );
  withExamples(
    withClientOptions(command),
    "sluice pipeline create -f edges.json",
    "jq . edges.json | sluice pipeline create -f -",
  );
}

async function readSpec(file: string): Promise<unknown> {
  const source = file === "-" ? "stdin" : file;
  const content = await (file === "-" ? text(process.stdin) : readFile(file, "utf8"));
  try {
    return JSON.parse(content);
  } catch (error) {
    throw new CliError(`${source} is not JSON: ${(error as SyntaxError).message}`, { code: "BadJson" });
  }
}
