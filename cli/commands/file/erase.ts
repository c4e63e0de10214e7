import type { Command } from "commander";
import { type ByteHolder, FileErased } from "../../../protocol/files.ts";
import { bucketName } from "../../../protocol/names.ts";
import { type Address, parseFileAddress, showAddress } from "../../gateway/address.ts";
import { type Client, encodePath } from "../../gateway/client.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, type NoteOptions, saidOf, withClientOptions, withNote } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { count, printJson, printLine } from "../../output/output.ts";

interface Options extends ClientOptions, NoteOptions {
  readonly versionId?: string;
  readonly allVersions?: true;
  readonly forks?: true;
}

/** `sluice file …` */
export function addFile(program: Command): void {
  const group = program
    .command("file")
    .summary("erase versions of files for good")
    .helpCommand(false)
    .description("Files and their versions. To read and write them: ls, cp, cat and rm.");
  addFileErase(group);
}

/** `sluice file erase` */
function addFileErase(group: Command): void {
  const command = group
    .command("erase")
    .description(
      "Erases a version of a file for good: the newest one, the one that is named, or all. Commits and tags that had it have nothing at that path any more, and its bytes are deleted within some minutes; files up to 4 KiB, names and metadata are then in no row any more, and on one machine in no file after the next start of the gateway, or after 'sluice admin scrub'. If it was the newest, the version before is current again, in a new commit. Needs admin.\n\nBytes that something else has stay: another path, another version, an open commit, a branch that was made from this one. Each of those is listed. A copy in such a branch stops the command, unless --forks erases it there, too. Jobs that have not ended and read the file are killed; files that pipelines computed from it are listed, and are for you to decide.",
    )
    .argument("<address>", "s3://<branch>.<repo>/<path>")
    .option("--version-id <id>", "the version: the commit that wrote or deleted the file")
    .option("--all-versions", "all versions, deletions too")
    .option("--forks", "also the copies in branches that were made from this one, and from those")
    .action((text: string, options: Options) => {
      const address = parseFileAddress(text);
      if (address.view !== undefined) {
        throw new UsageError(
          `'${text}' is no branch of its own: erase the file in s3://${bucketName(address)}, and nothing shows it any more`,
        );
      }
      if (options.versionId !== undefined && options.allVersions) {
        throw new UsageError("give one of --version-id and --all-versions");
      }
      return withClient(options, async (client) => {
        const done = await erase(client, address, options);
        if (options.json) return printJson(done);
        printErased(address, done);
      });
    });
  withClientOptions(
    withNote(command),
    "sluice file erase s3://master.people/ada.csv --all-versions",
    "sluice file erase s3://master.people/ada.csv --version-id 01KAR… --forks",
  );
}

/** Asks again as long as versions are left. */
async function erase(client: Client, { repo, branch, path }: Address, options: Options): Promise<FileErased> {
  const json = {
    path,
    ...(options.versionId !== undefined && { version: options.versionId }),
    ...(options.allVersions && { allVersions: true }),
    ...(options.forks && { forks: true }),
    ...saidOf(options),
  };
  const route = `/repos/${encodePath(repo)}/branches/${encodePath(branch)}/erasures`;
  const ask = () => client.call(FileErased, { method: "POST", path: route, json });
  let all = await ask();
  while (all.more) {
    const next = await ask();
    all = {
      path,
      erased: [...all.erased, ...next.erased],
      commit: next.commit ?? all.commit,
      forks: [...all.forks, ...next.forks],
      stays: [...all.stays, ...next.stays],
      outputs: [...all.outputs, ...next.outputs],
      more: next.more,
    };
  }
  return all;
}

function printErased({ bucket }: Address, { path, erased, commit, forks, stays, outputs }: FileErased): void {
  const where = commit === null ? "" : `: commit ${commit}`;
  printLine(`erased ${count(erased.length, "version")} of ${showAddress({ bucket }, path)}${where}`);
  for (const fork of forks) {
    printLine(`erased ${count(fork.erased.length, "version")} of ${showAddress(fork, path)}`);
  }
  if (stays.length > 0) printLine("the same bytes stay in");
  for (const holder of stays) printLine(`  ${showHolder(holder)}`);
  if (outputs.length > 0) printLine("computed from it, and still there unless erased as well");
  for (const output of outputs) {
    const at = output.commit === null ? "" : ` at ${output.commit}`;
    printLine(`  ${showAddress(output, output.path)}${at} (job ${output.job})`);
  }
}

function showHolder({ kind, bucket, path, id }: ByteHolder): string {
  switch (kind) {
    case "version":
      return `${showAddress({ bucket }, path ?? "")} at ${id}`;
    case "open-commit":
      return `${showAddress({ bucket: `${id}.${bucket}` }, path ?? "")}, an open commit`;
    case "upload":
      return path === null
        ? `s3://${bucket}, an upload (${id})`
        : `${showAddress({ bucket }, path)}, a multipart upload (${id})`;
    case "fork":
      return `s3://${bucket}, which was made from this branch`;
  }
}
