import type { Command } from "commander";
import { RepoList } from "../../../protocol/repos.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printTable } from "../../output/output.ts";
import { addRepoExport } from "./export.ts";
import { addRepoImport } from "./import.ts";
import { addRepoUsage } from "./usage.ts";

/** `sluice repo …` */
export function addRepo(program: Command): void {
  const group = program
    .command("repo")
    .summary("list repos, show what they take up, write one into an archive, make one of an archive")
    .helpCommand(false)
    .description("Repos: each is there while it has a branch. 'sluice mb' makes both.");
  for (const add of [addRepoList, addRepoUsage, addRepoExport, addRepoImport]) add(group);
}

/** `sluice repo list` */
function addRepoList(group: Command): void {
  const command = group
    .command("list")
    .description("Lists the repos that the key may see, with their branches.")
    .action((options: ClientOptions) =>
      withClient(options, async (client) => {
        const list = await client.call(RepoList, { method: "GET", path: "/repos" });
        if (options.json) return printJson(list);
        printTable([
          ["NAME", "BRANCHES"],
          ...list.repos.map(({ name, branches }) => [name, branches.join(" ")]),
        ]);
      }),
    );
  withClientOptions(command, "sluice repo list", "sluice repo list --json | jq '.repos[].name'");
}
