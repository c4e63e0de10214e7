import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "../lib/fault.ts";
import { OOM_FILE, oomKillsIn, settingsFor } from "./cgroup-files.ts";
import { move, removeGroup } from "./cgroup-folders.ts";
import type { Controller } from "./cgroup-tree.ts";
import type { Limits } from "./limits.ts";

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
