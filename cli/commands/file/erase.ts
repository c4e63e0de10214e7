import { type FileHandle, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { type ByteHolder, FileErased } from "../../../protocol/files.ts";
import { bucketName } from "../../../protocol/names.ts";
import { type Command, withClient } from "../../command.ts";
import {
  type Address,
  branchPath,
  parseAddress,
  parseFileAddress,
  showAddress,
} from "../../gateway/address.ts";
import type { ListedVersion } from "../../gateway/answers.ts";
import { type Client, unlessRefused } from "../../gateway/client.ts";
import { directoryPrefix, versionsUnder } from "../../gateway/objects.ts";
import type { AnnotationOptions, ClientOptions } from "../../options.ts";
import { CliError, UsageError } from "../../output/failure.ts";
import { count, printJson, printLine, printNote, shellWord, visibleJson } from "../../output/output.ts";
import { printVersion } from "../objects/ls.ts";
import { type ErasedSum, joinedSums, printErased, sumOfErased, ToldOutputs } from "./show-erased.ts";

interface Options extends ClientOptions, AnnotationOptions {
  readonly versionId?: string;
  readonly allVersions?: true;
  readonly forks?: true;
  readonly recursive?: true;
  readonly dryRun?: true;
  readonly yes?: true;
}

export function addFile(program: Command): void {
  program
    .group("file")
    .summary("erase versions of files for good")
    .description("Files and their versions. To read and write them: ls, cp, cat and rm.")
    .holds(addFileErase);
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
async function erase(client: Client, address: Address, options: Options): Promise<FileErased> {
  const { path } = address;
  const { versionId: version, allVersions, forks, said } = options;
  const json = { path, version, allVersions, forks, ...said };
  const ask = () => client.post(FileErased, `${branchPath(address)}/erasures`, { json });
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

/*
 * Erasing all that is under a path. The versions are listed once, into a file without a name. That list is shown and agreed to,
 * and by its ids alone is erased: what is written meanwhile is in nobody's list, stays, and is named at the end. If the
 * command is stopped, the next one lists what is left and asks again.
 */

/** Refuses a command that nobody could be asked about, before anything is listed. */
function mustBeAgreed(address: Address, { dryRun, yes, json }: Options): void {
  if (dryRun || yes || (!json && isTerminal())) return;
  const command = `sluice file erase -r ${shellWord(showAddress(address, address.path))} --all-versions`;
  const why = json ? "with --json nobody is asked" : "nobody can be asked without a terminal";
  throw new UsageError(`${why}: '${command} --dry-run' shows what would go, and with --yes it goes`);
}

function isTerminal(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/** Lists, asks, erases, and tells of what came meanwhile. */
async function eraseUnder(client: Client, address: Address, options: Options): Promise<void> {
  const spool = await VersionSpool.open();
  try {
    for await (const version of versionsUnder(client, address)) await spool.add(version);
    if (spool.versions === 0) {
      throw new CliError(`no version of any file is at ${showAddress(address, address.path)}, or below it`, {
        code: "NotFound",
      });
    }
    if (options.dryRun || !options.yes) await show(spool, options);
    if (options.dryRun) return;
    if (!options.yes) await ask(spool, options);
    await eraseListed(client, { address, spool, options });
    await tellMeanwhile(client, { address, options });
  } finally {
    await spool.close();
  }
}

async function show(spool: VersionSpool, options: Options): Promise<void> {
  for await (const version of spool.read()) printVersion(version, options);
  if (options.dryRun && !options.json) printNote(`${sumOf(spool)} would go`);
}

function sumOf({ versions, files }: VersionSpool): string {
  return `${count(versions, "version")} of ${count(files, "file")}`;
}

async function ask(spool: VersionSpool, { forks }: Options): Promise<void> {
  const copies = forks ? ", and their copies in branches that were made from this one," : "";
  const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  // The end of the input is no yes.
  const ended = new Promise<string>((resolve) => void lines.once("close", () => resolve("")));
  try {
    const answer = await Promise.race([
      lines.question(`erase ${sumOf(spool)}${copies} for good? [y/N] `),
      ended,
    ]);
    if (/^y(es)?$/i.test(answer.trim())) return;
  } finally {
    lines.close();
  }
  throw new CliError("nothing was erased", { code: "NotAgreed" });
}

interface Erasure {
  readonly address: Address;
  readonly spool: VersionSpool;
  readonly options: Options;
}

async function eraseListed(client: Client, { address, spool, options }: Erasure): Promise<void> {
  let erased = 0;
  const outputs = new ToldOutputs();
  try {
    let told: ErasedSum | undefined;
    for await (const version of newestLast(spool.read())) {
      const answer = await eraseVersion(client, { address, version, options });
      if (answer === undefined) continue;
      erased += answer.erased.length;
      const stays = answer.stays.filter((holder) => !goesToo(holder, { address, spool }));
      if (options.json) {
        printJson({ ...answer, stays });
        continue;
      }
      const sum = sumOfErased({ ...answer, stays });
      if (told && told.path !== sum.path) printErased(address, told, outputs);
      told = told?.path === sum.path ? joinedSums(told, sum) : sum;
    }
    if (told) printErased(address, told, outputs);
  } catch (error) {
    if (!options.json) {
      printNote(`erased ${erased} of ${count(spool.versions, "version")}: the same command goes on`);
    }
    throw error;
  }
  if (options.json) return;
  const gone = spool.versions - erased;
  printLine(
    `erased ${count(erased, "version")} in all${gone > 0 ? `; ${gone} had gone already, by somebody else` : ""}`,
  );
}

/** The newest version of a path goes last, so that HEAD goes back once, to nothing. */
async function* newestLast(versions: AsyncIterable<ListedVersion>): AsyncGenerator<ListedVersion> {
  let newest: ListedVersion | undefined;
  for await (const version of versions) {
    if (newest && newest.path !== version.path) {
      yield newest;
      newest = undefined;
    }
    if (version.current) newest = version;
    else yield version;
  }
  if (newest) yield newest;
}

/** Returns undefined if somebody else erased it meanwhile, or an answer got lost and this is the second try. */
async function eraseVersion(
  client: Client,
  { address, version, options }: { address: Address; version: ListedVersion; options: Options },
): Promise<FileErased | undefined> {
  const json = { path: version.path, version: version.version, forks: options.forks, ...options.said };
  const asked = client.post(FileErased, `${branchPath(address)}/erasures`, { json, repeatable: true });
  return await unlessRefused(asked, "NoSuchCommit");
}

/** Whether something that has the same bytes is in the list itself. */
function goesToo(
  { kind, bucket, path, id }: ByteHolder,
  { address, spool }: Pick<Erasure, "address" | "spool">,
): boolean {
  if (kind !== "version" || bucket !== address.bucket || path === null || id === null) return false;
  const isUnder = path === address.path || path.startsWith(directoryPrefix(address.path));
  return isUnder && spool.has(id);
}

/** All of the list is gone: whatever is there now was written since. */
async function tellMeanwhile(
  client: Client,
  { address, options }: { address: Address; options: Options },
): Promise<void> {
  let any = false;
  for await (const version of versionsUnder(client, address)) {
    if (options.json) printJson({ writtenMeanwhile: version });
    else {
      if (!any) printLine("written meanwhile, and still there");
      printVersion(version, options);
    }
    any = true;
  }
}

/** Characters that are kept before they are written. */
const BUFFER_CHARACTERS = 64 * 1024;

/**
 * A list of versions on disk, of any length, in the order in which they came. Its file has no name from the start, so that nothing
 * is left of it however the program ends.
 */
class VersionSpool {
  readonly #file: FileHandle;
  #buffer = "";
  #newest = "";
  #versions = 0;
  #files = 0;
  #lastPath: string | undefined;

  static async open(): Promise<VersionSpool> {
    const folder = await mkdtemp(join(tmpdir(), "sluice-erase-"));
    try {
      return new VersionSpool(await open(join(folder, "versions"), "wx+", 0o600));
    } finally {
      await rm(folder, { recursive: true });
    }
  }

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  get versions(): number {
    return this.#versions;
  }

  /** Paths that the versions are of. */
  get files(): number {
    return this.#files;
  }

  async add(version: ListedVersion): Promise<void> {
    this.#versions++;
    if (version.path !== this.#lastPath) this.#files++;
    this.#lastPath = version.path;
    if (version.version > this.#newest) this.#newest = version.version;
    // It escapes what ends a line in Unicode, too, at which lines are split when they are read.
    this.#buffer += `${visibleJson(version)}\n`;
    if (this.#buffer.length >= BUFFER_CHARACTERS) await this.#flush();
  }

  /** Whether the list has a version under the path that it was made for: ids of commits grow. */
  has(version: string): boolean {
    return version <= this.#newest;
  }

  async *read(): AsyncGenerator<ListedVersion> {
    await this.#flush();
    const input = this.#file.createReadStream({ start: 0, autoClose: false });
    for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
      yield JSON.parse(line);
    }
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  async #flush(): Promise<void> {
    if (this.#buffer === "") return;
    await this.#file.appendFile(this.#buffer);
    this.#buffer = "";
  }
}
