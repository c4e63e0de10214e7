import type { Command } from "commander";
import { inPages } from "../../files/entry-pages.ts";
import { type Removed, removeAsCommit } from "../../files/remove.ts";
import { type Address, parseAddress, parseFileAddress, showAddress } from "../../gateway/address.ts";
import { type Client, GatewayError, withClient } from "../../gateway/client.ts";
import { deleteFile, directoryPrefix, headFile, listFiles } from "../../gateway/objects.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { count, printJson, printLine } from "../../output/output.ts";

/** `sluice rm` */
export function addRm(program: Command): void {
  const command = program
    .command("rm")
    .summary("remove files")
    .description(
      "Removes a file, or with -r all that is under a path, as one commit, however many they are. Earlier commits still hold them. In the bucket of an open commit that is staged.",
    )
    .argument("<address>", "s3://<branch>.<repo>/<path>")
    .option("-r, --recursive", "all that is under the path")
    .action((text: string, options: ClientOptions & { readonly recursive?: true }) => {
      const address = options.recursive ? parseAddress(text) : parseFileAddress(text);
      const remove = options.recursive ? removeFolder : removeFile;
      return withClient(options, async (client) => {
        const removed = await remove(client, address);
        if (options.json) return printJson(removed);
        printLine(
          `removed ${count(removed.files, "file")}${removed.commit ? `: commit ${removed.commit}` : ""}`,
        );
      });
    });
  withClientOptions(command, "sluice rm s3://master.images/cat.png", "sluice rm -r s3://master.images/2025/");
}

async function removeFile(client: Client, address: Address): Promise<Removed> {
  // S3's delete does not say whether there was anything to delete.
  await headFile(client, address).catch((error: unknown) => {
    throw error instanceof GatewayError && error.status === 404 ? nothingThere(address) : error;
  });
  return { files: 1, commit: await deleteFile(client, address) };
}

async function removeFolder(client: Client, address: Address): Promise<Removed> {
  const files = listFiles(client, { bucket: address.bucket, prefix: directoryPrefix(address.path) });
  const pages = inPages(files);
  const { value: first } = await pages.next();
  if (!first) throw nothingThere(address);
  return await removeAsCommit(client, { from: address, first, rest: pages });
}

function nothingThere(address: Address): CliError {
  return new CliError(`there is nothing at ${showAddress(address, address.path)}`, { code: "NoSuchKey" });
}
