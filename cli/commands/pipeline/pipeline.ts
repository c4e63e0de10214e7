import type { Command } from "commander";
import { addPipelineCheck } from "./check.ts";
import { addPipelineCreate } from "./create.ts";
import { addPipelineDelete } from "./delete.ts";
import { addPipelineDiff } from "./diff.ts";
import { addPipelineHistory } from "./history.ts";
import { addPipelineInspect } from "./inspect.ts";
import { addPipelineList } from "./list.ts";
import { addPipelineStopStart } from "./stop-start.ts";
import { addPipelineUpdate } from "./update.ts";

/** `sluice pipeline …` */
export function addPipeline(program: Command): void {
  const group = program
    .command("pipeline")
    .summary("check, create, list, inspect, update, history, diff, stop, start, delete pipelines")
    .helpCommand(false)
    .description("Pipelines: what is to run when data lands.");
  for (const add of [
    addPipelineCheck,
    addPipelineCreate,
    addPipelineList,
    addPipelineInspect,
    addPipelineHistory,
    addPipelineDiff,
    addPipelineUpdate,
    addPipelineStopStart,
    addPipelineDelete,
  ])
    add(group);
}
