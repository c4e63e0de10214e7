import type { Command } from "commander";
import { Job } from "../../../protocol/pipelines.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { jobId } from "../../gateway/ids/ids.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

/** `sluice job stop` */
export function addJobStop(group: Command): void {
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
