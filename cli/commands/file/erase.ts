import { FileErased } from "../../../protocol/files.ts";
import { bucketName } from "../../../protocol/names.ts";
import type { Command } from "../../command.ts";
import { type Address, branchPath, parseAddress, parseFileAddress } from "../../gateway/address.ts";
import type { Client } from "../../gateway/client.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type AnnotationOptions, type ClientOptions, saidOf } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { printJson } from "../../output/output.ts";
import { eraseUnder, mustBeAgreed } from "./erase-under.ts";
import { printErased, sumOfErased } from "./show-erased.ts";

interface Options extends ClientOptions, AnnotationOptions {
  readonly versionId?: string;
  readonly allVersions?: true;
  readonly forks?: true;
  readonly recursive?: true;
  readonly dryRun?: true;
  readonly yes?: true;
}

export function addFile(program: Command): void {
  const group = program
    .command("file")
    .summary("erase versions of files for good")
    .helpCommand(false)
    .description("Files and their versions. To read and write them: ls, cp, cat and rm.");
  addFileErase(group);
}

function addFileErase(group: Command): void {
  group
    .command("erase")
    .description(
      "Erases a version of a file for good: the newest one, the one that is named, or all. Commits and tags that had it have nothing at that path any more, and its bytes are deleted within some minutes; files up to 4 KiB, names and metadata are then in no row any more, and on one machine in no file after the next start of the gateway, or after 'sluice admin scrub'. If it was the newest, the version before is current again, in a new commit. Needs admin.\n\nBytes that something else has stay: another path, another version, an open commit, a branch that was made from this one. Each of those is listed. A copy in such a branch stops the command, unless --forks erases it there, too. Jobs that have not ended and read the file are killed; files that pipelines computed from it are listed, and are for you to decide.\n\nWith -r all versions of all files under a path go, also of files that were deleted. They are listed once, and the command asks before it erases what is in that list; a version that is written meanwhile stays and is named at the end. If it is stopped, the same command lists what is left and asks again.",
    )
    .argument("<address>", "s3://<branch>.<repo>/<path>; with -r also a folder, or the branch alone")
    .option("--version-id <id>", "the version: the commit that wrote or deleted the file")
    .option("--all-versions", "all versions, deletions too")
    .option("--forks", "also the copies in branches that were made from this one, and from those")
    .option("-r, --recursive", "all files under the path; goes with --all-versions")
    .option("--dry-run", "with -r: list what would go, and erase nothing")
    .option("-y, --yes", "with -r: do not ask")
    .action((text: string, options: Options) => {
      const address = options.recursive ? parseAddress(text) : parseFileAddress(text);
      if (address.view !== undefined) {
        throw new UsageError(
          `'${text}' is no branch of its own: erase the file in s3://${bucketName(address)}, and nothing shows it any more`,
        );
      }
      if (options.versionId !== undefined && options.allVersions) {
        throw new UsageError("give one of --version-id and --all-versions");
      }
      if (options.recursive) {
        if (!options.allVersions) {
          throw new UsageError(
            "-r needs --all-versions: if one version of each file went, the one before would be current again",
          );
        }
        mustBeAgreed(address, options);
        return withClient(options, (client) => eraseUnder(client, address, options));
      }
      if (options.dryRun || options.yes) {
        throw new UsageError("--dry-run and --yes go with -r: without it the command does not ask");
      }
      return withClient(options, async (client) => {
        const done = await erase(client, address, options);
        if (options.json) return printJson(done);
        printErased(address, sumOfErased(done));
      });
    })
    .commitOptions()
    .clientOptions(
      "sluice file erase s3://master.people/ada.csv --all-versions",
      "sluice file erase s3://master.people/ada.csv --version-id 01KAR… --forks",
      "sluice file erase -r s3://master.people/2025/ --all-versions --dry-run",
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
  const ask = () => client.post(FileErased, `${branchPath({ repo, branch })}/erasures`, { json });
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
