import { lstat } from "node:fs/promises";
import { Option } from "commander";
import { type Command, withClient } from "../../command.ts";
import {
  type CopiedWithin,
  copyAcross,
  copyDown,
  copyUp,
  removeLocal,
  removeMoved,
} from "../../files/copy/copy.ts";
import { isSeveral, type RemoteFile } from "../../files/copy/remote-files.ts";
import { progressFor } from "../../files/progress.ts";
import type { SplitKind } from "../../files/split/split-file.ts";
import { type Address, isAddress, mustTakeWrites, parseAddress } from "../../gateway/address.ts";
import type { Client } from "../../gateway/client.ts";
import { atCommit } from "../../gateway/ids/at-commit.ts";
import { printFile } from "../../gateway/objects.ts";
import { type AnnotationOptions, type ClientOptions, says, wholeNumber } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { count, printJson, printLine, printNote, showSize } from "../../output/output.ts";

interface Options extends ClientOptions, AnnotationOptions {
  readonly recursive?: true;
  readonly create?: true;
  readonly skipSpecial?: true;
  readonly split?: SplitKind;
  /** Records in one file. */
  readonly perFile?: number;
  readonly contentType?: string;
  readonly commit?: string;
}

/** Written out, since what cuts files is loaded only to do so. */
const SPLIT_KINDS: readonly SplitKind[] = ["line", "json"];
const MAX_PER_FILE = 1_000_000_000;

export function addCp(program: Command): void {
  program
    .command("cp")
    .summary("copy files to, from and between buckets")
    .usage("[options] <from...> <to>")
    .description(
      "Copies files, or with -r what is in folders, between this machine and a bucket, or from bucket to bucket. Files that go into a bucket together are one commit, however many they are, and what the branch has already is not sent again; a file that is there with the same bytes keeps its Content-Type and metadata. Into the bucket of an open commit ('sluice commit start') they are staged. From the bucket of a commit or a tag, s3://<x>.<branch>.<repo>, files come as they were then.\n\nThe last path is where they go. Several sources go to a folder, each by its own name. In an address, * and ? stand for what is in one name, ** also for '/' (in quotes, or the shell looks for files of its own). As a source, - is stdin; as the target, stdout.\n\nWith --split, a file or, as -, what comes on stdin is cut into many files in one commit: behind each line, or between JSON values, which come one after the other or as the elements of one array. They are named 0000000000000000, 0000000000000001 and so on, with the ending of the file.",
    )
    .argument(
      "<from...>",
      "local paths, or s3://<branch>.<repo>/<path>; the last one, <to>, is where they go",
    )
    .option("-r, --recursive", "whole folders")
    .option("--create", "make the bucket if it does not exist")
    .option("--commit <id>", "from a bucket: the files as of that commit or tag")
    .option("--content-type <type>", "of the files in the bucket (default: by their names)")
    .option("--skip-special", "leave out symbolic links, pipes and devices instead of refusing them")
    .addOption(new Option("--split <by>", "cut one file into many").choices(SPLIT_KINDS))
    .option(
      "--per-file <number>",
      "with --split: lines or JSON values in one file (default: 1)",
      wholeNumber({ min: 1, max: MAX_PER_FILE }),
    )
    .action((paths: string[], options: Options) => copy(paths, options))
    .commitOptions()
    .clientOptions(
      "sluice cp cat.png s3://master.images/pets/",
      "sluice cp *.csv s3://master.tables/2026/",
      "sluice cp -r --create photos s3://master.images/2026",
      "sluice cp -r --message 'spring survey' --meta camera=k7 photos s3://master.images/2026",
      "sluice cp --split json --per-file 100 events.json s3://master.events/2026/",
      "zcat log.gz | sluice cp --split line --per-file 1000 - s3://master.logs/today/",
      "pg_dump shop | sluice cp - s3://master.backups/shop.sql",
      "sluice cp s3://master.report/report.txt .",
      "sluice cp 's3://master.edges/2026/*.png' ./edges",
      "sluice cp -r s3://master.edges s3://master.archive/edges/",
      "sluice cp -r --commit 01KAR… s3://master.edges ./edges-then",
      "sluice cp s3://master.report/report.txt - | less",
    );
}

