import { bucketName } from "../../../protocol/names.ts";
import { type BranchUsage, RepoList, RepoUsage, type Space } from "../../../protocol/repos.ts";
import { encodePath } from "../../../protocol/requests.ts";
import type { Command } from "../../command.ts";
import { catalogueSpace, isAlmostFull } from "../../gateway/branches.ts";
import { type Client, unlessRefused } from "../../gateway/client.ts";
import { type ClientOptions, name } from "../../options.ts";
import { printJson, printLine, printNote, printTable, showSize } from "../../output/output.ts";
import { addRepoExport } from "./export.ts";
import { addRepoImport } from "./import.ts";

export function addRepo(program: Command): void {
  program
    .group("repo")
    .summary("list repos, show what they take up, write one into an archive, make one of an archive")
    .description("Repos: each is there while it has a branch. 'sluice mb' makes both.")
    .holds(addRepoList, addRepoUsage, addRepoExport, addRepoImport);
}

function addRepoList(group: Command): void {
  group
    .command("list")
    .description("Lists the repos that the key may see, with their branches.")
    .clientAction(async (client, options: ClientOptions) => {
      const list = await client.get(RepoList, "/repos");
      if (options.json) return printJson(list);
      printTable([
        ["NAME", "BRANCHES"],
        ...list.repos.map(({ name, branches }) => [name, branches.join(" ")]),
      ]);
    })
    .clientOptions("sluice repo list", "sluice repo list --json | jq '.repos[].name'");
}

type OneUsage = RepoUsage & { readonly repo: string };

export function addRepoUsage(group: Command): void {
  group
    .command("usage")
    .description(
      "Shows what the branches of a repo, or of all repos, take up: the files of HEAD, what only earlier commits have, what is being given back, blobs that are about to be deleted, and how large the branch's database is. Deleted branches are shown as long as something of them is there. Below it stands what holds most of the history back. All rows are added up, which takes about a second for a million.",
    )
    .argument("[repo]", "the repo; all that the key may see", name)
    .clientAction(async (client, repo: string | undefined, options: ClientOptions) => {
      const usages: OneUsage[] = [];
      if (repo !== undefined) usages.push({ repo, ...(await usageOf(client, repo)) });
      else for await (const one of everyUsage(client)) usages.push(one);
      const catalogue = repo === undefined ? await catalogueSpace(client) : undefined;
      if (options.json) return printJson({ repos: usages, ...(catalogue && { catalogue }) });
      print(usages);
      if (catalogue) printLine(`catalogue: ${showSpace(catalogue)}`);
      warn(usages, catalogue);
    })
    .clientOptions("sluice repo usage texts", "sluice repo usage --json | jq '.repos[].branches[]'");
}

async function* everyUsage(client: Client): AsyncGenerator<OneUsage> {
  const { repos } = await client.get(RepoList, "/repos", { deleted: "true" });
  for (const { name: repo } of repos) {
    // It may have been deleted, and nothing of it be left.
    const usage = await unlessRefused(usageOf(client, repo), 404);
    if (usage) yield { repo, ...usage };
  }
}

function usageOf(client: Client, repo: string): Promise<RepoUsage> {
  return client.get(RepoUsage, `/repos/${encodePath(repo)}/usage`);
}

function print(usages: readonly OneUsage[]): void {
  const branches = usages.flatMap(({ repo, branches }) => branches.map((branch) => ({ repo, ...branch })));
  printTable([
    ["BUCKET", "LIVE", "HISTORY", "RECLAIMABLE", "CONDEMNED", "DATABASE"],
    ...branches.map(({ repo, name: branch, deleted, contents, database }) => [
      `s3://${bucketName({ repo, branch })}${deleted ? " (deleted)" : ""}`,
      ...(contents
        ? [contents.live, contents.history, contents.reclaimable, contents.condemned].map(showAmount)
        : ["-", "-", "-", "-"]),
      showSpace(database),
    ]),
  ]);
  for (const { repo, name: branch, contents } of branches) {
    const bucket = bucketName({ repo, branch });
    if (contents?.holder) {
      const { versions, what } = contents.holder;
      printLine(
        `${bucket}: ${versions === 1 ? "1 version is" : `${versions.toLocaleString("en")} versions are`} held by ${what}`,
      );
    }
    for (const { what, count, bytes } of contents?.pins ?? []) {
      const some =
        count === 1 ? "1 erased content stays" : `${count.toLocaleString("en")} erased contents stay`;
      printLine(`${bucket}: ${some} (${showSize(bytes)}) for ${what}, which still has the bytes`);
    }
  }
}

function warn(usages: readonly OneUsage[], catalogue: Space | undefined): void {
  const full = (of: string, space: Space | null | undefined): void => {
    if (space && isAlmostFull(space)) printNote(`Warning: ${of} has ${showSpace(space)}.`);
  };
  for (const { repo, branches, pipeline } of usages) {
    for (const { name: branch, database } of branches) {
      full(`the database of ${bucketName({ repo, branch })}`, database);
    }
    full(`the database of the pipeline ${repo}`, pipeline);
  }
  full("the catalogue", catalogue);
}

type Amount = NonNullable<BranchUsage["contents"]>["live"];

function showAmount({ count, bytes }: Amount): string {
  return count === 0 ? "-" : `${count.toLocaleString("en")} (${showSize(bytes)})`;
}

function showSpace({ usedBytes, limitBytes }: Space): string {
  return `${showSize(usedBytes)}, ${Math.round((usedBytes / limitBytes) * 100)} % of ${showSize(limitBytes)}`;
}
