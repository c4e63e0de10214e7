import { chmod, mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { lackOf, messageOf } from "../lib/fault.ts";
import { killProcess } from "../lib/system-calls.ts";
import { removeTree } from "./remove.ts";

/**
 * The data folder of a node:
 *
 *   cache/<xx>/<digest>-<size>    contents of inputs, shared and kept
 *   agents/<pid>-<start>/         of one running agent; goes with it
 *     incoming/                   fetches that are not whole yet
 *     pipes/                      named pipes in stock
 *     worker-<n>/                 of one worker: its executor's files, and a folder for each datum at work
 */
export interface AgentFolders {
  readonly cache: string;
  readonly agent: string;
  readonly incoming: string;
  /** Made with the first pipe. */
  readonly pipes: string;
  /** Folders of dead agents that could not be removed, and why. They stay, and harm nobody. */
  readonly left: readonly { readonly folder: string; readonly reason: string }[];
}

/** Makes the folders of this process, and removes those of dead agents, however they died. */
export async function openAgentFolders(dataDir: string): Promise<AgentFolders> {
  const [agents, cache] = [join(dataDir, "agents"), join(dataDir, "cache")];
  for (const folder of [agents, cache]) await makeOwnFolder(folder);
  const left = await removeDead(agents);
  const agent = join(agents, `${await agentName()}-${Date.now().toString(36)}`);
  const incoming = join(agent, "incoming");
  await mkdir(incoming, { recursive: true });
  return { cache, agent, incoming, pipes: join(agent, "pipes"), left };
}

/** Nobody else may look into it, also if the data folder was there and is open to others. */
async function makeOwnFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  await chmod(path, 0o700);
}

export async function closeAgentFolders(folders: AgentFolders): Promise<void> {
  await removeTree(folders.agent);
}

async function removeDead(agents: string): Promise<AgentFolders["left"]> {
  const left: { folder: string; reason: string }[] = [];
  for (const name of await readdir(agents)) {
    if (await isAgentAlive(name)) continue;
    await killStrays(join(agents, name));
    const folder = join(agents, name);
    await removeTree(folder).catch((error: unknown) => left.push({ folder, reason: messageOf(error) }));
  }
  return left;
}

/** Whether the agent with a folder of this name still runs. */
export async function isAgentAlive(name: string): Promise<boolean> {
  const [pid, start] = name.split("-");
  return start !== undefined && (await startOf(Number(pid))) === start;
}

/** Names this process for good. */
export async function agentName(): Promise<string> {
  return `${process.pid}-${await startOf(process.pid)}`;
}

/** When a process started, in ticks since boot: with the pid it names a process for good. Returns undefined if it does not run. */
async function startOf(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch((error: unknown) => {
    // Nothing can be told: it must not be taken for dead.
    if (lackOf(error) === "handles") throw error;
    return undefined;
  });
  // The command's name, field 2, may hold anything; the fields after it start behind the last ")". See proc(5).
  const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields?.[0] === "Z" ? undefined : fields?.[22 - 3];
}

/** Names the present boot of the machine. */
export async function bootId(): Promise<string> {
  return (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
}

/**
 * Kills tools that were to make a jail around a folder of ours, and that nobody waits for any more. A command dies with
 * the process that started it. But if that process is killed in the instant in which a jail is being made, bubblewrap
 * waits for ever, and holds the log open. Only such a tool has the folder among its arguments.
 */
export async function killStrays(folder: string): Promise<void> {
  for (const pid of await readdir("/proc")) {
    if (!/^[0-9]+$/.test(pid)) continue;
    const line = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    const words = line.split("\0");
    if (words.some((word) => word === folder || word.startsWith(`${folder}/`))) killProcess(Number(pid));
  }
}
