import type { Command } from "commander";
import { addBranchDelete } from "../objects/rb.ts";
import { addBranchCreate } from "./create.ts";
import { addBranchEmptyOnly } from "./empty-only.ts";
import { addBranchInspect } from "./inspect.ts";
import { addBranchKeep } from "./keep.ts";
import { addBranchLastModified } from "./last-modified.ts";
import { addBranchList } from "./list.ts";
import { addBranchProtect } from "./protect.ts";
import { addBranchPublic } from "./public.ts";

/** `sluice branch …` */
export function addBranch(program: Command): void {
  const group = program
    .command("branch")
    .summary(
      "list, inspect, create, delete branches; make them public, protect them, say how much of their history stays, what Last-Modified is, and when S3 tools delete them",
    )
    .helpCommand(false)
    .description("Branches: each is a bucket, s3://<branch>.<repo>.");
  for (const add of [
    addBranchList,
    addBranchInspect,
    addBranchCreate,
    addBranchDelete,
    addBranchPublic,
    addBranchProtect,
    addBranchKeep,
    addBranchLastModified,
    addBranchEmptyOnly,
  ])
    add(group);
}
