import type { Command } from "commander";
import { addNodeDrain } from "./drain.ts";
import { addNodeList } from "./list.ts";
import { addNodeResume } from "./resume.ts";

/** `sluice node …` */
export function addNode(program: Command): void {
  const group = program
    .command("node")
    .summary("list, drain, resume the nodes that run datums")
    .helpCommand(false)
    .description("Nodes: machines on which 'sluice runner' is at work.");
  for (const add of [addNodeList, addNodeDrain, addNodeResume]) add(group);
}
