import type { Command } from "commander";
import type { WholePipelineVersion } from "../../../protocol/pipelines.ts";
import type { PipelineSpec } from "../../../protocol/spec.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { printJson, printNote, printText } from "../../output/output.ts";
import { visibleJson } from "../../output/visible.ts";
import { hiddenText, versionNumber, versionOf } from "./versions.ts";

/** Lines around a change that are shown with it. */
const CONTEXT_LINES = 3;
/** Two specifications that differ in more lines than this are not compared: it would take long, and nobody reads it. */
const MAX_DIFFERENT_LINES = 10_000;

/** `sluice pipeline diff` */
export function addPipelineDiff(group: Command): void {
  const command = group
    .command("diff")
    .description(
      "Shows by line what differs between two versions of a pipeline's spec, with every default filled in. Without the second it is the present one.",
    )
    .argument("<name>", "the pipeline", name)
    .argument("<from>", "number of a version, as 'sluice pipeline history' shows it", versionNumber)
    .argument("[to]", "number of another one", versionNumber)
    .action((pipeline: string, from: number, to: number | undefined, options: ClientOptions) =>
      withClient(options, async (client) => {
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
      }),
    );
  withClientOptions(
    command,
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
