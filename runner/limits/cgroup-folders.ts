import { mkdir, readdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { errorCode } from "../lib/fault.ts";
import { isThere, killProcess } from "../lib/system-calls.ts";
import { isAgentAlive } from "../pfs/folders.ts";
import type { CgroupTree, Controller } from "./cgroup-tree.ts";

/** Each agent's group is called this and its own name. */
const PREFIX = "sluice-";
/** A version 2 group whose children are bounded may hold no processes: those that were there go into this one. */
const LEAF = "sluice.main";

export interface AgentGroupOptions {
  readonly controllers: readonly Controller[];
  /** The name of the agent's folder. */
  readonly agent: string;
}

/** Makes the agent's group inside the group that the agent is in, and clears away those of agents that are dead. */
export async function makeAgentGroup(
  tree: CgroupTree,
  { controllers, agent }: AgentGroupOptions,
): Promise<string> {
  const base = baseOf(tree);
  await removeDead(base);
  if (tree.version === 2) await makeInner(base, controllers);
  const group = join(base, `${PREFIX}${agent}`);
  await mkdir(group);
  if (tree.version === 2) await enable(group, controllers);
  return group;
}

/** Removes the agent's group. The last agent leaves everything as the first one found it. */
export async function removeAgentGroup(
  tree: CgroupTree,
  { controllers, agent }: AgentGroupOptions,
): Promise<void> {
  const base = baseOf(tree);
  await removeGroup(join(base, `${PREFIX}${agent}`));
  const others = (await readdir(base)).some((name) => name.startsWith(PREFIX));
  if (tree.version === 1 || others || !(await isThere(join(base, LEAF)))) return;
  // Another agent that starts meanwhile finds it either way.
  await undoInner(base, controllers).catch(() => undefined);
}

async function undoInner(base: string, controllers: readonly Controller[]): Promise<void> {
  await writeFile(join(base, SUBTREE), controllers.map((name) => `-${name}`).join(" "));
  await moveAll(join(base, LEAF), base);
  await removeGroup(join(base, LEAF));
}

function baseOf({ own }: CgroupTree): string {
  return basename(own) === LEAF ? dirname(own) : own;
}

const SUBTREE = "cgroup.subtree_control";
const PROCESSES = "cgroup.procs";

/** Makes it a group whose children can be bounded. The root of all may hold processes all the same: it alone has no type. */
async function makeInner(base: string, controllers: readonly Controller[]): Promise<void> {
  const enabled = (await readFile(join(base, SUBTREE), "utf8")).split(/\s+/);
  if (controllers.every((name) => enabled.includes(name))) return;
  if (await isThere(join(base, "cgroup.type"))) {
    await mkdir(join(base, LEAF), { recursive: true });
    await moveAll(base, join(base, LEAF));
  }
  await enable(base, controllers);
}

function enable(group: string, controllers: readonly Controller[]): Promise<void> {
  return writeFile(join(group, SUBTREE), controllers.map((name) => `+${name}`).join(" "));
}

// A process that is moved may have made another one just before.
const MAX_ROUNDS = 5;

async function moveAll(from: string, to: string): Promise<void> {
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const pids = await processesOf(from);
    if (pids.length === 0) return;
    for (const pid of pids) await move(pid, to);
  }
}

/** Puts a process into a group, with all its threads and what it starts from then on. Does nothing if it has ended. */
export async function move(pid: number, group: string): Promise<void> {
  try {
    await writeFile(join(group, PROCESSES), String(pid));
  } catch (error) {
    if (errorCode(error) !== "ESRCH") throw error;
  }
}

async function processesOf(group: string): Promise<number[]> {
  const text = await readFile(join(group, PROCESSES), "utf8").catch(() => "");
  return (
    text
      .split("\n")
      .map(Number)
      // Nothing at the end, and 0 for a process of another pid namespace.
      .filter((pid) => pid > 0)
  );
}

async function removeDead(base: string): Promise<void> {
  for (const name of await readdir(base)) {
    if (!name.startsWith(PREFIX) || (await isAgentAlive(name.slice(PREFIX.length)))) continue;
    // Another agent that starts may be clearing it away as well.
    await removeGroup(join(base, name)).catch(() => undefined);
  }
}

const MAX_TRIES = 40;
const TRY_AGAIN_MS = 25;

/** Removes a group and those in it, and kills what still runs there. Does nothing if it is gone. */
export async function removeGroup(group: string): Promise<void> {
  const entries = await readdir(group, { withFileTypes: true }).catch(() => []);
  for (const entry of entries) if (entry.isDirectory()) await removeGroup(join(group, entry.name));
  for (let left = MAX_TRIES; ; left -= 1) {
    try {
      return await rmdir(group);
    } catch (error) {
      if (errorCode(error) === "ENOENT") return;
      if (left === 0 || errorCode(error) !== "EBUSY") throw error;
    }
    for (const pid of await processesOf(group)) killProcess(pid);
    await delay(TRY_AGAIN_MS);
  }
}
