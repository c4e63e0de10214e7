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
  const kibibytes = all.map((each) =>
    Number(/^Pss:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${each}/smaps_rollup`, "utf8"))?.[1]),
  );
  return kibibytes.reduce((sum, one) => sum + one, 0) / 1024;
}

/** Undefined if the process has ended. */
function parentOf(pid: string): number | undefined {
  try {
    const parent = /^\d+ \(.*\) \S (\d+) /s.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))?.[1];
    return parent === undefined ? undefined : Number(parent);
  } catch {
    return undefined;
  }
}
