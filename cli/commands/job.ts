import type { Command } from "commander";
import { addJobDatums } from "./job-datums.ts";
import { addJobInspect } from "./job-inspect.ts";
import { addJobList } from "./job-list.ts";
import { addJobLogs } from "./job-logs.ts";
import { addJobStop } from "./job-stop.ts";
import { addJobWait } from "./job-wait.ts";

/** `sluice job …` */
export function addJob(program: Command): void {
  const group = program
    .command("job")
    .summary("list, inspect, wait for, stop jobs; their datums and logs")
    .helpCommand(false)
    .description("Jobs: each commit on an input of a pipeline makes one.");
  for (const add of [addJobList, addJobInspect, addJobWait, addJobStop, addJobDatums, addJobLogs]) add(group);
}
