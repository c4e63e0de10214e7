import type { Command } from "commander";
import { CommitCreated, MAX_COMMIT_OPERATIONS, UploadOpened } from "../../protocol/files.ts";
import { type Address, parseAddress, parseFileAddress, showAddress } from "../address.ts";
import { type Client, GatewayError } from "../client.ts";
import { CliError } from "../failure.ts";
import { deleteFile, directoryPrefix, headFile, listFiles } from "../objects.ts";
import { type ClientOptions, withClientOptions, withExamples } from "../options.ts";
import { count, printJson, printLine } from "../output.ts";
import { withClient } from "../with-client.ts";

interface Options extends ClientOptions {
  readonly recursive?: true;
}

/** `sluice rm` */
export function addRm(program: Command): void {
  const command = program
    .command("rm")
    .summary("remove files")
    .description(
      "Removes a file, or with -r all that is under a path, as one commit. Earlier commits still hold them.",
    )
    .argument("<address>", "s3://<branch>.<repo>/<path>")
    .option("-r, --recursive", "all that is under the path")
    .action((text: string, options: Options) => {
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
  withExamples(
    withClientOptions(command),
    "sluice rm s3://master.images/cat.png",
    "sluice rm -r s3://master.images/2025/",
  );
}

interface Removed {
  readonly files: number;
  readonly commit: string | null;
}

async function removeFile(client: Client, address: Address): Promise<Removed> {
  // S3's delete does not say whether there was anything to delete.
  await headFile(client, address).catch((error: unknown) => {
    throw error instanceof GatewayError && error.status === 404 ? nothingThere(address) : error;
  });
  return { files: 1, commit: await deleteFile(client, address) };
}

async function removeFolder(client: Client, address: Address): Promise<Removed> {
  const { repo, branch, bucket, path } = address;
  const operations: { delete: string }[] = [];
  for await (const file of listFiles(client, { bucket, prefix: directoryPrefix(path) })) {
    if (operations.length === MAX_COMMIT_OPERATIONS) {
      throw new CliError(
        `more than the ${MAX_COMMIT_OPERATIONS} files that one commit takes: remove folder by folder; nothing was removed`,
        { code: "TooManyFiles" },
      );
    }
    operations.push({ delete: file.path });
  }
  if (operations.length === 0) throw nothingThere(address);
  const { upload } = await client.call(UploadOpened, {
    method: "POST",
    path: "/uploads",
    json: { repo, branch },
  });
  const { commit } = await client.call(CommitCreated, {
    method: "POST",
    path: `/repos/${repo}/branches/${branch}/commits`,
    json: { upload, operations },
  });
  return { files: operations.length, commit };
}

function nothingThere(address: Address): CliError {
  return new CliError(`there is nothing at ${showAddress(address, address.path)}`, { code: "NoSuchKey" });
}
