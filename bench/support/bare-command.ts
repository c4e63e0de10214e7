import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findBubblewrap, findUnshare } from "../../runner/executors/detect.ts";
import type { Jail, Launch } from "../../runner/executors/process/jail.ts";
import { readRootEntries } from "../../runner/executors/process/machine.ts";
import { removeScratch, scratchFolder } from "../../test/support/scratch.ts";
import type { TextFile } from "./bulk-commit.ts";

export interface CommandToRun {
  readonly cmd: readonly string[];
  /** Lines, as in a pipeline's transform. */
  readonly stdin?: readonly string[];
  /** What is in `/pfs/in`. */
  readonly input: TextFile;
}

/** A pipeline's command without the pipeline: what the machine itself takes for it. */
export interface BareCommand {
  /** The tool around the command: the one that the process executor takes. */
  readonly tool: string;
  /** Runs it once. Returns milliseconds from before the start until after its end. */
  run(): Promise<number>;
  remove(): void;
}

/** Lays out a `/pfs` and finds the tool; the mounts are those that a datum gets. */
export async function bareCommand({ cmd, stdin = [], input }: CommandToRun): Promise<BareCommand> {
  const dir = scratchFolder();
  const pfs = join(dir, "pfs");
  for (const folder of ["in", "out", join("in", input.path, "..")])
    mkdirSync(join(pfs, folder), { recursive: true });
  writeFileSync(join(pfs, "in", input.path), input.text);
  const stdinFile = join(dir, "stdin");
  writeFileSync(stdinFile, stdin.map((line) => `${line}\n`).join(""));

  const jail = await findJail(dir);
  const place = { dir, readOnly: [] };
  await jail.prepare(place);
  const env = { PATH: process.env.PATH ?? "/usr/bin:/bin" };
  const launch = await jail.launch({
    ...place,
    pfs,
    cmd,
    env,
    hidden: { folders: [jail.dataDir], files: [] },
    devices: { folders: [], files: [] },
    secrets: { opened: [], folders: [] },
  });
  return { tool: jail.tool, run: () => timeOf(launch, stdinFile), remove: () => removeScratch(dir) };
}

async function findJail(dir: string): Promise<Jail> {
  const hidden = join(dir, "hidden");
  mkdirSync(hidden);
  const options = { root: await readRootEntries(), dataDir: hidden };
  for (const find of [findBubblewrap, findUnshare]) {
    const found = await find(options);
    if (typeof found !== "string") return found;
  }
  throw new Error("neither bubblewrap nor unshare is here");
}

function timeOf({ file, args, env }: Launch, stdinFile: string): Promise<number> {
  const startedAt = performance.now();
  const stdin = openSync(stdinFile, "r");
  const nowhere = openSync("/dev/null", "w");
  // The tool reports to the fourth.
  const child = spawn(file, [...args], { env: { ...env }, stdio: [stdin, nowhere, "inherit", nowhere] });
  closeSync(stdin);
  closeSync(nowhere);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) => {
      if (code === 0) resolve(performance.now() - startedAt);
      else reject(new Error(`the bare command ended with ${code ?? signal}`));
    });
  });
}
