import { sizeText } from "../lib/sizes.ts";

/** What the commands of one worker may take of the machine; absent: as much as there is. */
export interface Limits {
  readonly memoryBytes?: number;
  /** Cores, such as 1.5. */
  readonly cpus?: number;
  /** Processes and threads at a time. */
  readonly pids?: number;
  /** Bytes that a datum may have in `/pfs/out`. */
  readonly outBytes?: number;
}

/** Why a command was killed that took too much memory. */
export function outOfMemory({ memoryBytes }: Limits, { node }: { readonly node: string }): string {
  const bound =
    memoryBytes === undefined
      ? `node ${node} has no more`
      : `it may take ${sizeText(memoryBytes)} (--memory of node ${node})`;
  return `the command ran out of memory: ${bound}`;
}
