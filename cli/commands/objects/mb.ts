import type { Command } from "commander";
import { hostLabel } from "../../../protocol/names.ts";
import { parseBranchBucket } from "../../gateway/address.ts";
import { createPlainBranch } from "../../gateway/branches.ts";
import { createBucket } from "../../gateway/objects.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printLine, printNote } from "../../output/output.ts";

interface Options extends ClientOptions {
  readonly plain?: true;
}

/** `sluice mb` */
export function addMb(program: Command): void {
  const command = program
    .command("mb")
    .summary("make a bucket")
    .description(
      "Makes a bucket, which is a branch; and its repo, if that does not exist yet. Says so if the name is not reached by a host of its own (virtual-host addressing).\n\nIts history and its deletion are as the gateway is set to (SLUICE_KEEP, SLUICE_DELETE), and 'sluice branch' changes that. With --plain it is what S3 tools expect, whatever the gateway is set to.",
    )
    .argument("<bucket>", "<branch>.<repo>, with or without s3://; <repo> alone is its branch master")
    .option(
      "--plain",
      "Last-Modified is each object's own, a day of what was replaced stays, and S3 tools delete it only while it is empty",
    )
    .action((text: string, options: Options) => {
      const address = parseBranchBucket(text);
      const { bucket } = address;
      const label = hostLabel(address) ?? null;
      return withClient(options, async (client) => {
        if (options.plain) await createPlainBranch(client, address);
        else await createBucket(client, bucket);
        if (options.json) return printJson({ bucket, hostLabel: label });
        printLine(`made s3://${bucket}`);
        if (label === null) printNote(NO_HOST);
      });
    });
  withClientOptions(
    command,
    "sluice mb s3://master.images",
    "sluice mb s3://images",
    "sluice mb --plain s3://backups",
  );
}

const NO_HOST =
  "no host reaches a bucket of this name, because a host's label has no capitals, '_' or '--' in a name, no '-' at the end of one, no name 'xn' and 63 characters in all: set clients to path-style addressing";
