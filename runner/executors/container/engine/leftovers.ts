import { isAgentAlive } from "../../../pfs/folders.ts";
import { openOutputs } from "../outputs.ts";
import { removeContainer } from "./disposal.ts";
import { ask, asTrouble, type Engine } from "./engine.ts";
import { AGENT_LABEL, DATA_LABEL, type Owner } from "./labels.ts";

/**
 * Removes the containers that dead agents of this data folder left. Before their folders are removed: they may still
 * be writing to them. Throws NodeTrouble.
 */
export async function removeLeftovers(engine: Engine, { data }: Pick<Owner, "data">): Promise<void> {
  for (const { Id, Labels } of await containersOf(engine, data)) {
    if (await isAgentAlive(Labels[AGENT_LABEL] ?? "")) continue;
    await openOutputs(engine, Id);
    await removeContainer(engine, Id);
  }
}

async function containersOf(engine: Engine, data: string) {
  const filters = { label: [`${DATA_LABEL}=${data}`] };
  try {
    return await ask(engine, () => engine.docker.listContainers({ all: true, filters }));
  } catch (error) {
    throw asTrouble(error, engine);
  }
}
