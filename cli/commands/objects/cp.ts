import type { Stats } from "node:fs";
import { lstat, mkdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { Readable } from "node:stream";
import { type Command, Option } from "commander";
import { forEachLimited } from "../../../runner/lib/concurrency.ts";
import { downloadFile } from "../../files/download.ts";
import { type EntryPage, inPages } from "../../files/entry-pages.ts";
import { checkTarget, type LocalEntry, walkFolder } from "../../files/local-tree.ts";
import { type Progress, progressFor } from "../../files/progress.ts";
import { SPLIT_KINDS, type SplitKind, splitFile } from "../../files/split/split-file.ts";
import { type Uploaded, uploadAsCommit } from "../../files/upload.ts";
import {
  type Address,
  isAddress,
  mustMakeCommit,
  mustTakeWrites,
  parseAddress,
  parseFileAddress,
  showAddress,
} from "../../gateway/address.ts";
import type { ListedFile } from "../../gateway/answers.ts";
import { type Client, GatewayError, withClient } from "../../gateway/client.ts";
import { createBucket, directoryPrefix, listPages } from "../../gateway/objects.ts";
import {
  type ClientOptions,
  type NoteOptions,
  saidOf,
  says,
  wholeNumber,
  withClientOptions,
  withNote,
} from "../../options.ts";
import { CliError, UsageError } from "../../output/failure.ts";
import { count, printJson, printLine, showSize } from "../../output/output.ts";

interface Options extends ClientOptions, NoteOptions {
  readonly recursive?: true;
  readonly create?: true;
  readonly skipSpecial?: true;
  readonly split?: SplitKind;
  /** Records in one file. */
  readonly perFile?: number;
}

const MAX_PER_FILE = 1_000_000_000;

const DOWNLOAD_LANES = 4;

/** `sluice cp` */
export function addCp(program: Command): void {
  const command = program
    .command("cp")
    .summary("copy files to or from a bucket")
    .description(
      "Copies a file, or with -r what is in a folder, between this machine and a bucket. Files that go up together are one commit, however many they are, and what the branch has already is not sent again. Into the bucket of an open commit ('sluice commit start') they are staged. From the bucket of a commit or a tag, s3://<x>.<branch>.<repo>, files come as they were then.\n\nWith --split, a file or, as -, what comes on stdin is cut into many files in one commit: behind each line, or between JSON values, which come one after the other or as the elements of one array. They are named 0000000000000000, 0000000000000001 and so on, with the ending of the file.",
    )
    .argument("<from>", "a local path, or s3://<branch>.<repo>/<path>")
    .argument("<to>", "the other of the two; a file put to a path that ends in / keeps its name")
    .option("-r, --recursive", "a whole folder")
    .option("--create", "make the bucket if it does not exist")
    .option("--skip-special", "leave out symbolic links, pipes and devices instead of refusing them")
    .addOption(new Option("--split <by>", "cut one file into many").choices(SPLIT_KINDS))
    .option(
      "--per-file <number>",
      "with --split: lines or JSON values in one file (default: 1)",
      wholeNumber({ min: 1, max: MAX_PER_FILE }),
    )
    .action((from: string, to: string, options: Options) => copy({ from, to }, options));
  withClientOptions(
    withNote(command),
    "sluice cp cat.png s3://master.images/pets/",
    "sluice cp -r --create photos s3://master.images/2026",
    "sluice cp -r --message 'spring survey' --meta camera=k7 photos s3://master.images/2026",
    "sluice cp --split json --per-file 100 events.json s3://master.events/2026/",
    "zcat log.gz | sluice cp --split line --per-file 1000 - s3://master.logs/today/",
    "sluice cp s3://master.report/report.txt .",
    "sluice cp -r s3://master.edges ./edges",
    "sluice cp -r s3://v1.master.edges ./edges-v1",
  );
}

async function copy({ from, to }: { from: string; to: string }, options: Options): Promise<void> {
  if (isAddress(from) === isAddress(to)) {
    throw new UsageError(
      `one of '${from}' and '${to}' must be s3://<branch>.<repo>/<path> and the other a local path`,
    );
  }
  if (options.split && isAddress(from))
    throw new UsageError("--split cuts a file of this machine, not of a bucket");
  if (says(options) && isAddress(from))
    throw new UsageError("--message and --meta are for a commit, and a copy to this machine makes none");
  await withClient(options, (client) =>
    isAddress(to)
      ? copyUp(client, { from, to: parseAddress(to), options })
      : options.recursive
        ? copyFolderDown(client, { from: parseAddress(from), to, options })
        : copyFileDown(client, { from: parseFileAddress(from), to, options }),
  );
}

async function copyUp(
  client: Client,
  { from, to, options }: { from: string; to: Address; options: Options },
): Promise<void> {
  mustTakeWrites(to);
  const said = saidOf(options);
  if (says(said)) mustMakeCommit(to);
  const pages = await pagesToPut(from, { to, options });
  const { value: first } = await pages.next();
  if (!first)
    throw new CliError(`${from === "-" ? "stdin" : from} holds ${options.split ? "nothing" : "no files"}`);
  const progress = progressFor(options);
  try {
    if (options.create) await ensureBucket(client, to.bucket);
    const done = await uploadAsCommit(client, { to, first, rest: pages, progress, said });
    if (options.json) return printJson(done);
    printLine(
      `${count(done.files, "file")}, ${showSize(done.bytes)} (${showSize(done.sentBytes)} sent): ${outcome(done, to)}`,
    );
  } catch (error) {
    throw isNoSuchBucket(error) ? noSuchBucket(to) : error;
  } finally {
    progress.end();
    // Not waited for: it may be waiting for input itself.
    pages.return(undefined).catch(() => {});
  }
}

function outcome({ commit, staged }: Uploaded, { bucket }: Address): string {
  if (staged) return `staged; publish it with 'sluice commit finish s3://${bucket}'`;
  return commit === null ? "nothing changed" : `commit ${commit}`;
}

async function pagesToPut(
  from: string,
  { to, options }: { to: Address; options: Options },
): Promise<AsyncGenerator<EntryPage>> {
  const { recursive, split, perFile } = options;
  if (perFile !== undefined && split === undefined) throw new UsageError("--per-file goes with --split only");
  if (split === undefined) return inPages(await entriesToPut(from, { to, options }));
  if (recursive) throw new UsageError("--split cuts one file: leave -r out");
  // A read of a named pipe that waits would keep the program from ending; of stdin it does not.
  if (from !== "-" && !(await localStats(from)).isFile()) {
    throw new UsageError(
      `--split cuts one file, and ${from} is none: send what comes from elsewhere to stdin, and give -`,
    );
  }
  return splitFile({ from, by: split, perFile: perFile ?? 1, into: directoryPrefix(to.path) });
}

async function entriesToPut(
  from: string,
  { to, options }: { to: Address; options: Options },
): Promise<AsyncIterable<LocalEntry>> {
  if (from === "-") throw new UsageError("stdin (-) can be copied with --split only");
  const found = await localStats(from);
  if (found.isDirectory()) {
    if (!options.recursive) throw new UsageError(`${from} is a folder: copy it with -r`);
    return walkFolder(from, {
      into: directoryPrefix(to.path),
      skipSpecial: options.skipSpecial === true,
    });
  }
  if (!found.isFile()) throw new CliError(`${from} is neither a file nor a folder`);
  if (options.recursive) throw new UsageError(`${from} is a file: copy it without -r`);
  const target = to.path === "" || to.path.endsWith("/") ? to.path + basename(from) : to.path;
  checkTarget(from, target);
  return Readable.from([{ source: from, target, size: found.size }]);
}

async function localStats(path: string): Promise<Stats> {
  try {
    return await stat(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    throw new CliError(`${path} does not exist`, { code: "ENOENT" });
  }
}

async function ensureBucket(client: Client, bucket: string): Promise<void> {
  try {
    await createBucket(client, bucket);
  } catch (error) {
    if (!(error instanceof GatewayError && error.code === "BucketAlreadyOwnedByYou")) throw error;
  }
}

function isNoSuchBucket(error: unknown): boolean {
  return error instanceof GatewayError && ["NoSuchBucket", "NoSuchBranch"].includes(error.code);
}

function noSuchBucket({ bucket }: Address): CliError {
  return new CliError(
    `there is no bucket s3://${bucket}: make it with 'sluice mb s3://${bucket}', or copy with --create`,
    {
      code: "NoSuchBucket",
    },
  );
}

async function copyFileDown(
  client: Client,
  { from, to, options }: { from: Address; to: string; options: Options },
): Promise<void> {
  const target = to.endsWith("/") || (await isFolder(to)) ? join(to, basename(from.path)) : to;
  const bytes = await downloadFile(client, { from, target, progress: progressFor({ json: true }) });
  if (options.json) printJson({ files: 1, bytes });
  else printLine(`${target}, ${showSize(bytes)}`);
}

async function copyFolderDown(
  client: Client,
  { from, to, options }: { from: Address; to: string; options: Options },
): Promise<void> {
  const prefix = directoryPrefix(from.path);
  const progress = progressFor(options);
  const done = { files: 0, bytes: 0 };
  progress.begin("receiving", 0);
  try {
    await forEachLimited(expectedFiles(client, { bucket: from.bucket, prefix, progress }), {
      limit: DOWNLOAD_LANES,
      work: async ({ path }) => {
        const target = join(to, path.slice(prefix.length));
        if (path.endsWith("/")) await mkdir(target, { recursive: true });
        else done.bytes += await downloadFile(client, { from: { ...from, path }, target, progress });
        done.files++;
      },
    });
  } finally {
    progress.end();
  }
  if (done.files === 0)
    throw new CliError(`${showAddress(from, prefix)} holds no files`, { code: "NoSuchKey" });
  if (options.json) printJson(done);
  else printLine(`${count(done.files, "file")}, ${showSize(done.bytes)} in ${to}`);
}

async function* expectedFiles(
  client: Client,
  { progress, ...request }: { bucket: string; prefix: string; progress: Progress },
): AsyncGenerator<ListedFile> {
  for await (const { files } of listPages(client, request)) {
    progress.grow(files.reduce((sum, { size }) => sum + size, 0));
    yield* files;
  }
}

async function isFolder(path: string): Promise<boolean> {
  return lstat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
