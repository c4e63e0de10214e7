import { type Command, Option } from "commander";
import { type DatumPage, DatumState, type JobDatum, KnownWhy } from "../../../protocol/pipelines.ts";
import { jobNamed, namedJob } from "../../gateway/ids/ids.ts";
import { addLastLines, findDatums } from "../../gateway/jobs/datums.ts";
import { withClient } from "../../gateway/with-client.ts";
import { moreText, name, type PageOptions, wantedOf, withClientOptions, withPages } from "../../options.ts";
import { printJson, printNote, printTable, shortener, showSize } from "../../output/output.ts";

const SIZES = { byDefault: 100, most: 1000 };

interface Options extends PageOptions {
  readonly why?: true;
  readonly pipeline?: string;
  readonly state?: JobDatum["state"];
}

/** `sluice job datums` */
export function addJobDatums(group: Command): void {
  const command = group
    .command("datums")
    .description(
      "Lists the datums of a job: first those that it ran or is to run, then those that it skipped. --why says of each what it was run for (new, changed with what from and to, another version of the specification, left undone before), or whose result it has. The reason of one that failed ends in the last line that it printed.",
    )
    .argument("[id]", "the job, or how its id begins")
    .option("--pipeline <name>", "the newest job of this pipeline", name)
    .addOption(new Option("--state <state>", "only those in this state").choices(DatumState.options))
    .option("--why", "say why each was run, or was not")
    .action((text: string | undefined, options: Options) => {
      const named = namedJob(text, options);
      return withClient(options, async (client) => {
        const id = await jobNamed(client, named);
        const { datums: found, next } = await findDatums(client, {
          ...options,
          job: id,
          limit: wantedOf(options, SIZES),
        });
        await addLastLines(client, { job: id, datums: found });
        if (options.json) return printJson({ datums: found, next } satisfies DatumPage);
        const why = options.why ? ["WHY"] : [];
        const short = shortener(found.map((datum) => datum.id));
        const rows = found.map((datum) => [
          short(datum.id),
          ...rowOf(datum),
          ...(options.why ? [whyText(datum)] : []),
        ]);
        const heading = ["DATUM", "STATE", "EXIT", "NODE", "INPUTS", "REASON", ...why];
        printTable([heading, ...rows], { below: 1 + why.length });
        if (next !== null) printNote(moreText(options, `'${next}'`));
      });
    });
  withPages(command, SIZES, { of: "place", place: "place" });
  withClientOptions(
    command,
    "sluice job datums 01KAR…",
    "sluice job datums 01KAR… --why",
    "sluice job datums --pipeline edges --state failed",
    "sluice job datums 01KAR… --json | jq -r '.datums[].id'",
  );
}

function rowOf({ state, exitCode, node, inputs, reason }: JobDatum): string[] {
  const paths = inputs.map(({ name, path }) => `${name}:/${path}`).join(" ");
  return [state, exitCode === null ? "-" : String(exitCode), node ?? "-", paths, reason ?? ""];
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
