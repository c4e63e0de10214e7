import { sizeText } from "../../lib/sizes.ts";
import { type Limits, NodeTrouble } from "../executor.ts";
import type { Engine } from "./engine/engine.ts";
import type { Owner } from "./engine/labels.ts";

/** The engine is somewhere else than the agent, or was told other names for its folders. */
export function notSeen({ kind, socket }: Engine, why: string): NodeTrouble {
  return new NodeTrouble(
    `${kind} at ${socket} does not see the runner's data folder as the runner does (${why}): the engine must run on this machine, and in a container the runner needs its data folder mounted at the same path as outside`,
  );
}

/** Why a command could not be started. */
export function noFolder(workingDir: string): string {
  return `the working directory "${workingDir}" is not there or can't be entered`;
}

export function noCommand(name: string): string {
  return `the command "${name}" was not found or can't be executed`;
}

/** Why a command was killed that took too much. */
export function outOfMemory({ memoryBytes }: Limits, { node }: Pick<Owner, "node">): string {
  const bound =
    memoryBytes === undefined
      ? `node ${node} has no more`
      : `it may take ${sizeText(memoryBytes)} (--memory of node ${node})`;
  return `the command ran out of memory: ${bound}`;
}
