import { findTool } from "../lib/system-calls.ts";
import { AgentGroup } from "./agent-group.ts";
import { controllersFor } from "./cgroups.ts";
import { type Limits, outOfMemory } from "./limits.ts";

export interface ConfinementTerms {
  readonly limits: Limits;
  /** This node's name, for reasons. */
  readonly node: string;
  /** The name of the agent's folder: it tells whose control groups are whose. */
  readonly agent: string;
}

/**
 * What holds processes of this machine to the node's limits. The commands of a worker have a launcher of their own,
 * which lives under the worker's limits, and what it starts inherits them: a command costs nothing more, and none
 * of its processes is ever outside.
 */
export interface Confinement {
  /** Folders that commands may not write to: there they could lift their limits. */
  readonly readOnly: readonly string[];
  /** For one worker. */
  confine(): Promise<Confined>;
  close(): Promise<void>;
}

/** How the process is started that starts commands. */
export interface LauncherOptions {
  /** What starts its process instead of Node: a program and words, to which those that start Node are added. */
  readonly through?: readonly [program: string, ...words: string[]];
  /** Is awaited when the process is there, and before it starts anything. */
  readonly enter?: (pid: number) => Promise<void>;
}

export interface Confined {
  /** How its launcher is started. */
  readonly launcher: LauncherOptions;
  /** Why the command that has just failed did so, if a limit is the reason. */
  causeOfFailure(): Promise<string | undefined>;
  close(): Promise<void>;
}

/** Returns undefined if no limit is set. Throws ConfigError if a limit can't be kept on this machine. */
export async function openConfinement(terms: ConfinementTerms): Promise<Confinement | undefined> {
  const { limits } = terms;
  const through = limits.outBytes === undefined ? undefined : await boundedFiles(limits.outBytes);
  const groups = controllersFor(limits).length === 0 ? undefined : await AgentGroup.make(terms);
  if (!through && !groups) return undefined;
  return {
    readOnly: groups?.points ?? [],
    async confine() {
      const group = await groups?.worker();
      return {
        launcher: { ...(through && { through }), ...(group && { enter: (pid) => group.enter(pid) }) },
        causeOfFailure: async () =>
          (await group?.ranOutOfMemory()) ? outOfMemory(limits, terms) : undefined,
        close: async () => group?.remove(),
      };
    },
    close: async () => groups?.remove(),
  };
}

// The unit of POSIX's ulimit.
const ULIMIT_BYTES = 512;
/** Tools that make a jail write small files as well, such as secrets. */
const LEAST_FILE_BYTES = 16 * 1024 ** 2;

/** A shell that starts a program under a limit for the size of each file that it writes, which stops at once what the watch over `/pfs/out` sees a little later. */
async function boundedFiles(outBytes: number): Promise<LauncherOptions["through"]> {
  const sh = await findTool("sh");
  if (!sh) return undefined;
  const blocks = Math.ceil(Math.max(outBytes, LEAST_FILE_BYTES) / ULIMIT_BYTES);
  // A lower limit that holds already stays.
  return [sh, "-c", `ulimit -f ${blocks} 2>/dev/null; exec "$@"`, "sh"];
}
