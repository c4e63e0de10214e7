import type { Command } from "commander";
import { Job } from "../../../protocol/pipelines.ts";
import { encodePath, withClient } from "../../gateway/client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson } from "../../output/output.ts";
import { printJob } from "./show.ts";

/** `sluice job inspect` */
export function addJobInspect(group: Command): void {
  const command = group
    .command("inspect")
    .description("Shows a job: its state and why, its datums, the commits it read and the one it made.")
    .argument("<id>", "the job")
    .action((id: string, options: ClientOptions) =>
      withClient(options, async (client) => {
        const job = await client.call(Job, { method: "GET", path: `/jobs/${encodePath(id)}` });
        if (options.json) printJson(job);
        else printJob(job);
      }),
    );
  withClientOptions(command, "sluice job inspect 01KAR…", "sluice job inspect 01KAR… --json | jq .datums");
}
