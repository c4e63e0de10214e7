import type { Command } from "commander";
import { parseBranchBucket } from "../../gateway/address.ts";
import { withClient } from "../../gateway/client.ts";
import { deleteBucket, listFiles } from "../../gateway/objects.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { printJson, printLine } from "../../output/output.ts";

/** `sluice rb` */
export function addRb(program: Command): void {
  const command = program
    .command("rb")
    .summary("remove a bucket")
    .description("Removes a bucket. With the last branch of a repo the repo is gone too.")
    .argument("<bucket>", "s3://<branch>.<repo>")
    .option("--force", "also a bucket that holds files")
    .action((text: string, options: ClientOptions & { readonly force?: true }) => {
      const { bucket } = parseBranchBucket(text);
      return withClient(options, async (client) => {
        // The gateway deletes a branch that is not empty; at a prompt that is seldom what was meant.
        const first = options.force ? undefined : await listFiles(client, { bucket, prefix: "" }).next();
        if (first && !first.done)
          throw new CliError(`s3://${bucket} holds files: add --force to remove them with it`);
        await deleteBucket(client, bucket);
        if (options.json) printJson({ bucket });
        else printLine(`removed s3://${bucket}`);
      });
    });
  withClientOptions(command, "sluice rb s3://master.images", "sluice rb --force s3://master.images");
}
