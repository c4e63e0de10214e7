import type { Command } from "commander";
import { parseBucketAddress } from "../../gateway/address.ts";
import { withClient } from "../../gateway/client.ts";
import { createBucket } from "../../gateway/objects.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

/** `sluice mb` */
export function addMb(program: Command): void {
  const command = program
    .command("mb")
    .summary("make a bucket")
    .description("Makes a bucket, which is a branch; and its repo, if that does not exist yet.")
    .argument("<bucket>", "s3://<branch>.<repo>")
    .action((text: string, options: ClientOptions) => {
      const { bucket } = parseBucketAddress(text);
      return withClient(options, async (client) => {
        await createBucket(client, bucket);
        if (options.json) printJson({ bucket });
        else printLine(`made s3://${bucket}`);
      });
    });
  withClientOptions(command, "sluice mb s3://master.images");
}
