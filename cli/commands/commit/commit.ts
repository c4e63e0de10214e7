import type { Command } from "commander";
import { addCommitAbort } from "./abort.ts";
import { addCommitDiff } from "./diff.ts";
import { addCommitFinish } from "./finish.ts";
import { addCommitInspect } from "./inspect.ts";
import { addCommitList } from "./list.ts";
import { addCommitRedact } from "./redact.ts";
import { addCommitRevert } from "./revert.ts";
import { addCommitStart } from "./start.ts";
import { addCommitWait } from "./wait.ts";

/** `sluice commit …` */
export function addCommit(program: Command): void {
  const group = program
    .command("commit")
    .summary(
      "list, inspect, compare, revert, redact commits; open, finish, abort those of many files; wait for their jobs",
    )
    .helpCommand(false)
    .description("Commits: each is one change of a branch, seen whole or not at all.");
  for (const add of [
    addCommitList,
    addCommitInspect,
    addCommitDiff,
    addCommitStart,
    addCommitFinish,
    addCommitAbort,
    addCommitRevert,
    addCommitRedact,
    addCommitWait,
  ])
    add(group);
}
