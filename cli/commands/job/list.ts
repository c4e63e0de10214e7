import { type Command, Option } from "commander";
import { JobPage, JobState } from "../../../protocol/pipelines.ts";
import { withClient } from "../../gateway/client.ts";
import { name, type PageOptions, wholeNumber, withClientOptions } from "../../options.ts";
import { printJson, printLine, printTable, showTime } from "../../output/output.ts";
import { showDatums } from "./show.ts";

interface Options extends PageOptions {
  readonly pipeline?: string;
  readonly state?: JobState;
}

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 1000;

/** `sluice job list` */
export function addJobList(group: Command): void {
  const command = group
    .command("list")
    .description("Lists jobs, newest first.")
    .option("--pipeline <name>", "only those of this pipeline", name)
    .addOption(new Option("--state <state>", "only those in this state").choices(JobState.options))
    .option("--limit <number>", "at most so many", wholeNumber({ min: 1, max: MAX_LIMIT }), DEFAULT_LIMIT)
    .option("--after <id>", "go on after this job of an earlier list")
    .action((options: Options) =>
      withClient(options, async (client) => {
        const { pipeline, state, limit, after } = options;
        const query = { limit, pipeline, state, after };
        const page = await client.call(JobPage, { method: "GET", path: "/jobs", query });
        if (options.json) return printJson(page);
        const rows = page.jobs.map((job) => [
          job.id,
          job.pipeline,
          job.state,
          showDatums(job),
          showTime(job.createdAt),
          job.reason ?? "",
        ]);
        printTable([["ID", "PIPELINE", "STATE", "DATUMS", "CREATED", "REASON"], ...rows]);
        if (page.next !== null) printLine(`more with --after ${page.next}`);
      }),
    );
  withClientOptions(command, "sluice job list --pipeline edges", "sluice job list --state failure --limit 5");
}
