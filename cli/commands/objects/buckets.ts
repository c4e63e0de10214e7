import { hostLabel } from "../../../protocol/names.ts";
import type { Command } from "../../command.ts";
import { type Address, parseBranchBucket } from "../../gateway/address.ts";
import { createPlainBranch, deleteBranch } from "../../gateway/branches.ts";
import type { Client } from "../../gateway/client.ts";
import { namesOf, readersOf } from "../../gateway/jobs/downstream.ts";
import { createBucket } from "../../gateway/objects.ts";
import type { ClientOptions } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { printJson, printLine, printNote } from "../../output/output.ts";

interface Options extends ClientOptions {
  readonly plain?: true;
  readonly region?: string;
}

export function addMb(program: Command): void {
  program
    .command("mb")
    .summary("make a bucket")
    .description(
      "Makes a bucket, which is a branch; and its repo, if that does not exist yet. Says so if the name is not reached by a host of its own (virtual-host addressing).\n\nIts history and its deletion are as the gateway is set to (SLUICE_KEEP, SLUICE_DELETE), and 'sluice branch' changes that. With --plain it is what S3 tools expect, whatever the gateway is set to.",
    )
    .argument(
      "<bucket>",
      "<branch>.<repo>, with or without s3://; <repo> alone is its branch master",
      parseBranchBucket,
    )
    .option(
      "--plain",
      "Last-Modified is each object's own, a day of what was replaced stays, and S3 tools delete it only while it is empty",
    )
    .option("--region <region>", REGION_HELP)
    .clientAction(async (client, address: Address, options: Options) => {
      const { bucket } = address;
      const { region } = options;
      const label = hostLabel(address) ?? null;
      if (options.plain) await createPlainBranch(client, address, region);
      else await createBucket(client, bucket, region);
      if (options.json) return printJson({ bucket, hostLabel: label });
      printLine(`made s3://${bucket}`);
      if (label === null) printNote(NO_HOST);
    })
    .clientOptions(
      "sluice mb s3://master.images",
      "sluice mb s3://images",
      "sluice mb --plain s3://backups",
      "sluice mb --region eu-west-1 s3://images",
    );
}

/** Of what makes a branch. */
export const REGION_HELP =
  "the region to live in, as AWS names it, or one of wnam, enam, sam, weur, eeur, apac, oc, afr and me; for good, and of use on Cloudflare alone";

const NO_HOST =
  "no host reaches a bucket of this name, because a host's label has no capitals, '_' or '--' in a name, no '-' at the end of one, no name 'xn' and 63 characters in all: set clients to path-style addressing";

interface RemoveOptions extends ClientOptions {
  readonly force?: true;
}

export function addRb(program: Command): void {
  withRemoval(program.command("rb").summary("remove a bucket")).clientOptions(
    "sluice rb s3://master.images",
    "sluice rb --force s3://master.images",
  );
}

/** `sluice branch delete`, which is the same. */
export function addBranchDelete(group: Command): void {
  withRemoval(group.command("delete")).clientOptions(
    "sluice branch delete s3://try.images",
    "sluice branch delete --force s3://master.images",
  );
}

function withRemoval(command: Command): Command {
  return command
    .description(
      "Removes a bucket, which is a branch. With the last branch of a repo the repo is gone too. One that holds files, or that a pipeline reads, is removed only with --force; to such a pipeline its input is then empty.",
    )
    .argument(
      "<bucket>",
      "<branch>.<repo>, with or without s3://; <repo> alone is its branch master",
      parseBranchBucket,
    )
    .option("--force", "also a bucket that holds files, or that a pipeline reads")
    .clientAction((client, address: Address, options: RemoveOptions) =>
      removeBucket(client, { address, options }),
    );
}

interface Removal {
  readonly address: Address;
  readonly options: RemoveOptions;
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
