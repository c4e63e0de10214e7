import type { Command } from "commander";
import { type Address, parseBranchBucket } from "../../gateway/address.ts";
import { deleteBranch } from "../../gateway/branches.ts";
import type { Client } from "../../gateway/client.ts";
import { namesOf, readersOf } from "../../gateway/jobs/downstream.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { printJson, printLine, printNote } from "../../output/output.ts";

interface Options extends ClientOptions {
  readonly force?: true;
}

/** `sluice rb` */
export function addRb(program: Command): void {
  const command = withRemoval(program.command("rb").summary("remove a bucket"));
  withClientOptions(command, "sluice rb s3://master.images", "sluice rb --force s3://master.images");
}

/** `sluice branch delete`, which is the same. */
export function addBranchDelete(group: Command): void {
  const command = withRemoval(group.command("delete"));
  withClientOptions(
    command,
    "sluice branch delete s3://try.images",
    "sluice branch delete --force s3://master.images",
  );
}

function withRemoval(command: Command): Command {
  return command
    .description(
      "Removes a bucket, which is a branch. With the last branch of a repo the repo is gone too. One that holds files, or that a pipeline reads, is removed only with --force; to such a pipeline its input is then empty.",
    )
    .argument("<bucket>", "<branch>.<repo>, with or without s3://; <repo> alone is its branch master")
    .option("--force", "also a bucket that holds files, or that a pipeline reads")
    .action((text: string, options: Options) => {
      const address = parseBranchBucket(text);
      return withClient(options, (client) => removeBucket(client, { address, options }));
    });
}

interface Removal {
  readonly address: Address;
  readonly options: Options;
}

async function removeBucket(client: Client, { address, options }: Removal): Promise<void> {
  const { bucket } = address;
  const readers = await readersOf(client, bucket);
  if (!options.force && readers.length > 0) {
    throw new CliError(
      `s3://${bucket} is read by ${namesOf(readers)}: add --force to remove it all the same; the input is then empty`,
      { code: "InUse" },
    );
  }
  await deleteBranch(client, address, { onlyEmpty: !options.force });
  if (options.json) return printJson({ bucket });
  if (readers.length > 0) printNote(`it was read by ${namesOf(readers)}: the input is empty now`);
  printLine(`removed s3://${bucket}`);
}
