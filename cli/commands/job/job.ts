import { type Command, Option } from "commander";
import { Job, JobRetry } from "../../../protocol/pipelines.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { jobId, jobNamed, namedJob } from "../../gateway/ids/ids.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { printJson, printLine, printNote } from "../../output/output.ts";
import { addJobDatums } from "./datums.ts";
import { addJobList } from "./list.ts";
import { addJobLogs } from "./logs.ts";
import { printJob } from "./show.ts";
import { addJobWait } from "./wait.ts";

/** `sluice job …` */
export function addJob(program: Command): void {
  const group = program
    .command("job")
    .summary("list, inspect, wait for, stop, retry jobs; their datums and logs")
    .helpCommand(false)
    .description("Jobs: each commit on an input of a pipeline makes one.");
  for (const add of [
    addJobList,
    addJobInspect,
    addJobWait,
    addJobStop,
    addJobRetry,
    addJobDatums,
    addJobLogs,
  ])
    add(group);
}

/** `sluice job inspect` */
function addJobInspect(group: Command): void {
  const command = group
    .command("inspect")
    .description("Shows a job: its state and why, its datums, the commits it read and the one it made.")
    .argument("[id]", "the job, or how its id begins")
    .option("--pipeline <name>", "the newest job of this pipeline", name)
    .action((text: string | undefined, options: ClientOptions & { readonly pipeline?: string }) => {
      const named = namedJob(text, options);
      return withClient(options, async (client) => {
        const id = await jobNamed(client, named);
        const job = await client.call(Job, { method: "GET", path: `/jobs/${encodePath(id)}` });
        if (options.json) printJson(job);
        else printJob(job);
      });
    });
  withClientOptions(
    command,
    "sluice job inspect 01KAR…",
    "sluice job inspect --pipeline edges",
    "sluice job inspect 01KAR… --json | jq .datums",
  );
}

/** `sluice job stop` */
function addJobStop(group: Command): void {
  const command = group
    .command("stop")
    .description(
      "Stops a job: what it runs is ended, nothing is committed. Later jobs go on, and run what they need of it.",
    )
    .argument("<id>", "the job, or how its id begins")
    .action((text: string, options: ClientOptions) =>
      withClient(options, async (client) => {
        const id = await jobId(client, text);
        const path = `/jobs/${encodePath(id)}/stop`;
        const job = await client.call(Job, { method: "POST", path, repeatable: true });
        if (options.json) printJson(job);
        else printLine(`stopped ${job.id} of ${job.pipeline}`);
      }),
    );
  withClientOptions(command, "sluice job stop 01KAR…");
}

interface Options extends ClientOptions {
  readonly failed?: true;
  readonly all?: true;
}

/** `sluice job retry` */
function addJobRetry(group: Command): void {
  const command = group
    .command("retry")
    .description(
      "Makes one new job of the job's pipeline, for what its inputs have now, and prints its id. It tries again what failed or was left undone. It never reads old commits.",
    )
    .argument("<id>", "the job, or how its id begins")
    .option("--failed", "run only what failed; this is the default")
    .addOption(new Option("--all", "run every datum again").conflicts("failed"))
    .action((text: string, options: Options) =>
      withClient(options, async (client) => {
        const id = await jobId(client, text);
        const path = `/jobs/${encodePath(id)}/retry`;
        const query = options.all ? { datums: "all" } : {};
        // Asked twice, since an answer was lost, the gateway answers with the job that it made.
        const retried = await client.call(JobRetry, { method: "POST", path, query, repeatable: true });
        if (options.json) return printJson(retried);
        const { job, newest } = retried;
        printLine(job.id);
        if (newest !== id) {
          printNote(
            `${id} is not the newest job of ${job.pipeline}, which was ${newest}: the new one reads the inputs as they are now, too`,
          );
        }
      }),
    );
  withClientOptions(
    command,
    "sluice job retry 01KAR…",
    "sluice job retry 01KAR… --all",
    "sluice job wait $(sluice job retry 01KAR…)",
  );
}
