import { lstat } from "node:fs/promises";
import type { Command } from "../../command.ts";
import { copyAcross, copyDown, copyUp, removeLocal, removeMoved } from "../../files/copy/copy.ts";
import type { RemoteFile } from "../../files/copy/remote-files.ts";
import { progressFor } from "../../files/progress.ts";
import {
  type Address,
  isAddress,
  mustMakeCommit,
  mustTakeWrites,
  parseAddress,
} from "../../gateway/address.ts";
import type { Client } from "../../gateway/client.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type AnnotationOptions, type ClientOptions, saidOf, says } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { count, printJson, printLine, printNote, showSize } from "../../output/output.ts";
import { outcome, readPaths } from "./cp.ts";

interface Options extends ClientOptions, AnnotationOptions {
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
    .action((paths: string[], options: Options) => move(paths, options))
    .commitOptions()
    .clientOptions(
      "sluice mv s3://master.images/cat.png s3://master.images/pets/cat.png",
      "sluice mv -r s3://master.images/2025 s3://master.archive/2025/",
      "sluice mv 's3://master.images/*.tmp' s3://master.images/old/",
      "sluice mv scan.tif s3://master.images/",
    );
}

async function move(paths: readonly string[], options: Options): Promise<void> {
  const { sources, to } = readPaths(paths);
  if (to === "-" || sources.includes("-"))
    throw new UsageError("stdin and stdout (-) can be copied, not moved");
  const said = saidOf(options);
  const target = isAddress(to) ? parseAddress(to) : undefined;
  if (target) mustTakeWrites(target);
  if (target && says(said)) mustMakeCommit(target);
  if (!target && says(said)) {
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
  { sources, to, options }: { sources: readonly string[]; to: Address; options: Options },
): Promise<void> {
  const put: string[] = [];
  const before = new Map<string, { modifiedMs: number; size: number }>();
  const done = await copyUp(client, {
    ...{ sources, to, said: saidOf(options), progress: progressFor(options) },
    ...(options.recursive && { recursive: true }),
    async onEntry({ source }) {
      if (typeof source !== "string") return;
      const { mtimeMs, size } = await lstat(source);
      put.push(source);
      before.set(source, { modifiedMs: mtimeMs, size });
    },
  });
  const moved = put.flatMap((source) => {
    const state = before.get(source);
    return state ? [{ source, ...state }] : [];
  });
  tellKept(await removeLocal(moved, options.recursive ? sources : []));
  if (options.json) return printJson(done);
  printLine(`${count(done.files, "file")}, ${showSize(done.bytes)}: ${outcome(done, to)}`);
}

async function moveDown(
  client: Client,
  { from, to, options }: { from: readonly Address[]; to: string; options: Options },
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
  { from, to, options }: { from: readonly Address[]; to: Address; options: Options },
): Promise<void> {
  const elsewhere: RemoteFile[] = [];
  const done = await copyAcross(client, {
    ...{ sources: from, recursive: options.recursive === true, to, said: saidOf(options) },
    ...{ moves: true, create: false },
    onFile(file) {
      if (file.from.bucket !== to.bucket) elsewhere.push(file);
    },
  });
  await removeAll(client, elsewhere);
  if (options.json) return printJson(done);
  const staged = to.view === undefined ? {} : ({ staged: true } as const);
  printLine(
    `${count(done.files, "file")}, ${showSize(done.bytes)}: ${outcome({ commit: done.commit, ...staged }, to)}`,
  );
}

/** A commit in each bucket. */
async function removeAll(client: Client, moved: readonly RemoteFile[]): Promise<void> {
  const byBucket = Map.groupBy(moved, ({ from }) => from.bucket);
  for (const files of byBucket.values()) await removeMoved(client, files);
}

function tellKept(kept: readonly string[]): void {
  for (const source of kept) printNote(`${source} was changed meanwhile: it is copied as it was, and stays`);
}
