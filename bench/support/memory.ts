import { readdirSync, readFileSync } from "node:fs";

/** Resident memory of a process in MiB: now (`VmRSS`), or the most it ever had (`VmHWM`). Linux only. */
export function residentMiB(pid: number, which: "VmRSS" | "VmHWM"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const kibibytes = new RegExp(`^${which}:\\s+(\\d+) kB$`, "m").exec(status)?.[1];
  if (kibibytes === undefined) throw new Error(`process ${pid} tells no ${which}`);
  return Number(kibibytes) / 1024;
}

/**
 * Memory in MiB of a process and all that it started, and those in turn: the sum of their PSS, in which a page that several
 * processes share is divided among them. Linux only.
 */
export function proportionalMiB(pid: number): number {
  const children = new Map<number, number[]>();
  for (const name of readdirSync("/proc")) {
    const parent = /^\d+$/.test(name) ? parentOf(name) : undefined;
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const all = [pid];
  for (const each of all) all.push(...(children.get(each) ?? []));
  // A process that has ended meanwhile has none.
  const kibibytes = all.map((each) =>
    Number(/^Pss:\s+(\d+) kB$/m.exec(readIfThere(`/proc/${each}/smaps_rollup`))?.[1] ?? 0),
  );
  return kibibytes.reduce((sum, one) => sum + one, 0) / 1024;
}

/** Undefined if the process has ended. */
function parentOf(pid: string): number | undefined {
  const parent = /^\d+ \(.*\) \S (\d+) /s.exec(readIfThere(`/proc/${pid}/stat`))?.[1];
  return parent === undefined ? undefined : Number(parent);
}

/** A process may end at any time, also while it is read of. */
function readIfThere(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
