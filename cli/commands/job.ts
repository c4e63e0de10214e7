import type { Command } from "commander";
import { addJobInspect } from "./job-inspect.ts";
import { addJobList } from "./job-list.ts";
import { addJobWait } from "./job-wait.ts";

/** `sluice job …` */
export function addJob(program: Command): void {
  const group = program
    .command("job")
    .summary("list, inspect, wait for jobs")
    .helpCommand(false)
    .description("Jobs: each commit on an input of a pipeline makes one.");
  for (const add of [addJobList, addJobInspect, addJobWait]) add(group);
}
