import { readFileSync } from "node:fs";

/** Resident memory of a process in MiB: now (`VmRSS`), or the most it ever had (`VmHWM`). Linux only. */
export function residentMiB(pid: number, which: "VmRSS" | "VmHWM"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const kibibytes = new RegExp(`^${which}:\\s+(\\d+) kB$`, "m").exec(status)?.[1];
  if (kibibytes === undefined) throw new Error(`process ${pid} tells no ${which}`);
  return Number(kibibytes) / 1024;
}
