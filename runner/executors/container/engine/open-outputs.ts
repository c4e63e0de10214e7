import { setTimeout as delay } from "node:timers/promises";
import { asCondition, ask, type Engine, EngineRefusal } from "./engine.ts";

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
