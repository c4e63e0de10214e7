import { open } from "node:fs/promises";
import { KeyPage } from "../../../protocol/keys.ts";
import { holdsSeparator, SEPARATOR_FAULT } from "../../../protocol/names.ts";
import { checkBranch } from "../../archive/check.ts";
import { NOT_INCLUDED } from "../../archive/format.ts";
import { abortImport, importRepo } from "../../archive/import-repo.ts";
import { ArchiveReader, type BranchInArchive } from "../../archive/reader.ts";
import { type Command, withClient } from "../../command.ts";
import { progressFor } from "../../files/progress.ts";
import { type Client, unlessRefused } from "../../gateway/client.ts";
import { anotherName, type ClientOptions, name } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { count, printJson, printLine, printNote } from "../../output/output.ts";

interface Options extends ClientOptions {
  readonly as?: string;
  readonly branch?: readonly string[];
  readonly check?: true;
  readonly abort?: true;
}

export function addRepoImport(group: Command): void {
  group
    .command("import")
    .description(
      `Makes the branches again that 'sluice repo export' wrote, at the same gateway or at another one: the same commits, tags, ETags and bytes, and what the branches were set to. The archive is checked first. Nothing of a branch is seen before all of it is there. If it breaks off, the same command goes on; what it began is given up if nothing comes for a day, or with --abort.\n\nA branch must not be there yet, and no pipeline may follow it.`,
    )
    .argument("<file>", "what 'sluice repo export' wrote")
    .option("--as <repo>", "the repo that the branches come to; else the one that they were in", name)
    .option("--branch <name>", "only this branch; may be repeated", anotherName)
    .option("--check", "only read the whole archive, bytes of contents too, and say whether it is good")
    .option("--abort", "give up what an import of this archive has begun")
    .action(async (path: string, options: Options) => {
      if (options.check && options.abort) throw new UsageError("--check and --abort exclude each other");
      const file = await open(path, "r");
      try {
        const reader = new ArchiveReader(file, path);
        if (options.check) return await check(reader, { path, size: (await file.stat()).size, options });
        await bring(reader, options);
      } finally {
        await file.close();
      }
    })
    .clientOptions(
      "sluice repo import images.tar",
      "sluice repo import images.tar --as restored",
      "sluice repo import images.tar --check",
    );
}

async function check(
  reader: ArchiveReader,
  { path, size, options }: { path: string; size: number; options: Options },
): Promise<void> {
  const progress = progressFor(options);
  progress.begin("reading", size);
  const { repo, branches } = await reader.index({ contents: (bytes) => progress.advance(bytes) });
  for (const branch of branches) await checkBranch(reader, branch, Date.now());
  progress.end();
  if (options.json) return printJson({ file: path, repo, branches: branches.map(shown) });
  printLine(`${path} is good: ${count(branches.length, "branch", "branches")} of the repo '${repo}'`);
  for (const each of branches) printLine(lineOf(each.branch.name, each.counts));
}

async function bring(reader: ArchiveReader, options: Options): Promise<void> {
  const index = await reader.index();
  const repo = options.as ?? index.repo;
  if (!options.abort && repo !== index.repo && holdsSeparator(repo))
    throw new UsageError(`--as '${repo}': the name of a repo ${SEPARATOR_FAULT}`);
  const branches = wanted(index.branches, options.branch);
  await withClient(options, async (client) => {
    const all = { reader, index, repo, branches, progress: progressFor(options, "files") };
    if (options.abort) {
      await abortImport(client, all);
      if (options.json) return printJson({ repo, aborted: branches.map(({ branch }) => branch.name) });
      return printLine("what the import had begun is given up");
    }
    const done = await importRepo(client, all);
    if (options.json) return printJson({ repo, branches: done, notIncluded: NOT_INCLUDED });
    for (const { branch, counts, wasThere } of done) {
      printLine(
        `s3://${branch}.${repo}: ${wasThere ? "is there already" : lineOf(branch, counts).replace(/^.*?: /, "")}`,
      );
    }
    printLine(NOT_INCLUDED);
    for (const { branch } of branches) tellOfRules(branch);
    await warnOfWriters(client, branches);
  });
}

/** What deletes by itself is in the archive, and is not set: it would begin with what was just brought back. */
function tellOfRules({ name, settings }: BranchInArchive["branch"]): void {
  if (settings.keep !== null) {
    printNote(
      `'${name}' kept only a part of its history, which is not set: all that comes is kept till 'sluice branch keep' says so again: ${JSON.stringify(settings.keep)}`,
    );
  }
  if (settings.lifecycle === null) return;
  printNote(
    `'${name}' had lifecycle rules, which are not set: they would delete what is older than they say. To set them, put the bucket's lifecycle configuration again: ${JSON.stringify(settings.lifecycle)}`,
  );
}

/** Nobody could write to a branch that is protected for a key which this gateway does not have. */
async function warnOfWriters(client: Client, branches: readonly BranchInArchive[]): Promise<void> {
  for (const { branch } of branches) {
    const { writer } = branch.settings;
    if (writer === null || !("key" in writer) || (await hasKey(client, writer.key))) continue;
    printNote(
      `'${branch.name}' is protected for the access key ${writer.key}, which is not at this gateway: import the keys (sluice key import), or end that with 'sluice branch protect --off'`,
    );
  }
}

async function hasKey(client: Client, id: string): Promise<boolean> {
  if (id === client.connection.accessKeyId) return true;
  // By id: the first one that is not before it. Who may not list keys is not told.
  const page = await unlessRefused(client.get(KeyPage, "/keys", { limit: 1, after: before(id) }), 403);
  return page === undefined || page.keys.some((key) => key.id === id);
}

/** The greatest text before another one, of those that ids of keys can be. */
function before(id: string): string {
  const last = id.charCodeAt(id.length - 1);
  return `${id.slice(0, -1)}${String.fromCharCode(last - 1)}~`;
}

function wanted(
  branches: readonly BranchInArchive[],
  names: readonly string[] | undefined,
): readonly BranchInArchive[] {
  const unknown = names?.find((each) => !branches.some(({ branch }) => branch.name === each));
  if (unknown !== undefined) {
    const there = branches.map(({ branch }) => branch.name).join(", ");
    throw new UsageError(`there is no branch '${unknown}' in the archive: it has ${there}`);
  }
  return names ? branches.filter(({ branch }) => names.includes(branch.name)) : branches;
}

function shown({ branch, counts }: BranchInArchive): object {
  return { name: branch.name, createdAt: branch.createdAt, ...counts };
}

function lineOf(branch: string, { commits, tags, files }: BranchInArchive["counts"]): string {
  return `${branch}: ${count(commits, "commit")}, ${count(tags, "tag")}, ${count(files, "version")} of files`;
}
