import { rmSync } from "node:fs";
import { type FileHandle, link, open, rename, rm } from "node:fs/promises";
import { BranchList } from "../../../protocol/repos.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { type Exported, exportRepo } from "../../archive/export-repo.ts";
import { NOT_INCLUDED } from "../../archive/format.ts";
import type { Sink } from "../../archive/writer.ts";
import { type Command, withClient } from "../../command.ts";
import { DRAFT_FLAGS, draftOf } from "../../files/placing.ts";
import { progressFor } from "../../files/progress.ts";
import type { Client } from "../../gateway/client.ts";
import { anotherName, type ClientOptions, name } from "../../options.ts";
import { CliError, EXIT, errnoOf, systemText, UsageError } from "../../output/failure.ts";
import { count, printJson, printLine, printNote, showSize } from "../../output/output.ts";
import { atEnd } from "../../stop-requests.ts";

interface Options extends ClientOptions {
  readonly branch?: readonly string[];
}

export function addRepoExport(group: Command): void {
  group
    .command("export")
    .description(
      `Writes the branches of a repo into an archive, with all of their history that is kept: the same commits with their ids, times and notes, tags, files with their ETags and metadata, and what the branches are set to. Each branch is as it is when its turn comes; others write to it meanwhile. The archive is a tar file.\n\n${capital(NOT_INCLUDED)}. It is not encrypted.`,
    )
    .argument("<repo>", "its name", name)
    .argument("<file>", "a new file; '-' writes to standard output")
    .option("--branch <name>", "only this branch; may be repeated", anotherName)
    .action((repo: string, file: string, options: Options) => {
      if (file === "-" && options.json)
        throw new UsageError("--json and an archive on standard output exclude each other");
      return withClient(options, async (client) => {
        const branches = options.branch ?? (await branchesOf(client, repo));
        const progress = progressFor(options, "files");
        const write = (sink: Sink) => exportRepo(client, { repo, branches, sink, progress });
        const done = file === "-" ? await toStandardOutput(write) : await toFile(file, write);
        if (options.json) return printJson({ repo, file, ...done, notIncluded: NOT_INCLUDED });
        const say = file === "-" ? printNote : printLine;
        for (const [branch, { commits, tags, files }] of Object.entries(done.branches)) {
          say(
            `${branch}: ${count(commits, "commit")}, ${count(tags, "tag")}, ${count(files, "version")} of files`,
          );
        }
        say(`${showSize(done.bytes)} written`);
        say(NOT_INCLUDED);
      });
    })
    .clientOptions(
      "sluice repo export images images.tar",
      "sluice repo export images images.tar --branch master",
      "sluice repo export images - | zstd > images.tar.zst",
    );
}

async function branchesOf(client: Client, repo: string): Promise<string[]> {
  const { branches } = await client.get(BranchList, `/repos/${encodePath(repo)}/branches`);
  const coming = branches.find(({ forking }) => forking);
  if (coming) {
    throw new CliError(
      `the branch '${coming.name}' is made from another one, and is not all there yet: wait for it, or name the others with --branch`,
      { code: "Forking" },
    );
  }
  return branches.map(({ name }) => name);
}

type Write = (sink: Sink) => Promise<Exported>;

/** The file appears when all of it is on the disk. What is there already is not replaced, also if it came meanwhile. */
async function toFile(file: string, write: Write): Promise<Exported> {
  // Nobody should hear in the end only that the name is taken, or that nothing can be written there.
  await (await open(file, "wx")).close();
  await rm(file);
  const draft = draftOf(file);
  const handle = await open(draft, DRAFT_FLAGS);
  const remove = () => rmSync(draft, { force: true });
  const forget = atEnd(remove);
  try {
    const done = await write(fileSink(handle));
    await handle.sync();
    await reveal(draft, file);
    return done;
  } catch (error) {
    // The system names no file if the disk is full.
    const code = errnoOf(error);
    if (error instanceof CliError || code === undefined) throw error;
    throw new CliError(`can not write ${systemText(error, file)}`, { code, exitCode: EXIT.failed });
  } finally {
    await handle.close();
    remove();
    forget();
  }
}

/** A link never takes a name that is there. Some file systems have none. */
async function reveal(draft: string, file: string): Promise<void> {
  try {
    await link(draft, file);
  } catch (error) {
    if (errnoOf(error) === "EEXIST") throw error;
    await rename(draft, file);
  }
}

function fileSink(handle: FileHandle): Sink {
  let size = 0;
  return {
    async write(bytes) {
      for (let done = 0; done < bytes.length; ) {
        const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, size);
        done += bytesWritten;
        size += bytesWritten;
      }
    },
    async truncate(bytes) {
      await handle.truncate(bytes);
      size = bytes;
    },
  };
}

async function toStandardOutput(write: Write): Promise<Exported> {
  if (process.stdout.isTTY)
    throw new UsageError("an archive is nothing for a terminal: name a file, or send it on");
  return await write({
    write: (bytes) =>
      new Promise((resolve, reject) => {
        process.stdout.write(bytes, (error) => (error ? reject(error) : resolve()));
      }),
  });
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
