import type { Stats } from "node:fs";
import { lstat, mkdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Command } from "commander";
import { MAX_COMMIT_OPERATIONS } from "../../protocol/files.ts";
import { type Address, isAddress, parseAddress, parseFileAddress, showAddress } from "../address.ts";
import type { ListedFile } from "../answers.ts";
import { type Client, GatewayError } from "../client.ts";
import { CliError, UsageError } from "../failure.ts";
import { downloadFile } from "../files/download.ts";
import { checkTarget, type LocalEntry, walkFolder } from "../files/local-tree.ts";
import { inParallel } from "../files/parallel.ts";
import { type Progress, progressFor } from "../files/progress.ts";
import { uploadAsCommit } from "../files/upload.ts";
import { createBucket, directoryPrefix, listPages } from "../objects.ts";
import { type ClientOptions, withClientOptions, withExamples } from "../options.ts";
import { count, printJson, printLine, showSize } from "../output.ts";
import { withClient } from "../with-client.ts";

interface Options extends ClientOptions {
  readonly recursive?: true;
  readonly create?: true;
  readonly skipSpecial?: true;
}

const DOWNLOAD_LANES = 4;

/** `sluice cp` */
export function addCp(program: Command): void {
  const command = program
    .command("cp")
    .summary("copy files to or from a bucket")
    .description(
      "Copies a file, or with -r what is in a folder, between this machine and a bucket. Files that go up together are one commit, and what the branch has already is not sent again.",
    )
    .argument("<from>", "a local path, or s3://<branch>.<repo>/<path>")
    .argument("<to>", "the other of the two; a file put to a path that ends in / keeps its name")
    .option("-r, --recursive", "a whole folder")
    .option("--create", "make the bucket where it is absent")
    .option("--skip-special", "leave out symbolic links, pipes and devices instead of refusing them")
    .action((from: string, to: string, options: Options) => copy({ from, to }, options));
  withExamples(
    withClientOptions(command),
    "sluice cp cat.png s3://master.images/pets/",
    "sluice cp -r --create photos s3://master.images/2026",
    "sluice cp s3://master.report/report.txt .",
    "sluice cp -r s3://master.edges ./edges",
  );
}

async function copy({ from, to }: { from: string; to: string }, options: Options): Promise<void> {
  if (isAddress(from) === isAddress(to)) {
    throw new UsageError(
      `one of '${from}' and '${to}' must be s3://<branch>.<repo>/<path> and the other a local path`,
    );
  }
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
  const entries = await entriesToPut(from, { to, options });
  if (options.create) await ensureBucket(client, to.bucket);
  const progress = progressFor(options);
  try {
    const done = await uploadAsCommit(client, { to, entries, progress });
    if (options.json) return printJson(done);
    const outcome = done.commit === null ? "nothing changed" : `commit ${done.commit}`;
    printLine(
      `${count(done.files, "file")}, ${showSize(done.bytes)} (${showSize(done.sentBytes)} sent): ${outcome}`,
    );
  } catch (error) {
    throw isNoSuchBucket(error) ? noSuchBucket(to) : error;
  } finally {
    progress.end();
  }
}

async function entriesToPut(
  from: string,
  { to, options }: { to: Address; options: Options },
): Promise<readonly LocalEntry[]> {
  const found = await localStats(from);
  if (found.isDirectory()) {
    if (!options.recursive) throw new UsageError(`${from} is a folder: copy it with -r`);
    const walk = walkFolder(from, {
      into: directoryPrefix(to.path),
      skipSpecial: options.skipSpecial === true,
    });
    const entries: LocalEntry[] = [];
    for await (const entry of walk) {
      if (entries.length === MAX_COMMIT_OPERATIONS) throw tooMany(from);
      entries.push(entry);
    }
    if (entries.length === 0) throw new CliError(`${from} holds no files`);
    return entries;
  }
  if (!found.isFile()) throw new CliError(`${from} is neither a file nor a folder`);
  if (options.recursive) throw new UsageError(`${from} is a file: copy it without -r`);
  const target = to.path === "" || to.path.endsWith("/") ? to.path + basename(from) : to.path;
  checkTarget(from, target);
  return [{ source: from, target, size: found.size }];
}

function tooMany(folder: string): CliError {
  return new CliError(
    `${folder} holds more than the ${MAX_COMMIT_OPERATIONS} files that one commit takes: copy folder by folder; nothing was sent`,
    { code: "TooManyFiles" },
  );
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
    await inParallel(expectedFiles(client, { bucket: from.bucket, prefix, progress }), {
      lanes: DOWNLOAD_LANES,
      act: async ({ path }) => {
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
