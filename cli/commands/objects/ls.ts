import type { Command } from "commander";
import { type Address, parseAddress } from "../../gateway/address.ts";
import { type Client, withClient } from "../../gateway/client.ts";
import { type ListRequest, listBuckets, listPages } from "../../gateway/objects.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

interface Options extends ClientOptions {
  readonly recursive?: true;
}

/** `sluice ls` */
export function addLs(program: Command): void {
  const command = program
    .command("ls")
    .summary("list buckets, or files of one")
    .description(
      "Lists the buckets; or what a bucket holds under a prefix, one level of it. With --json one object a line.",
    )
    .argument(
      "[address]",
      "s3://<branch>.<repo>/[prefix]; of a commit or a tag s3://<x>.<branch>.<repo>/[prefix]",
    )
    .option("-r, --recursive", "all levels")
    .action((text: string | undefined, options: Options) => {
      const address = text === undefined ? undefined : parseAddress(text);
      return withClient(options, (client) =>
        address ? files(client, address, options) : buckets(client, options),
      );
    });
  withClientOptions(
    command,
    "sluice ls",
    "sluice ls s3://master.images/2026/",
    "sluice ls -r s3://master.images",
    "sluice ls s3://01kar….master.images",
    "sluice ls s3://v1.master.images",
  );
}

async function buckets(client: Client, { json }: Options): Promise<void> {
  for (const bucket of await listBuckets(client)) {
    if (json) printJson({ bucket: bucket.name, createdAt: bucket.createdAt });
    else printLine(`${shortTime(bucket.createdAt)}  s3://${bucket.name}`);
  }
}

async function files(client: Client, { bucket, path }: Address, { json, recursive }: Options): Promise<void> {
  const request: ListRequest = { bucket, prefix: path, ...(recursive ? {} : { delimiter: "/" }) };
  for await (const page of listPages(client, request)) {
    for (const prefix of page.prefixes) {
      if (json) printJson({ prefix });
      else printLine(`${" ".repeat(19)}  ${"dir".padStart(13)}  ${prefix}`);
    }
    for (const file of page.files) {
      if (json) printJson(file);
      else printLine(`${shortTime(file.modifiedAt)}  ${String(file.size).padStart(13)}  ${file.path}`);
    }
  }
}

function shortTime(iso: string): string {
  return iso.slice(0, 19).replace("T", " ");
}
