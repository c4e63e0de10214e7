import type { Command } from "commander";
import { DatumPage, type JobDatum } from "../../../protocol/pipelines.ts";
import { encodePath, withClient } from "../../gateway/client.ts";
import { type PageOptions, wholeNumber, withClientOptions } from "../../options.ts";
import { printJson, printLine, printTable } from "../../output/output.ts";

const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1000;

/** `sluice job datums` */
export function addJobDatums(group: Command): void {
  const command = group
    .command("datums")
    .description(
      "Lists the datums of a job: first those that it ran or is to run, then those that it skipped.",
    )
    .argument("<id>", "the job")
    .option("--limit <number>", "at most so many", wholeNumber({ min: 1, max: MAX_LIMIT }), DEFAULT_LIMIT)
    .option("--after <place>", "go on after this place of an earlier list")
    .action((id: string, options: PageOptions) =>
      withClient(options, async (client) => {
        const found: JobDatum[] = [];
        let next = options.after ?? null;
        // A page may be shorter than was asked for, though more follow.
        do {
          const query = { limit: options.limit - found.length, after: next ?? undefined };
          const path = `/jobs/${encodePath(id)}/datums`;
          const page = await client.call(DatumPage, { method: "GET", path, query });
          found.push(...page.datums);
          next = page.next;
        } while (next !== null && found.length < options.limit);
        if (options.json) return printJson({ datums: found, next } satisfies DatumPage);
        printTable([["DATUM", "STATE", "EXIT", "NODE", "INPUTS", "REASON"], ...found.map(rowOf)]);
        if (next !== null) printLine(`more with --after '${next}'`);
      }),
    );
  withClientOptions(
    command,
    "sluice job datums 01KAR…",
    "sluice job datums 01KAR… --json | jq '.datums[] | select(.state == \"failed\")'",
  );
}

function rowOf({ id, state, exitCode, node, inputs, reason }: JobDatum): string[] {
  const paths = inputs.map(({ name, path }) => `${name}:/${path}`).join(" ");
  return [id, state, exitCode === null ? "-" : String(exitCode), node ?? "-", paths, reason ?? ""];
}
