import { mkdir, readdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { ConfigError, errorCode, messageOf } from "../lib/fault.ts";
import { isThere, killProcess } from "../lib/system-calls.ts";
import { isAgentAlive } from "../pfs/folders.ts";
import {
  type CgroupTree,
  type Controller,
  cgroupTrees,
  controllersFor,
  FLAG_OF,
  OOM_FILE,
  oomKillsIn,
  settingsFor,
} from "./cgroups.ts";
import type { Limits } from "./limits.ts";

/** A hierarchy, and which of the limits are kept there. */
interface Kept {
  readonly tree: CgroupTree;
  readonly controllers: readonly Controller[];
}

/** The control groups of one agent, with one in them for each worker. */
export class AgentGroup {
  readonly #limits: Limits;
  readonly #agent: string;
  readonly #kept: readonly (Kept & { readonly folder: string })[];
  #workers = 0;

  private constructor(
    kept: readonly (Kept & { folder: string })[],
    { limits, agent }: { limits: Limits; agent: string },
  ) {
    this.#kept = kept;
    this.#limits = limits;
    this.#agent = agent;
  }

  /** Makes them inside the groups of this process. `agent` is the name of the agent's folder. Throws ConfigError if a limit can't be kept here. */
  static async make({ limits, agent }: { limits: Limits; agent: string }): Promise<AgentGroup> {
    const wanted = controllersFor(limits);
    const kept = await placesFor(wanted);
    const made: (Kept & { folder: string })[] = [];
    try {
      for (const { tree, controllers } of kept) {
        made.push({ tree, controllers, folder: await makeAgentGroup(tree, { controllers, agent }) });
      }
      return new AgentGroup(made, { limits, agent });
    } catch (error) {
      for (const { tree, controllers } of made) await removeAgentGroup(tree, { controllers, agent });
      throw cannot(wanted, messageOf(error));
    }
  }

  /** Mount points of the hierarchies: a process that could write there could leave its groups. */
  get points(): string[] {
    return this.#kept.flatMap(({ tree }) => tree.points);
  }

  /** Makes those of one more worker. */
  worker(): Promise<WorkerGroup> {
    this.#workers += 1;
    const name = `worker-${this.#workers}`;
    const places = this.#kept.map(({ tree, controllers, folder }) => ({
      ...{ version: tree.version, controllers, folder: join(folder, name) },
    }));
    return WorkerGroup.make(places, this.#limits);
  }

  /** Removes them all. */
  async remove(): Promise<void> {
    const agent = this.#agent;
    for (const { tree, controllers } of this.#kept) await removeAgentGroup(tree, { controllers, agent });
  }
}

/** The hierarchies that have these controllers. */
async function placesFor(wanted: readonly Controller[]): Promise<Kept[]> {
  const [cgroup, mountinfo] = await Promise.all(
    ["/proc/self/cgroup", "/proc/self/mountinfo"].map((path) => readFile(path, "utf8").catch(() => "")),
  );
  const trees = await Promise.all(
    cgroupTrees({ cgroup: cgroup ?? "", mountinfo: mountinfo ?? "" }).map(async (tree) => ({
      ...{ tree, has: await controllersOf(tree) },
    })),
  );
  const treeOf = (name: Controller) => trees.find(({ has }) => has.includes(name))?.tree;
  const missing = wanted.filter((name) => treeOf(name) === undefined);
  if (missing.length > 0) throw cannot(missing, "the agent is in no control group that can bound this");
  return trees
    .map(({ tree }) => ({ tree, controllers: wanted.filter((name) => treeOf(name) === tree) }))
    .filter(({ controllers }) => controllers.length > 0);
}

async function controllersOf({ version, own, controllers }: CgroupTree): Promise<readonly string[]> {
  if (version === 1) return controllers;
  const text = await readFile(join(own, "cgroup.controllers"), "utf8").catch(() => "");
  return text.trim().split(/\s+/);
}

function cannot(wanted: readonly Controller[], why: string): ConfigError {
  return new ConfigError(
    `${wanted.map((name) => FLAG_OF[name]).join(", ")} can't be enforced on this machine: ${why}. Run the agent as root, or give it a ` +
      "control group of its own (in a systemd unit: Delegate=yes), or take --executor docker",
  );
}

/** A group in one hierarchy, and which of the limits are kept there. */
export interface GroupPlace {
  readonly version: 1 | 2;
  readonly folder: string;
  readonly controllers: readonly Controller[];
}

// The jail's tool itself has so many processes in the group.
const TOOL_PROCESSES = 3;

/** The control groups that hold the commands of one worker: one in each hierarchy. */
export class WorkerGroup {
  readonly #places: readonly GroupPlace[];
  readonly #limits: Limits;
  #oomKills = 0;

  private constructor(places: readonly GroupPlace[], limits: Limits) {
    this.#places = places;
    this.#limits = limits;
  }

  /** Makes them. */
  static async make(places: readonly GroupPlace[], limits: Limits): Promise<WorkerGroup> {
    for (const place of places) {
      await mkdir(place.folder);
      for (const setting of settingsFor(place.version, limitsOf(place, limits))) {
        await writeFile(join(place.folder, setting.file), setting.value, { flag: "r+" }).catch((error) => {
          if (setting.need === "required" || errorCode(error) !== "ENOENT") throw error;
        });
      }
    }
    return new WorkerGroup(places, limits);
  }

  /**
   * Puts the process into them that starts the commands. It takes nothing from the limits: its threads are allowed for,
   * and its memory stays charged to the group in which it was before.
   */
  async enter(pid: number): Promise<void> {
    for (const { folder } of this.#places) await move(pid, folder);
    const { pids } = this.#limits;
    const place = this.#place("pids");
    if (pids === undefined || !place) return;
    const own = Number(await readFile(join(place.folder, "pids.current"), "utf8"));
    await writeFile(join(place.folder, "pids.max"), String(pids + own + TOOL_PROCESSES), { flag: "r+" });
  }

  /** Whether a process was killed for want of memory since this was asked last. */
  async ranOutOfMemory(): Promise<boolean> {
    const place = this.#place("memory");
    if (!place) return false;
    const kills = oomKillsIn(await readFile(join(place.folder, OOM_FILE[place.version]), "utf8"));
    const more = kills > this.#oomKills;
    this.#oomKills = kills;
    return more;
  }

  /** Removes them, and ends what still runs there. */
  async remove(): Promise<void> {
    for (const { folder } of this.#places) await removeGroup(folder);
  }

  #place(controller: Controller): GroupPlace | undefined {
    return this.#places.find(({ controllers }) => controllers.includes(controller));
  }
}

function limitsOf({ controllers }: GroupPlace, { memoryBytes, cpus }: Limits): Limits {
  return {
    ...(controllers.includes("memory") && memoryBytes !== undefined && { memoryBytes }),
    ...(controllers.includes("cpu") && cpus !== undefined && { cpus }),
  };
}

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
async function removeAgentGroup(tree: CgroupTree, { controllers, agent }: AgentGroupOptions): Promise<void> {
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
async function move(pid: number, group: string): Promise<void> {
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
