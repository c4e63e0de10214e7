import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError, errorCode, messageOf } from "../lib/fault.ts";
import { controllersFor, flagOf, OOM_FILE, oomKillsIn, settingsFor } from "./cgroup-files.ts";
import { makeAgentGroup, move, removeAgentGroup, removeGroup } from "./cgroup-folders.ts";
import { type CgroupTree, type Controller, cgroupTrees } from "./cgroup-tree.ts";
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
    `${wanted.map(flagOf).join(", ")} can't be enforced on this machine: ${why}. Run the agent as root, or give it a ` +
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
