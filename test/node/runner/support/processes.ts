import { readdir, readFile } from "node:fs/promises";

/** Whether a process whose command line holds `mark` is alive on this machine. */
export async function stillRuns(mark: string): Promise<boolean> {
  return (await pidsOf(mark)).length > 0;
}

/** How many processes whose command lines hold `mark` are alive on this machine. */
export async function countOf(mark: string): Promise<number> {
  return (await pidsOf(mark)).length;
}

/** The children of this process whose command line holds `mark`. */
export async function childrenOf(mark: string): Promise<number[]> {
  const pids = await pidsOf(mark);
  const parents = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/status`, "utf8").catch(() => "")),
  );
  return pids.filter((_, index) => new RegExp(`^PPid:\\s+${process.pid}$`, "m").test(parents[index] ?? ""));
}

async function pidsOf(mark: string): Promise<number[]> {
  const found: number[] = [];
  for (const pid of await readdir("/proc")) {
    if (!/^[0-9]+$/.test(pid)) continue;
    const line = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (line.includes(mark)) found.push(Number(pid));
  }
  return found;
}
