import type { Command } from "commander";
import { DatumPage, type JobDatum, KnownWhy } from "../../../protocol/pipelines.ts";
import { encodePath, withClient } from "../../gateway/client.ts";
import { type PageOptions, wholeNumber, withClientOptions } from "../../options.ts";
import { printJson, printLine, printTable, showSize } from "../../output/output.ts";

const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1000;

interface Options extends PageOptions {
  readonly why?: true;
}

/** `sluice job datums` */
export function addJobDatums(group: Command): void {
  const command = group
    .command("datums")
    .description(
      "Lists the datums of a job: first those that it ran or is to run, then those that it skipped. --why says of each what it was run for (new, changed with what from and to, another version of the specification, left undone before), or whose result it has.",
    )
    .argument("<id>", "the job")
    .option("--limit <number>", "at most so many", wholeNumber({ min: 1, max: MAX_LIMIT }), DEFAULT_LIMIT)
    .option("--after <place>", "go on after this place of an earlier list")
    .option("--why", "say why each was run, or was not")
    .action((id: string, options: Options) =>
      withClient(options, async (client) => {
        const found: JobDatum[] = [];
        let next = options.after ?? null;
        // A page may be shorter than was asked for, though more follow.
        do {
          const limit = options.limit - found.length;
          const query = { limit, after: next ?? undefined, why: options.why };
          const path = `/jobs/${encodePath(id)}/datums`;
          const page = await client.call(DatumPage, { method: "GET", path, query });
          found.push(...page.datums);
          next = page.next;
        } while (next !== null && found.length < options.limit);
        if (options.json) return printJson({ datums: found, next } satisfies DatumPage);
        const why = options.why ? ["WHY"] : [];
        const rows = found.map((datum) => [...rowOf(datum), ...(options.why ? [whyText(datum)] : [])]);
        printTable([["DATUM", "STATE", "EXIT", "NODE", "INPUTS", "REASON", ...why], ...rows]);
        if (next !== null) printLine(`more with --after '${next}'`);
      }),
    );
  withClientOptions(
    command,
    "sluice job datums 01KAR…",
    "sluice job datums 01KAR… --why",
    "sluice job datums 01KAR… --json | jq '.datums[] | select(.state == \"failed\")'",
  );
}

function rowOf({ id, state, exitCode, node, inputs, reason }: JobDatum): string[] {
  const paths = inputs.map(({ name, path }) => `${name}:/${path}`).join(" ");
  return [id, state, exitCode === null ? "-" : String(exitCode), node ?? "-", paths, reason ?? ""];
}

function whyText({ why = [] }: JobDatum): string {
  return why
    .map((reason) => {
      const known = KnownWhy.safeParse(reason);
      return known.success ? reasonText(known.data) : reason.reason;
    })
    .join("; ");
}

function reasonText(why: KnownWhy): string {
  switch (why.reason) {
    case "new":
      return `new: ${why.inputs.map(({ name, path }) => `${name}:/${path}`).join(" ")}`;
    case "changed": {
      const told = why.changes.map(
        ({ input, path, before, after }) => `${input}:/${path} ${showFile(before)} -> ${showFile(after)}`,
      );
      if (why.hidden) told.push("what, is shown to keys that may read all of the inputs");
      else if (why.more) told.push("more");
      return `changed: ${told.join(", ")}`;
    }
    case "version":
      return `version ${why.from} -> ${why.to}: ${why.fields.join(", ")}`;
    case "reprocess":
      return `reprocess, by version ${why.version}`;
    case "again":
      return why.job === null ? "its result is gone" : `${why.state} in job ${why.job}`;
    case "result":
      return `has the result of job ${why.job}`;
    case "not-kept":
      return "not kept any more";
  }
}

/** Enough of a digest to tell two from each other. */
const DIGEST_CHARACTERS = 12;

function showFile(file: { readonly digest: string; readonly size: number } | null): string {
  return file === null ? "nothing" : `${file.digest.slice(0, DIGEST_CHARACTERS)} (${showSize(file.size)})`;
}
