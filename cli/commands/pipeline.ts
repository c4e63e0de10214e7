import type { Command } from "commander";
import { addPipelineCreate } from "./pipeline-create.ts";
import { addPipelineDelete } from "./pipeline-delete.ts";
import { addPipelineInspect } from "./pipeline-inspect.ts";
import { addPipelineList } from "./pipeline-list.ts";

/** `sluice pipeline …` */
export function addPipeline(program: Command): void {
  const group = program
    .command("pipeline")
    .summary("create, list, inspect, delete pipelines")
    .helpCommand(false)
    .description("Pipelines: what is to run when data lands.");
  for (const add of [addPipelineCreate, addPipelineList, addPipelineInspect, addPipelineDelete]) add(group);
}
