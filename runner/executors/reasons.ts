import { sizeText } from "../lib/sizes.ts";
import type { Limits } from "./executor.ts";

/** Why a command could not be started. */
export function noFolder(workingDir: string): string {
  return `the working directory "${workingDir}" is not there or can't be entered`;
}

export function noCommand(name: string): string {
  return `the command "${name}" was not found or can't be executed`;
}

/** Why a command was killed that took too much memory. */
export function outOfMemory({ memoryBytes }: Limits, { node }: { readonly node: string }): string {
  const bound =
    memoryBytes === undefined
      ? `node ${node} has no more`
      : `it may take ${sizeText(memoryBytes)} (--memory of node ${node})`;
  return `the command ran out of memory: ${bound}`;
}