/** Reads the paths of `cp` and `mv`: at least one source, all of one kind. */
function readPaths(paths: readonly string[]): { sources: readonly string[]; to: string } {
  const to = paths.at(-1) ?? "";
  const sources = paths.slice(0, -1);
  if (sources.length === 0) {
    throw new UsageError(`'${to}' is what to copy, or where to: name both, the target last`);
  }
  const remote = sources.filter(isAddress);
  if (remote.length > 0 && remote.length < sources.length) {
    throw new UsageError("the sources must be all of this machine, or all s3://<branch>.<repo>/<path>");
  }
  if (remote.length === 0 && !isAddress(to)) {
    throw new UsageError(
      `one of '${sources.join("', '")}' and '${to}' must be s3://<branch>.<repo>/<path>: to copy files on this machine, take cp`,
    );
  }
  return { sources, to };
}

async function copy(paths: readonly string[], options: Options): Promise<void> {
  const { sources, to } = readPaths(paths);
  const [first = ""] = sources;
  if (!isAddress(first)) {
    if (options.commit !== undefined) throw new UsageError("--commit is for sources in a bucket");
    return await withClient(options, (client) => up(client, { sources, to: parseAddress(to), options }));
  }
  if (options.split) throw new UsageError("--split cuts a file of this machine, not of a bucket");
  if (options.contentType !== undefined) {
    throw new UsageError(
      "--content-type is for files of this machine: a copy from a bucket keeps what it has",
    );
  }
  if (isAddress(to)) {
    return await withClient(options, (client) => across(client, { sources, to: parseAddress(to), options }));
  }
  if (says(options.said)) {
    throw new UsageError("--message and --meta are for a commit, and a copy to this machine makes none");
  }
  await withClient(options, (client) => down(client, { sources, to, options }));
}

interface Line<To> {
  readonly sources: readonly string[];
  readonly to: To;
  readonly options: Options;
}

async function up(client: Client, { sources, to, options }: Line<Address>): Promise<void> {
  mustTakeWrites(to, options.said);
  const done = await copyUp(client, { ...options, sources, to, progress: progressFor(options) });
  tellCopied(done, { to, json: options.json, sent: ` (${showSize(done.sentBytes)} sent)` });
}

/** Tells what became of a copy into a bucket. `sent`: how much of it was not there yet. */
function tellCopied(
  done: CopiedWithin,
  { to, json, sent = "" }: { to: Address; json: true | undefined; sent?: string },
): void {
  const made = done.commit === null ? "nothing changed" : `commit ${done.commit}`;
  const staged = `staged; publish it with 'sluice commit finish s3://${to.bucket}'`;
  const what = `${count(done.files, "file")}, ${showSize(done.bytes)}${sent}`;
  if (json) printJson(done);
  else printLine(`${what}: ${to.view === undefined ? made : staged}`);
}

async function down(client: Client, { sources, to, options }: Line<string>): Promise<void> {
  const from = await addresses(client, sources, options);
  if (to === "-" || to === "/dev/stdout") return await toStdout(client, from, options);
  const progress = progressFor(options);
  const recursive = options.recursive === true;
  const { files, bytes, target } = await copyDown(client, { sources: from, recursive, to, progress });
  if (options.json) return printJson({ files, bytes });
  const isOne = !recursive && !isSeveral({ sources: from, recursive });
  printLine(isOne ? `${target}, ${showSize(bytes)}` : `${count(files, "file")}, ${showSize(bytes)} in ${to}`);
}

async function toStdout(
  client: Client,
  from: readonly Address[],
  { json, recursive }: Options,
): Promise<void> {
  if (json || recursive) throw new UsageError("to stdout (-) go the bytes of files: leave out --json and -r");
  for (const address of from) await printFile(client, address);
}

async function across(client: Client, { sources, to, options }: Line<Address>): Promise<void> {
  const { said, recursive = false, create = false } = options;
  mustTakeWrites(to, said);
  const from = await addresses(client, sources, options);
  const done = await copyAcross(client, { sources: from, recursive, to, said, create, moves: false });
  tellCopied(done, { to, json: options.json });
}

function addresses(client: Client, sources: readonly string[], { commit }: Options): Promise<Address[]> {
  return Promise.all(sources.map((source) => atCommit(client, parseAddress(source), commit)));
}

interface MoveOptions extends ClientOptions, AnnotationOptions {
  readonly recursive?: true;
}

