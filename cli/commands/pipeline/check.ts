import { PipelineCheck, type PlanGroup, PlanReason } from "../../../protocol/pipeline-check.ts";
import { NodeList } from "../../../protocol/runner.ts";
import type { Command } from "../../command.ts";
import { type Client, unlessRefused } from "../../gateway/client.ts";
import type { ClientOptions } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { count, printJson, printNote, printText } from "../../output/output.ts";
import { readSpecFile } from "../../spec/spec-file.ts";

interface Options extends ClientOptions {
  readonly file: string;
  readonly update?: true;
}

export function addPipelineCheck(group: Command): void {
  group
    .command("check")
    .description(
      "Says what a spec would come to, its workers and its first datums, or every problem in it. Makes nothing.",
    )
    .requiredOption("-f, --file <spec>", "file with the spec, in JSON or YAML; - reads stdin")
    .option("--update", "as the next version of a pipeline that is there")
    .clientAction(async (client, { file, update, json }: Options) => {
      const { spec } = await readSpecFile(file);
      await printCheck(client, { spec, update }, { json });
    })
    .clientOptions(
      "sluice pipeline check -f edges.json",
      "sluice pipeline check -f edges.json --update",
      "sluice pipeline check -f edges.json --json | jq .spec",
    );
}

/** Checks a specification, and prints what it would come to. */
export async function printCheck(
  client: Client,
  checked: Checked,
  { json }: { readonly json: true | undefined },
): Promise<void> {
  const check = await checkOf(client, checked);
  const warnings = await warningsOf(client, check);
  if (json) return printJson({ ...check, warnings });
  for (const line of checkLines(check)) printText(line);
  for (const warning of warnings) printNote(`warning: ${warning}`);
}

/** A check for people. */
function checkLines({ spec, workers, inputs, datums, plan }: PipelineCheck): string[] {
  const { name } = spec.pipeline;
  const nodes = workers.liveNodes === 0 ? "no node lives" : `on ${count(workers.liveNodes, "live node")}`;
  return [
    `${name} is good`,
    `workers  ${workers.count} (${nodes})`,
    `output   s3://${spec.outputBranch}.${name}`,
    ...inputs.map((input) => `input    ${inputLine(input)}`),
    ...(plan ? planLines(plan) : []),
    `datums   ${datumsLine({ inputs, datums })}`,
    ...datums.first.map((datum) => `  ${datumText(datum)}`.trimEnd()),
    `spec     ${JSON.stringify(spec, null, 2)}`,
  ];
}

interface Checked {
  readonly spec: unknown;
  /** Whether it is to be the next version of a pipeline. */
  readonly update: true | undefined;
  /** Whether that runs every datum again. */
  readonly reprocess?: true | undefined;
}

function checkOf(client: Client, { spec, update, reprocess }: Checked): Promise<PipelineCheck> {
  return client.post(PipelineCheck, "/pipelines", {
    query: { dryRun: true, update, reprocess },
    json: spec,
    repeatable: true,
  });
}

/**
 * What will hardly be meant of a specification that is about to be submitted. Nothing, if it can't be checked: what is wrong
 * with it is told when it is submitted.
 */
export async function foreseenWarnings(client: Client, checked: Checked): Promise<string[]> {
  try {
    return await warningsOf(client, await checkOf(client, checked));
  } catch (error) {
    if (error instanceof CliError) return [];
    throw error;
  }
}

async function warningsOf(client: Client, { inputs, spec }: PipelineCheck): Promise<string[]> {
  const warnings = inputs
    .filter(({ hasData, matches, complete }) => hasData && complete && matches === 0)
    .map(({ name, glob }) => `the glob ${glob} of the input ${name} matches nothing`);
  // A key that is limited to repos does not see the nodes.
  const list = await unlessRefused(client.get(NodeList, "/nodes"), 403);
  const live = list?.nodes.filter((node) => node.live) ?? [];
  // A command that runs as a process of its node runs with that one's tools.
  if (live.length > 0 && live.every(({ executor }) => executor === "process"))
    warnings.push(`no live node honours the image ${spec.transform.image}: all run commands as processes`);
  return warnings;
}

type Plan = NonNullable<PipelineCheck["plan"]>;

/** What an update changes, how many datums it would run, and a line for each reason. */
function planLines(plan: Plan): string[] {
  const groups = plan.why;
  const counts = groups.map(({ count: many }) => (many === null ? "all" : String(many)));
  const width = Math.max(...counts.map((text) => text.length));
  return [
    `changes  ${plan.changes.join(", ") || "nothing"}`,
    `plan     ${planText(plan)}`,
    ...groups.map((group, index) => `  ${(counts[index] ?? "").padStart(width)}  ${groupText(group)}`),
  ];
}

/** Such as "transform.cmd changes: /a.csv, /b.csv, /c.csv, …". */
function groupText({ why, count: many, first }: PlanGroup): string {
  const shown = first.map(datumText);
  const more = many === null || many > first.length ? ["…"] : [];
  const known = PlanReason.safeParse(why);
  const reason = known.success ? planReasonText(known.data) : why.reason;
  return shown.join("") === "" ? reason : `${reason}: ${[...shown, ...more].join(", ")}`;
}

function planReasonText(why: PlanReason): string {
  switch (why.reason) {
    case "version":
    case "inputs":
      return `${why.fields.join(" and ")} ${why.fields.length === 1 ? "changes" : "change"}`;
    case "reprocess":
      return "run again because that is asked for";
    case "new":
      return "new since the newest job";
    case "changed":
      return "changed since the newest job";
    case "again":
      return why.job === null ? "without a result any more" : `${why.state} in job ${why.job}`;
    case "unfinished":
      return `not done yet in job ${why.job}`;
  }
}

/** Such as "would run 3 datums, and keep the results of 197". */
function planText({ run, kept, counted, why }: Plan): string {
  if (why.some(({ count: many }) => many === null)) return `would run every datum again, at least ${run}`;
  const least = counted ? "" : "at least ";
  return `would run ${least}${count(run, "datum")}, and keep the results of ${least}${kept}`;
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
  const total = datums.total === null ? `at least ${datums.atLeast}` : String(datums.total);
  if (datums.limit !== null && (datums.total ?? datums.atLeast) > datums.limit) {
    return `${total}, more than the ${datums.limit} that a job may have: it would fail; the first ones:`;
  }
  return datums.total === datums.first.length ? total : `${total}; the first ones:`;
}

function datumText({ inputs }: PipelineCheck["datums"]["first"][number]): string {
  return inputs.map(({ name, path }) => (inputs.length === 1 ? path : `${name}:${path}`)).join(" with ");
}
