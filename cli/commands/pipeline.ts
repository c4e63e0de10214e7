import type { Command } from "commander";
import { addPipelineCheck } from "./pipeline-check.ts";
import { addPipelineCreate } from "./pipeline-create.ts";
import { addPipelineDelete } from "./pipeline-delete.ts";
import { addPipelineInspect } from "./pipeline-inspect.ts";
import { addPipelineList } from "./pipeline-list.ts";
import { addPipelineStart } from "./pipeline-start.ts";
import { addPipelineStop } from "./pipeline-stop.ts";
import { addPipelineUpdate } from "./pipeline-update.ts";

/** `sluice pipeline …` */
export function addPipeline(program: Command): void {
  const group = program
    .command("pipeline")
    .summary("check, create, list, inspect, update, stop, start, delete pipelines")
    .helpCommand(false)
    .description("Pipelines: what is to run when data lands.");
  for (const add of [
    addPipelineCheck,
    addPipelineCreate,
    addPipelineList,
    addPipelineInspect,
    addPipelineUpdate,
    addPipelineStop,
    addPipelineStart,
    addPipelineDelete,
  ])
    add(group);
}
