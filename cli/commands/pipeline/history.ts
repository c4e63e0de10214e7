import type { Command } from "commander";
import { MAX_LIST_VERSIONS, type PipelineVersion, PipelineVersionPage } from "../../../protocol/pipelines.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { withClient } from "../../gateway/with-client.ts";
import { entriesOf, moreText, name, type PageOptions, withClientOptions, withPages } from "../../options.ts";
import { printJson, printNote, printTable, showListTime } from "../../output/output.ts";

const SIZES = { byDefault: 20, most: MAX_LIST_VERSIONS };

/** `sluice pipeline history` */
export function addPipelineHistory(group: Command): void {
  const command = group
    .command("history")
    .description(
      "Lists the versions of a pipeline's spec, newest first: when each was submitted, by which key, and what it changed. A key that may list keys sees what each is for, others see ids.",
    )
    .argument("<name>", "the pipeline", name)
    .action((pipeline: string, options: PageOptions) =>
      withClient(options, async (client) => {
        const path = `/pipelines/${encodePath(pipeline)}/versions`;
        const { entries: versions, next } = await entriesOf(options, SIZES, async (query) => {
          const page = await client.call(PipelineVersionPage, { method: "GET", path, query });
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
      }),
    );
  withPages(command, SIZES, { of: "version", place: "version" });
  withClientOptions(
    command,
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
