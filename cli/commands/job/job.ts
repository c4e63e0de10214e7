import type { Command } from "commander";
import { addJobDatums } from "./datums.ts";
import { addJobInspect } from "./inspect.ts";
import { addJobList } from "./list.ts";
import { addJobLogs } from "./logs.ts";
import { addJobRetry } from "./retry.ts";
import { addJobStop } from "./stop.ts";
import { addJobWait } from "./wait.ts";

/** `sluice job …` */
export function addJob(program: Command): void {
  const group = program
    .command("job")
    .summary("list, inspect, wait for, stop, retry jobs; their datums and logs")
    .helpCommand(false)
    .description("Jobs: each commit on an input of a pipeline makes one.");
  for (const add of [
    addJobList,
    addJobInspect,
    addJobWait,
    addJobStop,
    addJobRetry,
    addJobDatums,
    addJobLogs,
  ])
    add(group);
}
