import type { Command } from "commander";
import { addBranchCreate } from "./create.ts";
import { addBranchList } from "./list.ts";
import { addBranchProtect } from "./protect.ts";
import { addBranchPublic } from "./public.ts";

/** `sluice branch …` */
export function addBranch(program: Command): void {
  const group = program
    .command("branch")
    .summary("list the branches of a repo, make one of any commit, make them public, protect them")
    .helpCommand(false)
    .description("Branches: each is a bucket, s3://<branch>.<repo>.");
  for (const add of [addBranchList, addBranchCreate, addBranchPublic, addBranchProtect]) add(group);
}
