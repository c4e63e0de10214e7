import type { Command } from "commander";
import { addCommitAbort } from "./commit-abort.ts";
import { addCommitDiff } from "./commit-diff.ts";
import { addCommitFinish } from "./commit-finish.ts";
import { addCommitInspect } from "./commit-inspect.ts";
import { addCommitList } from "./commit-list.ts";
import { addCommitStart } from "./commit-start.ts";

/** `sluice commit …` */
export function addCommit(program: Command): void {
  const group = program
    .command("commit")
    .summary("list, inspect, compare commits; open, finish, abort those of many files")
    .helpCommand(false)
    .description("Commits: each is one change of a branch, seen whole or not at all.");
  for (const add of [
    addCommitList,
    addCommitInspect,
    addCommitDiff,
    addCommitStart,
    addCommitFinish,
    addCommitAbort,
  ])
    add(group);
}
