import { lstat, mkdtemp, readdir, readlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clearLeftovers, findEngines } from "../executors/open-executor.ts";
import { messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";
import { agentName, isAgentAlive, killStrays } from "../pfs/folders.ts";
import { removeTree } from "../pfs/remove.ts";

const PREFIX = "sluice-replay";

/**
 * Makes the folder of one replay, open to nobody else: `<temporary files>/sluice-replay-<processes>-<pid>-<start>-<random>`.
 * Its name says whose it is, since a replay that is killed can't clear up: the next one does, containers included. Process
 * ids mean something only among the processes that share them, so those of other containers are left alone.
 */
export async function makeScratch({ log }: { log: Log }): Promise<string> {
  const space = await processSpace();
  await removeDead(space, log);
  return mkdtemp(join(tmpdir(), `${PREFIX}-${space}-${await agentName()}-`));
}

/** Names the processes that share their ids with this one, such as `4026531836`. */
async function processSpace(): Promise<string> {
  return (await readlink("/proc/self/ns/pid")).replace(/[^0-9]/g, "");
}

async function removeDead(space: string, log: Log): Promise<void> {
  for (const folder of await deadFolders(space)) {
    await clearLeftovers(await findEngines("auto", process.env), { dataDir: folder, log });
    await killStrays(folder);
    await removeTree(folder).catch((error: unknown) =>
      log.warn(
        { folder, reason: messageOf(error) },
        "the folder of a replay that was killed could not be removed",
      ),
    );
  }
}

async function deadFolders(space: string): Promise<string[]> {
  const dead: string[] = [];
  for (const name of await readdir(tmpdir())) {
    const [, owner] = new RegExp(`^${PREFIX}-${space}-([0-9]+-[0-9]+)-`).exec(name) ?? [];
    if (owner === undefined || (await isAgentAlive(owner))) continue;
    const folder = join(tmpdir(), name);
    // Anybody may put a link there, or a folder of his own.
    const found = await lstat(folder).catch(() => undefined);
    if (found?.isDirectory() && found.uid === process.getuid?.()) dead.push(folder);
  }
  return dead;
}
