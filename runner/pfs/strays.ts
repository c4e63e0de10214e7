import { readdir, readFile } from "node:fs/promises";
import { errorCode } from "../lib/fault.ts";

/**
 * Kills tools that were to make a jail around a folder of ours, and that nobody waits for any more. A command dies with
 * the process that started it. But if that process is killed in the instant in which a jail is being made, bubblewrap
 * waits for ever, and holds the log open. Only such a tool has the folder among its arguments.
 */
export async function killStrays(folder: string): Promise<void> {
  for (const pid of await readdir("/proc")) {
    if (!/^[0-9]+$/.test(pid)) continue;
    const line = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    const words = line.split("\0");
    if (words.some((word) => word === folder || word.startsWith(`${folder}/`))) kill(Number(pid));
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    // It is gone meanwhile, or belongs to another user.
    if (!["ESRCH", "EPERM"].includes(errorCode(error) ?? "")) throw error;
  }
}
