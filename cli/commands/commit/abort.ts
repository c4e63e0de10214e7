import type { Command } from "commander";
import { viewBucket } from "../../../protocol/names.ts";
import { parseOpenCommit } from "../../gateway/address.ts";
import { abortOpenCommit } from "../../gateway/open-commits.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

/** `sluice commit abort` */
export function addCommitAbort(group: Command): void {
  const command = group
    .command("abort")
    .description("Forgets an open commit and all that was put into it. Does nothing if it is gone already.")
    .argument("<open commit>", "its bucket, as 'sluice commit start' printed it; with or without s3://")
    .action((text: string, options: ClientOptions) => {
      const open = parseOpenCommit(text);
      return withClient(options, async (client) => {
        await abortOpenCommit(client, open);
        if (options.json) printJson({ aborted: open.view });
        else printLine(`aborted s3://${viewBucket(open)}`);
      });
    });
  withClientOptions(command, "sluice commit abort s3://01kar….master.images");
}
