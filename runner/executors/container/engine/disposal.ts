import { randomUUID } from "node:crypto";
import { link, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { errorCode } from "../../../lib/fault.ts";
import { agentName, isAgentAlive } from "../../../pfs/folders.ts";
import { NodeCondition } from "../../executor.ts";
import { asCondition, ask, type Engine, EngineRefusal, mustAsk } from "./engine.ts";

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
const AGENT_LABEL = "sluice.agent";

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

const GONE = 404;
const REMOVED_WITHIN_MS = 15_000;
const ASK_AGAIN_MS = 100;

/**
 * Removes containers, and remembers those that it could not remove because the engine was away. It takes names, because
 * an engine may make a container and lose its answer.
 */
export class Disposal {
  readonly #engine: Engine;
  readonly #owed = new Set<string>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Removes a container, running or not. Throws NodeCondition; it is then tried again with each `sweep`. */
  async remove(name: string): Promise<void> {
    this.#owed.add(name);
    await removeContainer(this.#engine, name);
    this.#owed.delete(name);
  }

  /** Removes what is owed, as far as that can be done now. */
  async sweep(): Promise<void> {
    for (const name of this.#owed) {
      await this.remove(name).catch((error: unknown) => {
        if (!(error instanceof NodeCondition)) throw error;
      });
    }
  }
}

/**
 * Removes a container if it is there. When this returns, none of its processes is left. Throws NodeCondition. Tries again
 * after a refusal: engines refuse to remove what is just ending, or what they are removing already.
 */
async function removeContainer(engine: Engine, name: string): Promise<void> {
  const container = engine.docker.getContainer(name);
  const began = performance.now();
  for (;;) {
    try {
      await ask(engine, () => container.remove({ force: true, v: true }));
      return;
    } catch (error) {
      if (error instanceof EngineRefusal && error.status === GONE) return;
      const late = performance.now() - began > REMOVED_WITHIN_MS;
      if (late || !(error instanceof EngineRefusal)) throw asCondition(error, engine);
    }
    await delay(ASK_AGAIN_MS);
  }
}

/**
 * Removes the containers that dead agents of this data folder left. Before their folders are removed: they may still
 * be writing to them. Throws NodeCondition.
 */
export async function removeLeftovers(engine: Engine, { data }: Pick<Owner, "data">): Promise<void> {
  const filters = { label: [`${DATA_LABEL}=${data}`] };
  const list = () => engine.docker.listContainers({ all: true, filters });
  for (const { Id, Labels } of await mustAsk(engine, list)) {
    if (await isAgentAlive(Labels[AGENT_LABEL] ?? "")) continue;
    await openOutputs(engine, Id);
    await removeContainer(engine, Id);
  }
}

const ASK_EVERY_MS = 25;

/** Whether this process may read and remove the files of any user. */
export function seesAllFiles(): boolean {
  return process.getuid?.() === 0;
}

/**
 * Makes what a command left in `/pfs/out` accessible to an agent that is another user, if the container's init did
 * not come to it. If that fails, reading or removing the files will say so.
 */
export async function openOutputs(engine: Engine, id: string): Promise<void> {
  if (seesAllFiles()) return;
  const container = engine.docker.getContainer(id);
  const Cmd = ["chmod", "-R", "a+rwX", "/pfs/out"];
  try {
    await ask(engine, () => container.kill()).catch(unlessRefused);
    // The started container stays alive: its init waits for orders that nobody gives.
    await ask(engine, () => container.start());
    // As the container's own user, whose files they are: without privileges, root could not touch them.
    const exec = await ask(engine, () => container.exec({ Cmd }));
    const answer = await ask(engine, () => exec.start({ Detach: true }));
    answer.resume();
    while ((await ask(engine, () => exec.inspect())).Running) await delay(ASK_EVERY_MS);
  } catch (error) {
    if (!(error instanceof EngineRefusal)) throw asCondition(error, engine);
  }
}

/** The container may have ended before it is killed. */
function unlessRefused(error: unknown): void {
  if (!(error instanceof EngineRefusal)) throw error;
}
