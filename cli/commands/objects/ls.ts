import { bucketName } from "../../../protocol/names.ts";
import { type Command, withClient } from "../../command.ts";
import { type Address, parseAddress } from "../../gateway/address.ts";
import type { ListedFile, ListedVersion } from "../../gateway/answers.ts";
import type { Client } from "../../gateway/client.ts";
import { atCommit } from "../../gateway/ids/at-commit.ts";
import { type ListRequest, listBuckets, listPages, versionPages } from "../../gateway/objects.ts";
import type { ClientOptions } from "../../options.ts";
import { CliError, UsageError } from "../../output/failure.ts";
import { printJson, printLine, showSize, showTime } from "../../output/output.ts";

interface Options extends ClientOptions {
  readonly recursive?: true;
  readonly human?: true;
  readonly commit?: string;
  readonly allVersions?: true;
}

export function addLs(program: Command): void {
  program
    .command("ls")
    .summary("list buckets, or files of one")
    .description(
      "Lists the buckets; or what a bucket holds under a prefix, one level of it, or the files that match a pattern with *, ? or **. With --json one object a line. With --all-versions what there was, too: all versions and deletions that the branch keeps, the newest of a file first, each with the commit that made it; the one that is current has no newer one.",
    )
    .argument(
      "[address]",
      "s3://<branch>.<repo>/[prefix]; of a commit or a tag s3://<x>.<branch>.<repo>/[prefix]",
    )
    .option("-r, --recursive", "all levels")
    .option("-h, --human", "sizes in KiB, MiB and so on")
    .option("--commit <id>", "what the bucket held at that commit or tag")
    .option("--all-versions", "all versions of the files, and what was deleted")
    .helpOption("--help", "display help for command")
    .action((text: string | undefined, options: Options) => {
      const address = text === undefined ? undefined : parseAddress(text);
      if (!address && options.commit !== undefined)
        throw new UsageError("--commit is for one bucket: name it");
      if (options.allVersions) mustHaveVersions(address, options);
      return withClient(options, async (client) =>
        address
          ? await files(client, await atCommit(client, address, options.commit), options)
          : await buckets(client, options),
      );
    })
    .clientOptions(
      "sluice ls",
      "sluice ls s3://master.images/2026/",
      "sluice ls -rh s3://master.images",
      "sluice ls 's3://master.images/*.png'",
      "sluice ls -r --all-versions s3://master.images/2026/",
      "sluice ls --commit 01KAR… s3://master.images",
      "sluice ls s3://01kar….master.images",
      "sluice ls s3://v1.master.images",
    );
}

/** Refuses `--all-versions` of what has none. */
function mustHaveVersions(address: Address | undefined, { commit }: Options): void {
  if (address === undefined) throw new UsageError("--all-versions is for one bucket: name it");
  if (address.view === undefined && commit === undefined) return;
  throw new UsageError(
    `--all-versions shows what all commits of a branch wrote, and not one of them: name s3://${bucketName(address)} alone`,
  );
}

async function buckets(client: Client, { json }: Options): Promise<void> {
  for (const bucket of await listBuckets(client)) {
    if (json) printJson({ bucket: bucket.name, createdAt: bucket.createdAt });
    else printLine(`${showTime(Date.parse(bucket.createdAt))}  s3://${bucket.name}`);
  }
}

/** A path may have a wildcard's character itself: only if it holds nothing as it is, it is a pattern. */
async function files(client: Client, { bucket, path }: Address, options: Options): Promise<void> {
  const literal: ListRequest = { bucket, prefix: path, ...(options.recursive ? {} : { delimiter: "/" }) };
  const found = await printed(client, literal, { ...options, matches: /^/ });
  // An empty bucket is there.
  if (found || path === "") return;
  const { hasWildcard, literalPrefix, wildcard } = await import("../../files/copy/wildcard.ts");
  const isPattern = hasWildcard(path);
  const matching = { bucket, prefix: literalPrefix(path) };
  if (isPattern && (await printed(client, matching, { ...options, matches: wildcard(path) }))) return;
  const why = isPattern
    ? "no file matches it"
    : `there is no such file, and none below it${options.allVersions ? ", and none was deleted of which the branch keeps anything" : ""}`;
  throw new CliError(`s3://${bucket}/${path}: ${why}`, { code: "NoSuchKey" });
}

/** Prints the files that match, or all versions of them, and returns whether there were any. */
async function printed(client: Client, request: ListRequest, shown: Shown): Promise<boolean> {
  let found = false;
  const pages = shown.allVersions ? versionPages(client, request) : listPages(client, request);
  for await (const page of pages) {
    for (const prefix of page.prefixes) {
      found = true;
      printPrefix(prefix, shown);
    }
    for (const entry of "versions" in page ? page.versions : page.files) {
      if (!shown.matches.test(entry.path)) continue;
      found = true;
      if ("version" in entry) printVersion(entry, shown);
      else printFile(entry, shown);
    }
  }
  return found;
}

interface Shown extends Options {
  readonly matches: RegExp;
}

function printPrefix(prefix: string, { json }: Options): void {
  if (json) printJson({ prefix });
  else printLine(`${" ".repeat(TIME_CHARACTERS)}  ${"dir".padStart(13)}  ${prefix}`);
}

function printFile(file: ListedFile, { json, human }: Options): void {
  const size = human ? showSize(file.size) : String(file.size);
  if (json) printJson(file);
  else printLine(`${showTime(Date.parse(file.modifiedAt))}  ${size.padStart(13)}  ${file.path}`);
}

/** The width of a time. */
const TIME_CHARACTERS = 26;

/** Prints a version of a file, or its deletion: when, how large, which, and whether nothing came after it. */
export function printVersion(
  version: ListedVersion,
  { json, human }: { readonly json?: true; readonly human?: true },
): void {
  if (json) {
    printJson(version);
    return;
  }
  const { path, kind, size = 0, modifiedAt } = version;
  const bytes = human ? showSize(size) : String(size);
  const what = (kind === "deletion" ? "deleted" : bytes).padStart(13);
  const current = version.current ? "current" : "       ";
  printLine(`${showTime(Date.parse(modifiedAt))}  ${what}  ${version.version}  ${current}  ${path}`);
}
