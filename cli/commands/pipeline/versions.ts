import {
  MAX_LIST_VERSIONS,
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
import { printJson, printNote, printTable, printText, showListTime } from "../../output/output.ts";
import { visibleJson } from "../../output/visible.ts";

/** A parser of numbers of versions. */
export const versionNumber = wholeNumber({ min: 1, max: 999_999_999 });

/** One version of a pipeline's specification, by its number or as `latest`. */
export function versionOf(
  client: Client,
  { pipeline, version }: { readonly pipeline: string; readonly version: number | "latest" },
): Promise<WholePipelineVersion> {
  return client.get(WholePipelineVersion, `/pipelines/${encodePath(pipeline)}/versions/${version}`);
}

/** What a key may not see of a version, and the reason. */
export function hiddenText(what: string): string {
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
