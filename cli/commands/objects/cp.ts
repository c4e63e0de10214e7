import { Option } from "commander";
import type { Command } from "../../command.ts";
import { copyAcross, copyDown, copyUp } from "../../files/copy/copy.ts";
import { isSeveral } from "../../files/copy/remote-files.ts";
import { progressFor } from "../../files/progress.ts";
import type { SplitKind } from "../../files/split/split-file.ts";
import type { Uploaded } from "../../files/upload.ts";
import {
  type Address,
  isAddress,
  mustMakeCommit,
  mustTakeWrites,
  parseAddress,
} from "../../gateway/address.ts";
import type { Client } from "../../gateway/client.ts";
import { atCommit } from "../../gateway/ids/at-commit.ts";
import { printFile } from "../../gateway/objects.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type AnnotationOptions, type ClientOptions, saidOf, says, wholeNumber } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { count, printJson, printLine, showSize } from "../../output/output.ts";

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

/** What is copied where, as a command line says it. */
export interface CopyLine {
  readonly sources: readonly string[];
  readonly to: string;
}

/** Reads the paths of `cp` and `mv`: at least one source, all of one kind. */
export function readPaths(paths: readonly string[]): CopyLine {
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
  const said = saidOf(options);
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
  if (says(said)) {
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
  mustTakeWrites(to);
  const said = saidOf(options);
  if (says(said)) mustMakeCommit(to);
  const done = await copyUp(client, { ...options, sources, to, said, progress: progressFor(options) });
  if (options.json) return printJson(done);
  printLine(
    `${count(done.files, "file")}, ${showSize(done.bytes)} (${showSize(done.sentBytes)} sent): ${outcome(done, to)}`,
  );
}

/** What became of a copy into a bucket, for people. */
export function outcome(
  { commit, staged }: Pick<Uploaded, "commit" | "staged">,
  { bucket }: Address,
): string {
  if (staged) return `staged; publish it with 'sluice commit finish s3://${bucket}'`;
  return commit === null ? "nothing changed" : `commit ${commit}`;
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
  mustTakeWrites(to);
  const said = saidOf(options);
  if (says(said)) mustMakeCommit(to);
  const from = await addresses(client, sources, options);
  const recursive = options.recursive === true;
  const create = options.create === true;
  const done = await copyAcross(client, { sources: from, recursive, to, said, create, moves: false });
  if (options.json) return printJson(done);
  const staged = to.view === undefined ? {} : ({ staged: true } as const);
  const result = outcome({ commit: done.commit, ...staged }, to);
  printLine(`${count(done.files, "file")}, ${showSize(done.bytes)}: ${result}`);
}

function addresses(client: Client, sources: readonly string[], { commit }: Options): Promise<Address[]> {
  return Promise.all(sources.map((source) => atCommit(client, parseAddress(source), commit)));
}
