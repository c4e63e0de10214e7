import { mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { killStrays } from "../executors/strays.ts";
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
}

/** Makes the folders of this process, and clears away those of agents that are dead, however they died. */
export async function openAgentFolders(dataDir: string): Promise<AgentFolders> {
  const agents = join(dataDir, "agents");
  await mkdir(agents, { recursive: true, mode: 0o700 });
  await removeDead(agents);
  const agent = join(agents, `${process.pid}-${await startOf(process.pid)}-${Date.now().toString(36)}`);
  const incoming = join(agent, "incoming");
  await mkdir(incoming, { recursive: true });
  return { cache: join(dataDir, "cache"), agent, incoming, pipes: join(agent, "pipes") };
}

export async function closeAgentFolders(folders: AgentFolders): Promise<void> {
  await removeTree(folders.agent);
}

async function removeDead(agents: string): Promise<void> {
  for (const name of await readdir(agents)) {
    const [pid, start] = name.split("-");
    if ((await startOf(Number(pid))) === start) continue;
    await killStrays(join(agents, name));
    await removeTree(join(agents, name));
  }
}

/** When a process started, in ticks since boot: with the pid it names a process for good. Undefined where there is none. */
async function startOf(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  // The command's name, field 2, may hold anything; the fields after it start behind the last ")". See proc(5).
  const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields?.[0] === "Z" ? undefined : fields?.[22 - 3];
}

/** Names the present boot of the machine. */
export async function bootId(): Promise<string> {
  return (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
}
