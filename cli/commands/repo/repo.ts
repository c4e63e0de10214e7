import type { Command } from "commander";
import { addRepoExport } from "./export.ts";
import { addRepoImport } from "./import.ts";
import { addRepoList } from "./list.ts";
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
