import { type Command, Option } from "commander";
import { JobRetry } from "../../../protocol/pipelines.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { jobId } from "../../gateway/ids/ids.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printLine, printNote } from "../../output/output.ts";

interface Options extends ClientOptions {
  readonly failed?: true;
  readonly all?: true;
}

/** `sluice job retry` */
export function addJobRetry(group: Command): void {
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
