import type { Limits } from "../../limits/limits.ts";
import type { Executor, PrepareRequest, Sandbox } from "../executor.ts";
import { Disposal } from "./engine/disposal.ts";
import { ask, asTrouble, type Engine } from "./engine/engine.ts";
import { ownerOf } from "./engine/labels.ts";
import { ensureImage } from "./images/ensure-image.ts";
import { PrivateImages } from "./images/private-images.ts";
import { ToldImages } from "./images/told-image.ts";
import { type AgentEngine, isRoot } from "./make-container.ts";
import { ContainerSandbox } from "./sandbox.ts";

export interface ContainerExecutorOptions {
  readonly engine: Engine;
  /** The node's data folder, which must be there. Leftovers of its dead agents are found by it. */
  readonly dataDir: string;
  /** This node's name. */
  readonly node: string;
  readonly limits: Limits;
  /** As the engine names it. Absent: its default. */
  readonly network?: string | undefined;
}

/** Runs commands in containers of an engine, in the image that the pipeline names. */
export async function containerExecutor({
  engine,
  dataDir,
  node,
  limits,
  network,
}: ContainerExecutorOptions): Promise<Executor> {
  const owner = await ownerOf({ dataDir, node });
  const disposal = new Disposal(engine);
  const privates = new PrivateImages(dataDir);
  const told = new ToldImages(engine);
  const agentEngine: AgentEngine = { engine, owner, limits, network, privates, told, disposal };
  return {
    name: engine.kind,
    prepare: (request) => prepare(agentEngine, request),
    // The next agent removes what can't be removed because the engine is away.
    close: () => disposal.sweep(),
  };
}

async function prepare(
  agentEngine: AgentEngine,
  { dir, image, pipeline, pullSecrets, signal }: PrepareRequest,
): Promise<Sandbox> {
  const { engine, privates } = agentEngine;
  const id = await ensureImage(engine, { image, pullSecrets, privates, signal });
  const user = await userOf(engine, id);
  const reader = isRoot(user) && !engine.remapped ? "root" : "anybody";
  return new ContainerSandbox(agentEngine, { worker: { dir, image, pipeline, pullSecrets, user }, reader });
}

async function userOf(engine: Engine, image: string): Promise<string> {
  try {
    const { Config } = await ask(engine, () => engine.docker.getImage(image).inspect());
    return Config.User ?? "";
  } catch (error) {
    throw asTrouble(error, engine);
  }
}
