import { readdirSync, readFileSync } from "node:fs";
import { test } from "vitest";
import { findTool } from "../../runner/lib/system-calls.ts";
import { mustRun } from "./processes.ts";

const found = await findTool("prlimit");
/** The tool that does it. */
export const prlimit = found ?? "prlimit";

/** A test that sets how many file handles other processes may have; skipped where that can't be. */
export const needsPrlimit = test.skipIf(found === undefined || process.platform !== "linux");

/** How many file handles a process has. */
export function handlesOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** How many it may have. */
export function mostHandles(pid: number): number {
  return Number(/^Max open files +(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, "utf8"))?.[1]);
}

/** Lets a process have so many file handles from now on. Those that it has stay, if they are more. */
export async function limitHandles(pid: number, most: number): Promise<void> {
  await mustRun([prlimit, "--pid", String(pid), `--nofile=${most}:`]);
}

/** The process that started another one. */
export function parentOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
}

/** The processes that one has started, and that run. */
export function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
}
