import type { Command } from "commander";
import { Job } from "../../../protocol/pipelines.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { jobNamed, namedJob } from "../../gateway/ids/ids.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { printJson } from "../../output/output.ts";
import { printJob } from "./show.ts";

/** `sluice job inspect` */
export function addJobInspect(group: Command): void {
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
