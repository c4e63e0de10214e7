import { randomUUID } from "node:crypto";
import { link, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "../../../lib/fault.ts";
import { agentName } from "../../../pfs/folders.ts";

/** The owner of containers and of folders of secrets. */
export interface Owner {
  /** Names the data folder, wherever it is mounted: agents of other folders, perhaps in other containers, use the same engine. */
  readonly data: string;
  /** Names the agent's process. */
  readonly agent: string;
  readonly node: string;
}

/** This process, as the owner of what it makes. `dataDir` is there. */
export async function ownerOf({ dataDir, node }: { dataDir: string; node: string }): Promise<Owner> {
  return { data: await dataFolderId(dataDir), agent: await agentName(), node };
}

/** The name that a data folder was given when it was first used. */
export async function dataFolderId(dataDir: string): Promise<string> {
  const file = join(dataDir, "id");
  const own = `${file}-${randomUUID()}`;
  await writeFile(own, randomUUID());
  try {
    // Whole or not at all, and the first one wins.
    await link(own, file);
  } catch (error) {
    if (errorCode(error) !== "EEXIST") throw error;
  } finally {
    await rm(own);
  }
  return (await readFile(file, "utf8")).trim();
}

export const DATA_LABEL = "sluice.data";
export const AGENT_LABEL = "sluice.agent";

/** The labels of a worker's container. `dir` is its folder on this machine. */
export function labelsOf(
  { data, agent, node }: Owner,
  { pipeline, dir }: { pipeline: string; dir: string },
): Record<string, string> {
  return {
    [DATA_LABEL]: data,
    [AGENT_LABEL]: agent,
    "sluice.node": node,
    "sluice.pipeline": pipeline,
    "sluice.worker-dir": dir,
  };
}
