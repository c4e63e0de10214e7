import { readdir, readFile } from "node:fs/promises";

/** Whether a process whose command line holds `mark` is alive on this machine. */
export async function stillRuns(mark: string): Promise<boolean> {
  for (const pid of await readdir("/proc")) {
    if (!/^[0-9]+$/.test(pid)) continue;
    const line = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (line.includes(mark)) return true;
  }
  return false;
}
