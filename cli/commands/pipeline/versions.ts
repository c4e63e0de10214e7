import {
  MAX_LIST_VERSIONS,
  Pipeline,
  type PipelineVersion,
  PipelineVersionPage,
  WholePipelineVersion,
} from "../../../protocol/pipelines.ts";
import { encodePath } from "../../../protocol/requests.ts";
import type { PipelineSpec } from "../../../protocol/spec.ts";
import type { Command } from "../../command.ts";
import type { Client } from "../../gateway/client.ts";
import {
  type ClientOptions,
  entriesOf,
  moreText,
  name,
  type PageOptions,
  wholeNumber,
} from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import {
  printJson,
  printLine,
  printNote,
  printOwnText,
  printTable,
  printText,
  showListTime,
  showTime,
  visibleJson,
} from "../../output/output.ts";

/** A parser of numbers of versions. */
const versionNumber = wholeNumber({ min: 1, max: 999_999_999 });

/** One version of a pipeline's specification, by its number or as `latest`. */
function versionOf(
  client: Client,
  { pipeline, version }: { readonly pipeline: string; readonly version: number | "latest" },
): Promise<WholePipelineVersion> {
  return client.get(WholePipelineVersion, `/pipelines/${encodePath(pipeline)}/versions/${version}`);
}

/** What a key may not see of a version, and the reason. */
function hiddenText(what: string): string {
  return `${what}: this key may not read all inputs of this version and of the present one`;
}

const SIZES = { byDefault: 20, most: MAX_LIST_VERSIONS };

export function addPipelineHistory(group: Command): void {
  group
    .command("history")
    .description(
      "Lists the versions of a pipeline's spec, newest first: when each was submitted, by which key, and what it changed. A key that may list keys sees what each is for, others see ids.",
    )
    .argument("<name>", "the pipeline", name)
    .clientAction(async (client, pipeline: string, options: PageOptions) => {
      const path = `/pipelines/${encodePath(pipeline)}/versions`;
      const { entries: versions, next } = await entriesOf(options, SIZES, async (query) => {
        const page = await client.get(PipelineVersionPage, path, query);
        return { entries: page.versions, next: page.next === null ? null : String(page.next) };
      });
      if (options.json) {
        const last = next === null ? null : Number(next);
        return printJson({ versions, next: last } satisfies PipelineVersionPage);
      }
      const rows = versions.map((version) => [
        `${version.version}${version.present ? "*" : ""}`,
        showListTime(version.createdAt),
        version.keyDescription ?? version.key ?? "-",
        changesText(version),
      ]);
      printTable([["VERSION", "SUBMITTED", "KEY", "CHANGES"], ...rows], { below: 1 });
      if (next !== null) printNote(moreText(options, next));
    })
    .pageOptions(SIZES, { of: "version", place: "version" })
    .clientOptions(
      "sluice pipeline history edges",
      "sluice pipeline history edges --json | jq '.versions[].changes'",
    );
}

/** What a version changed, in short: fields of the transform by their own names, as `image` and `cmd`. */
function changesText({ version, changes, runsAll }: PipelineVersion): string {
  if (changes === null) return version === 1 ? "(the first)" : "(the version before is kept no more)";
  if (changes.length === 0) return runsAll ? "nothing; every datum ran again" : "nothing";
  return changes.map((field) => field.replace(/^transform\./, "")).join(", ");
}

/** Lines around a change that are shown with it. */
const CONTEXT_LINES = 3;
/** Two specifications that differ in more lines than this are not compared: it would take long, and nobody reads it. */
const MAX_DIFFERENT_LINES = 10_000;

export function addPipelineDiff(group: Command): void {
  group
    .command("diff")
    .description(
      "Shows by line what differs between two versions of a pipeline's spec, with every default filled in. Without the second it is the present one.",
    )
    .argument("<name>", "the pipeline", name)
    .argument("<from>", "number of a version, as 'sluice pipeline history' shows it", versionNumber)
    .argument("[to]", "number of another one", versionNumber)
    .clientAction(
      async (client, pipeline: string, from: number, to: number | undefined, options: ClientOptions) => {
        const [before, after] = await Promise.all([
          versionOf(client, { pipeline, version: from }),
          versionOf(client, { pipeline, version: to ?? "latest" }),
        ]);
        const [was, is, hidden] = comparable(before, after);
        const lines = await differences(was, is);
        if (options.json) return printJson({ pipeline, from, to: after.version, lines, hidden });
        for (const what of hidden) printNote(hiddenText(what));
        if (lines.length === 0) return printNote(`versions ${from} and ${after.version} say the same`);
        printText([`--- version ${from}`, `+++ version ${after.version}`, ...lines].join("\n"));
      },
    )
    .clientOptions(
      "sluice pipeline diff edges 1 2",
      "sluice pipeline diff edges 1",
      "sluice pipeline diff edges 1 2 --json | jq -r '.lines[]'",
    );
}

/** Two specifications without what one of them has hidden: it would look as if it had come or gone. */
function comparable(
  before: WholePipelineVersion,
  after: WholePipelineVersion,
): [PipelineSpec, PipelineSpec, string[]] {
  const isHidden = [before, after].some(({ hidden = [] }) => hidden.includes("transform.env"));
  if (!isHidden) return [before.spec, after.spec, []];
  return [withoutEnv(before.spec), withoutEnv(after.spec), ["transform.env"]];
}

function withoutEnv(spec: PipelineSpec): PipelineSpec {
  const { env: _, ...transform } = spec.transform;
  return { ...spec, transform };
}

/** The lines of a unified difference, from the first `@@` on. */
async function differences(was: PipelineSpec, is: PipelineSpec): Promise<string[]> {
  const { structuredPatch } = await import("diff");
  const [before, after] = [was, is].map((spec) => `${visibleJson(spec, { indent: 2 })}\n`);
  const patch = structuredPatch("", "", before ?? "", after ?? "", undefined, undefined, {
    context: CONTEXT_LINES,
    maxEditLength: MAX_DIFFERENT_LINES,
  });
  if (patch === undefined) {
    throw new CliError(
      `the versions differ in more than ${MAX_DIFFERENT_LINES} lines: compare what 'sluice pipeline inspect NAME --at N' shows of each`,
      { code: "TooDifferent" },
    );
  }
  return patch.hunks.flatMap(({ oldStart, oldLines, newStart, newLines, lines }) => [
    `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`,
    ...lines,
  ]);
}

interface InspectOptions extends ClientOptions {
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
    .clientAction(async (client, pipeline: string, options: InspectOptions) => {
      if (options.at === undefined && !options.spec) {
        const shown = await client.get(Pipeline, `/pipelines/${pipeline}`);
        return options.json ? printJson(shown) : printPipeline(shown);
      }
      const version = await versionOf(client, { pipeline, version: options.at ?? "latest" });
      if (options.spec) return printSpec(version, options);
      if (options.json) return printJson(version);
      printVersion(version);
    })
    .clientOptions(
      "sluice pipeline inspect edges",
      "sluice pipeline inspect edges --json | jq .state",
      "sluice pipeline inspect edges --spec > edges.yaml",
      "sluice pipeline inspect edges --at 1",
    );
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
function printSpec(
  { pipeline, spec, text, hidden = [] }: WholePipelineVersion,
  { json }: InspectOptions,
): void {
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
