import type { Command } from "commander";
import type { SaidOfCommit } from "../../../protocol/commits.ts";
import { inPages } from "../../files/entry-pages.ts";
import { type Removed, removeAsCommit } from "../../files/remove.ts";
import {
  type Address,
  mustMakeCommit,
  mustTakeWrites,
  parseAddress,
  parseFileAddress,
  showAddress,
} from "../../gateway/address.ts";
import { type Client, GatewayError, withClient } from "../../gateway/client.ts";
import { deleteFile, directoryPrefix, headFile, listFiles } from "../../gateway/objects.ts";
import { commitUpload } from "../../gateway/open-commits.ts";
import {
  type ClientOptions,
  type NoteOptions,
  saidOf,
  says,
  withClientOptions,
  withNote,
} from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { count, printJson, printLine } from "../../output/output.ts";

interface Options extends ClientOptions, NoteOptions {
  readonly recursive?: true;
}

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
    .action((text: string, options: Options) => {
      const address = options.recursive ? parseAddress(text) : parseFileAddress(text);
      mustTakeWrites(address);
      const remove = options.recursive ? removeFolder : removeFile;
      const said = saidOf(options);
      if (says(said)) mustMakeCommit(address);
      return withClient(options, async (client) => {
        const removed = await remove(client, { address, said });
        if (options.json) return printJson(removed);
        printLine(
          `removed ${count(removed.files, "file")}${removed.commit ? `: commit ${removed.commit}` : ""}`,
        );
      });
    });
  withClientOptions(
    withNote(command),
    "sluice rm s3://master.images/cat.png",
    "sluice rm -r --message 'older than we keep' s3://master.images/2025/",
  );
}

interface ToRemove {
  readonly address: Address;
  readonly said: SaidOfCommit;
}

async function removeFile(client: Client, { address, said }: ToRemove): Promise<Removed> {
  // S3's delete does not say whether there was anything to delete.
  await headFile(client, address).catch((error: unknown) => {
    throw error instanceof GatewayError && error.status === 404 ? nothingThere(address) : error;
  });
  if (!says(said)) return { files: 1, commit: await deleteFile(client, address) };
  // Not every text can be sent in a header.
  const fill = async () => [{ delete: address.path }];
  return { files: 1, commit: await commitUpload(client, { to: address, said, fill }) };
}

async function removeFolder(client: Client, { address, said }: ToRemove): Promise<Removed> {
  const files = listFiles(client, { bucket: address.bucket, prefix: directoryPrefix(address.path) });
  const pages = inPages(files);
  const { value: first } = await pages.next();
  if (!first) throw nothingThere(address);
  return await removeAsCommit(client, { from: address, first, rest: pages, said });
}

function nothingThere(address: Address): CliError {
  return new CliError(`there is nothing at ${showAddress(address, address.path)}`, { code: "NoSuchKey" });
}
