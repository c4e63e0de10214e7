import type { Dirent } from "node:fs";
import { opendir, readFile } from "node:fs/promises";
import { childPath, type RawPath } from "../../runner/pfs/raw-path.ts";
import type { TestEngine } from "./engines.ts";

/** What is there of a kind that a test must not leave behind, in words that sort and compare. */
export interface Leftovers {
  readonly containers: readonly string[];
  /** Mounts of this machine that lead into the folder. */
  readonly mounts: readonly string[];
  /** Processes with the folder among their arguments, or working in it. */
  readonly processes: readonly string[];
  /** Everything in the folder, with its kind: `d`, `f`, `p` for a pipe, `?` for other things; bytes of names as Latin-1. */
  readonly files: readonly string[];
}

export interface LeftoversOptions {
  readonly folder: string;
  /** Absent: there are no containers to be left. */
  readonly engine?: TestEngine;
}

/** What is there of a test that works in `folder`: nothing, once the test has ended as it should. */
export async function leftovers({ folder, engine }: LeftoversOptions): Promise<Leftovers> {
  const [containers, mounts, processes, files] = await Promise.all([
    engine === undefined ? [] : containersAt(engine, folder),
    mountsIn(folder),
    processesAt(folder),
    filesIn(folder),
  ]);
  return { containers, mounts, processes, files };
}

export const NOTHING: Leftovers = { containers: [], mounts: [], processes: [], files: [] };

/** Containers that show something of the folder: others may be at work in the same engine. */
async function containersAt(engine: TestEngine, folder: string): Promise<string[]> {
  const all = await engine.client.listContainers({ all: true });
  const inspected = await Promise.all(
    all.map(({ Id }) =>
      engine.client
        .getContainer(Id)
        .inspect()
        .catch(() => undefined),
    ),
  );
  const here = inspected.filter((container) =>
    JSON.stringify(container ?? "").includes(JSON.stringify(folder).slice(1, -1)),
  );
  return here.map((container) => `${container?.Name} ${container?.State.Status}`).sort();
}

async function mountsIn(folder: string): Promise<string[]> {
  const lines = (await readFile("/proc/self/mountinfo", "utf8")).split("\n");
  const points = lines.map((line) => unescaped(line.split(" ")[4] ?? ""));
  return points.filter((point) => point === folder || point.startsWith(`${folder}/`)).sort();
}

/** As proc(5) writes blanks and the like. */
function unescaped(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}

async function processesAt(folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name } of await opendir("/proc")) {
    if (!/^[0-9]+$/.test(name) || Number(name) === process.pid) continue;
    const line = await readFile(`/proc/${name}/cmdline`, "utf8").catch(() => "");
    if (line.includes(folder)) found.push(line.replaceAll("\0", " ").trim());
  }
  return found.sort();
}

async function filesIn(folder: string): Promise<string[]> {
  const found: string[] = [];
  const walk = async (path: RawPath, shown: string): Promise<void> => {
    const entries = await opendir(path, { encoding: "latin1" }).catch(() => undefined);
    if (entries === undefined) return;
    for await (const entry of entries) {
      found.push(`${kindOf(entry)} ${shown}${entry.name}`);
      if (entry.isDirectory()) await walk(childPath(path, entry.name), `${shown}${entry.name}/`);
    }
  };
  await walk(folder, "");
  return found.sort();
}

function kindOf(entry: Dirent): string {
  if (entry.isDirectory()) return "d";
  if (entry.isFile()) return "f";
  return entry.isFIFO() ? "p" : "?";
}
