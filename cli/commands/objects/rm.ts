import type { SaidOfCommit } from "../../../protocol/annotations.ts";
import { type Command, withClient } from "../../command.ts";
import { nothingAt, remoteFiles } from "../../files/copy/remote-files.ts";
import { hasWildcard } from "../../files/copy/wildcard.ts";
import { inPages } from "../../files/local-tree.ts";
import { progressFor } from "../../files/progress.ts";
import { type Change, type Uploaded, uploadAsCommit } from "../../files/upload.ts";
import { type Address, mustTakeWrites, parseAddress, parseFileAddress } from "../../gateway/address.ts";
import { type Client, GatewayError } from "../../gateway/client.ts";
import { deleteFile, headFile } from "../../gateway/objects.ts";
import { commitUpload } from "../../gateway/open-commits.ts";
import { type AnnotationOptions, type ClientOptions, says } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { count, printJson, printLine } from "../../output/output.ts";

interface Options extends ClientOptions, AnnotationOptions {
  readonly recursive?: true;
}

/** What the one commit did that removed files, which is null if that was staged in an open commit. */
type Removed = Pick<Uploaded, "files" | "commit">;

export function addRm(program: Command): void {
  program
    .command("rm")
    .summary("remove files")
    .description(
      "Removes files, or with -r all that is under a path, as one commit, however many they are. Earlier commits still hold them. In an address, * and ? stand for what is in one name, ** also for '/' (in quotes, or the shell looks for files of its own). In the bucket of an open commit the removal is staged.",
    )
    .argument("<address...>", "s3://<branch>.<repo>/<path>, all in one bucket")
    .option("-r, --recursive", "all that is under the path")
    .action((texts: string[], options: Options) => {
      const addresses = texts.map(options.recursive ? parseAddress : parseFileAddress);
      const [address] = addresses;
      if (!address) throw new UsageError("name what to remove");
      const others = addresses.filter(({ bucket }) => bucket !== address.bucket);
      if (others[0]) {
        throw new UsageError(
          `s3://${address.bucket} and s3://${others[0].bucket} are two buckets, and one commit is in one: remove from each by itself`,
        );
      }
      const { said } = options;
      mustTakeWrites(address, said);
      return withClient(options, async (client) => {
        const single = addresses.length === 1 && !options.recursive && !hasWildcard(address.path);
        const removed = single
          ? await removeFile(client, { address, said })
          : await removeAll(client, { addresses, options });
        if (options.json) return printJson(removed);
        printLine(
          `removed ${count(removed.files, "file")}${removed.commit ? `: commit ${removed.commit}` : ""}`,
        );
      });
    })
    .commitOptions()
    .clientOptions(
      "sluice rm s3://master.images/cat.png",
      "sluice rm 's3://master.images/2025/*.tmp'",
      "sluice rm -r --message 'older than we keep' s3://master.images/2025/",
    );
}

async function removeFile(
  client: Client,
  { address, said }: { address: Address; said: SaidOfCommit },
): Promise<Removed> {
  // S3's delete does not say whether there was anything to delete.
  await headFile(client, address).catch((error: unknown) => {
    throw error instanceof GatewayError && error.status === 404 ? nothingAt(address) : error;
  });
  if (!says(said)) return { files: 1, commit: await deleteFile(client, address) };
  // Not every text can be sent in a header.
  const fill = async () => [{ delete: address.path }];
  return { files: 1, commit: await commitUpload(client, { to: address, said, fill }) };
}

async function removeAll(
  client: Client,
  { addresses, options }: { addresses: readonly Address[]; options: Options },
): Promise<Removed> {
  const [to] = addresses;
  let files = 0;
  const removals = async function* (): AsyncGenerator<Change> {
    const named = new Set<string>();
    const recursive = options.recursive === true;
    for await (const { from } of remoteFiles(client, { sources: addresses, recursive })) {
      // Two of the addresses may name one file.
      if (addresses.length > 1 && named.has(from.path)) continue;
      if (addresses.length > 1) named.add(from.path);
      files++;
      yield { target: from.path, size: 0 };
    }
  };
  const rest = inPages(removals());
  const { value: first } = await rest.next();
  if (!to || !first) throw new UsageError("name what to remove");
  const { said } = options;
  const { commit } = await uploadAsCommit(client, { to, first, rest, said, progress: progressFor(options) });
  return { files, commit };
}
