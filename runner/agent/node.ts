import { mkdir, realpath } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { Cache, type CacheOptions } from "../cache/cache.ts";
import { ErasedPlaceFile } from "../cache/erasures.ts";
import type { Detected } from "../executors/detect.ts";
import type { ExecutorSettings } from "../executors/executor.ts";
import { clearLeftovers, findEngines, openExecutor } from "../executors/open-executor.ts";
import { pathsToHide } from "../executors/process/machine.ts";
import type { Log } from "../lib/log.ts";
import {
  type AgentFolders,
  bootId,
  closeAgentFolders,
  isAgentAlive,
  openAgentFolders,
} from "../pfs/folders.ts";
import { checkSecretsFolder, secretsFolder } from "../secrets/open.ts";
import type { RunnerConfig } from "./config.ts";

/** What of a runner's settings is about its machine. */
export type NodeConfig = ExecutorSettings & Pick<RunnerConfig, "secrets">;

/** What this process has of its machine: folders of its own, and a way to run commands. */
export interface OpenedNode extends Detected {
  /** Absolute, and without links on the way. */
  readonly dataDir: string;
  readonly folders: AgentFolders;
  /** A cache in the node's data folder. `erased`: whether heartbeats tell it what was erased, or it goes with its folder. */
  openCache(
    options: Pick<CacheOptions, "gateway" | "maxBytes" | "log" | "kill"> & { erased: "told" | "untold" },
  ): Promise<Cache>;
  /** Lets go of everything. Sandboxes are to be closed before. `breakOff` ends what may still write to the folders: fetches. */
  close(breakOff?: () => Promise<void>): Promise<void>;
}

/**
 * Makes folders on this machine and finds out how commands are run here. What dead processes left in the data folder goes
 * first. Throws NoExecutorError if commands can't be run here, and ConfigError if limits can't be kept or the folder of
 * secrets can't be one.
 */
export async function openNode(config: NodeConfig, { log }: { log: Log }): Promise<OpenedNode> {
  await mkdir(config.dataDir, { recursive: true, mode: 0o700 });
  const dataDir = await realpath(config.dataDir);
  await checkSecretsFolder(secretsFolder(config.secrets), dataDir);
  const engines = await findEngines(config.executor, process.env);
  await clearLeftovers(engines, { dataDir, log });
  const folders = await openAgentFolders(dataDir);
  for (const left of folders.left) log.warn(left, "the folder of a dead agent could not be removed");
  const hidden = pathsToHide({ ...config, dataDir }, process.env);
  const terms = { ...config, dataDir, hidden, agentDir: folders.agent, log };
  const detected = await openExecutor(engines, terms).catch(async (error: unknown) => {
    await closeAgentFolders(folders);
    throw error;
  });
  return {
    ...detected,
    dataDir,
    folders,
    async openCache({ erased, ...options }) {
      const { cache: dir, incoming, agent } = folders;
      const place = { dir, agent: basename(agent), isAlive: isAgentAlive };
      return new Cache({
        ...{ ...options, dir, incoming, agents: dirname(agent), boot: await bootId() },
        erased: erased === "told" ? await ErasedPlaceFile.open(place) : null,
      });
    },
    async close(breakOff) {
      await detected.executor.close();
      await breakOff?.();
      await closeAgentFolders(folders);
    },
  };
}
