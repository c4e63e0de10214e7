import type { Command } from "commander";
import { PipelineCheck } from "../../../protocol/pipeline-check.ts";
import { withClient } from "../../gateway/client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { count, printJson, printText } from "../../output/output.ts";
import { readSpecFile } from "../../spec/spec-file.ts";

interface Options extends ClientOptions {
  readonly file: string;
  readonly update?: true;
}

/** `sluice pipeline check` */
export function addPipelineCheck(group: Command): void {
  const command = group
    .command("check")
    .description(
      "Says what a spec would come to, its workers and its first datums, or every problem in it. Makes nothing.",
    )
    .requiredOption("-f, --file <spec>", "file with the spec; - reads stdin")
    .option("--update", "as the next version of a pipeline that is there")
    .action((options: Options) =>
      withClient(options, async (client) => {
        const check = await client.call(PipelineCheck, {
          method: "POST",
          path: "/pipelines",
          query: { dryRun: true, update: options.update },
          json: await readSpecFile(options.file),
          repeatable: true,
        });
        if (options.json) printJson(check);
        else for (const line of checkLines(check)) printText(line);
      }),
    );
  withClientOptions(
    command,
    "sluice pipeline check -f edges.json",
    "sluice pipeline check -f edges.json --update",
    "sluice pipeline check -f edges.json --json | jq .spec",
  );
}

/** A check for people. */
function checkLines({ spec, workers, inputs, datums }: PipelineCheck): string[] {
  const { name } = spec.pipeline;
  const nodes = workers.liveNodes === 0 ? "no node lives" : `on ${count(workers.liveNodes, "live node")}`;
  return [
    `${name} is good`,
    `workers  ${workers.count} (${nodes})`,
    `output   s3://${spec.outputBranch}.${name}`,
    ...inputs.map((input) => `input    ${inputLine(input)}`),
    `datums   ${datumsLine({ inputs, datums })}`,
    ...datums.first.map(({ inputs }) =>
      `  ${inputs.map((part) => partText(part, inputs.length)).join(" with ")}`.trimEnd(),
    ),
    `spec     ${JSON.stringify(spec, null, 2)}`,
  ];
}

function inputLine({
  name,
  repo,
  branch,
  glob,
  hasData,
  matches,
  complete,
  lazy,
  from,
}: PipelineCheck["inputs"][number]): string {
  const found = `${complete ? "" : "at least "}${matches} ${matches === 1 ? "match" : "matches"}`;
  const start = from === null ? "" : ` after ${from}`;
  const nothing = from === null ? "which is empty" : "where nothing was written since";
  const place = `${glob} in s3://${branch}.${repo}${start}`;
  return `${name}: ${place}, ${hasData ? found : nothing}${lazy ? ", as pipes" : ""}`;
}

function datumsLine({ inputs, datums }: Pick<PipelineCheck, "inputs" | "datums">): string {
  if (inputs.length === 0) return "one, without inputs";
  const empty = inputs.filter(({ hasData }) => !hasData).map(({ name }) => name);
  if (empty.length > 0) return `none yet: the first job waits for data in ${empty.join(" and ")}`;
  if (datums.total === 0) return "none: nothing matches";
  if (datums.total !== null && datums.limit !== null && datums.total > datums.limit) {
    return `${datums.total}, more than the ${datums.limit} that a job may have: it would fail; the first ones:`;
  }
  const total = datums.total === null ? "too many to count here" : String(datums.total);
  return datums.total === datums.first.length ? total : `${total}; the first ones:`;
}

function partText({ name, path }: { name: string; path: string }, parts: number): string {
  return parts === 1 ? path : `${name}:${path}`;
}
