import type { Command } from "commander";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printLine, printNote } from "../../output/output.ts";
import { readSpecFile } from "../../spec/spec-file.ts";
import { submit } from "../../spec/submission.ts";
import { foreseenWarnings, printCheck } from "./check.ts";

interface Options extends ClientOptions {
  readonly file: string;
  readonly reprocess?: true;
  readonly plan?: true;
}

/** `sluice pipeline update` */
export function addPipelineUpdate(group: Command): void {
  const command = group
    .command("update")
    .description(
      "Gives a pipeline a new spec, and makes one job for it. If the transform has changed, datums run again; if only workers, tries or times have, running jobs go on. The pipeline then belongs to this key, also if nothing has changed: no job is made for that.",
    )
    .requiredOption("-f, --file <spec>", "file with the spec, in JSON or YAML; - reads stdin")
    .option("--plan", "say what it would change, how many datums would run and why, and do nothing")
    .option("--reprocess", "run every datum again, whatever has changed")
    .action((options: Options) =>
      withClient(options, async (client) => {
        const file = await readSpecFile(options.file);
        const { spec } = file;
        const { json, reprocess } = options;
        if (options.plan) return await printCheck(client, { spec, update: true, reprocess }, { json });
        const warnings = await foreseenWarnings(client, { spec, update: true });
        const pipeline = await submit(client, file, { update: true, reprocess });
        if (options.json) printJson(pipeline);
        else printLine(`${pipeline.name} is at version ${pipeline.version} of its spec`);
        for (const warning of warnings) printNote(`warning: ${warning}`);
      }),
    );
  withClientOptions(
    command,
    "sluice pipeline update -f edges.json",
    "sluice pipeline update -f edges.json --plan",
    "sluice pipeline update -f edges.json --reprocess",
    "sluice pipeline inspect edges --spec | sluice pipeline update -f -",
  );
}