export function addMv(program: Command): void {
  program
    .command("mv")
    .summary("move files to, from, between and inside buckets")
    .usage("[options] <from...> <to>")
    .description(
      "Moves files, or with -r what is in folders: copies them as 'sluice cp' does, then removes them where they were. Inside one branch that is one commit, which brings no bytes here. Between two buckets it is a commit in each; if something comes between, the files are in both, and never in none. A file that was changed meanwhile stays where it was.",
    )
    .argument(
      "<from...>",
      "local paths, or s3://<branch>.<repo>/<path>; the last one, <to>, is where they go",
    )
    .option("-r, --recursive", "whole folders")
    .action((paths: string[], options: MoveOptions) => move(paths, options))
    .commitOptions()
    .clientOptions(
      "sluice mv s3://master.images/cat.png s3://master.images/pets/cat.png",
      "sluice mv -r s3://master.images/2025 s3://master.archive/2025/",
      "sluice mv 's3://master.images/*.tmp' s3://master.images/old/",
      "sluice mv scan.tif s3://master.images/",
    );
}

async function move(paths: readonly string[], options: MoveOptions): Promise<void> {
  const { sources, to } = readPaths(paths);
  if (to === "-" || sources.includes("-"))
    throw new UsageError("stdin and stdout (-) can be copied, not moved");
  const { said } = options;
  const target = isAddress(to) ? parseAddress(to) : undefined;
  if (target) mustTakeWrites(target, said);
  else if (says(said)) {
    throw new UsageError("--message and --meta are for a commit of the target, and that is on this machine");
  }
  const from = sources.filter(isAddress).map(parseAddress);
  for (const address of from) mustTakeWrites(address);
  if (
    target?.view !== undefined &&
    (from.length === 0 || from.some(({ bucket }) => bucket !== target.bucket))
  ) {
    throw new UsageError(
      `s3://${target.bucket} is an open commit, which may still end without a trace: copy files into it, and remove them once it is finished`,
    );
  }
  await withClient(options, async (client) => {
    if (target && from.length === 0) return await moveUp(client, { sources, to: target, options });
    if (target) return await moveAcross(client, { from, to: target, options });
    await moveDown(client, { from, to, options });
  });
}

async function moveUp(
  client: Client,
  { sources, to, options }: { sources: readonly string[]; to: Address; options: MoveOptions },
): Promise<void> {
  const moved: { source: string; modifiedMs: number; size: number }[] = [];
  const done = await copyUp(client, {
    ...{ sources, to, said: options.said, progress: progressFor(options) },
    ...(options.recursive && { recursive: true }),
    async onEntry({ source }) {
      if (typeof source !== "string") return;
      const { mtimeMs, size } = await lstat(source);
      moved.push({ source, modifiedMs: mtimeMs, size });
    },
  });
  const kept = await removeLocal(moved, options.recursive ? sources : []);
  for (const source of kept) printNote(`${source} was changed meanwhile: it is copied as it was, and stays`);
  tellCopied(done, { to, json: options.json });
}

async function moveDown(
  client: Client,
  { from, to, options }: { from: readonly Address[]; to: string; options: MoveOptions },
): Promise<void> {
  const moved: RemoteFile[] = [];
  const recursive = options.recursive === true;
  const { files, bytes } = await copyDown(client, {
    ...{ sources: from, recursive, to, progress: progressFor(options) },
    onFile: (file) => void moved.push(file),
  });
  await removeAll(client, moved);
  if (options.json) printJson({ files, bytes });
  else printLine(`${count(files, "file")}, ${showSize(bytes)} in ${to}`);
}

async function moveAcross(
  client: Client,
  { from, to, options }: { from: readonly Address[]; to: Address; options: MoveOptions },
): Promise<void> {
  const elsewhere: RemoteFile[] = [];
  const done = await copyAcross(client, {
    ...{ sources: from, recursive: options.recursive === true, to, said: options.said },
    ...{ moves: true, create: false },
    onFile(file) {
      if (file.from.bucket !== to.bucket) elsewhere.push(file);
    },
  });
  await removeAll(client, elsewhere);
  tellCopied(done, { to, json: options.json });
}

/** A commit in each bucket. */
async function removeAll(client: Client, moved: readonly RemoteFile[]): Promise<void> {
  const byBucket = Map.groupBy(moved, ({ from }) => from.bucket);
  for (const files of byBucket.values()) await removeMoved(client, files);
}
