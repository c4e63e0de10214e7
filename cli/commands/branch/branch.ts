import type { Command } from "commander";
import { addBranchList } from "./list.ts";
import { addBranchPublic } from "./public.ts";

/** `sluice branch …` */
export function addBranch(program: Command): void {
  const group = program
    .command("branch")
    .summary("list the branches of a repo, make them public")
    .helpCommand(false)
    .description("Branches: each is a bucket, s3://<branch>.<repo>.");
  for (const add of [addBranchList, addBranchPublic]) add(group);
}
