import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError, messageOf } from "../lib/fault.ts";
import { controllersFor, flagOf } from "./cgroup-files.ts";
import { makeAgentGroup, removeAgentGroup } from "./cgroup-folders.ts";
import { type CgroupTree, type Controller, cgroupTrees } from "./cgroup-tree.ts";
import type { Limits } from "./limits.ts";
import { WorkerGroup } from "./worker-group.ts";

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
