import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { errorCode } from "../../runner/lib/fault.ts";
import { putOutput, type ReplayOptions } from "../../runner/replay/replay.ts";
import { UsageError } from "../output/failure.ts";

type Outputs = Parameters<ReplayOptions["onOutputs"]>[0];

export interface OutFolderOptions {
  /** As the user named it; absent: a fresh one among the temporary files. */
  readonly given: string | undefined;
  /** The datum's id, for the name of a fresh one. */
  readonly datum: string;
}

/** The folder that shows a person what a datum made. */
export interface OutFolder {
  /** Absolute. */
  readonly path: string;
  /** Puts what is in `/pfs/out` there, as plain files of the user. */
  fill(outputs: Outputs, signal: AbortSignal): Promise<void>;
  /** Leaves it as it was found. */
  undo(): Promise<void>;
}

/** Digits of a datum's id that tell it from others, for people. */
const SHOWN_DIGITS = 12;

/** Throws UsageError if the folder that was named is none, or has something in it: what is there could pass for an output. */
export async function openOutFolder({ given, datum }: OutFolderOptions): Promise<OutFolder> {
  const found = given === undefined ? "fresh" : await stateOf(given);
  const path =
    given === undefined
      ? await mkdtemp(join(tmpdir(), `sluice-out-${datum.slice(0, SHOWN_DIGITS)}-`))
      : resolve(given);
  if (found === "absent") await mkdir(path, { recursive: true });
  return {
    path,
    fill: async (outputs, signal) => {
      for (const output of outputs) {
        signal.throwIfAborted();
        await putOutput(output, { folder: path, signal });
      }
    },
    async undo() {
      if (found === "empty") {
        for (const name of await readdir(path)) await rm(join(path, name), { recursive: true, force: true });
      } else await rm(path, { recursive: true, force: true });
    },
  };
}

async function stateOf(given: string): Promise<"absent" | "empty"> {
  try {
    const [first] = await readdir(given);
    if (first === undefined) return "empty";
    throw new UsageError(
      `--out is "${given}", which is not empty (it holds "${first}"): name a folder that is empty or not there yet`,
    );
  } catch (error) {
    if (errorCode(error) === "ENOENT") return "absent";
    if (error instanceof UsageError) throw error;
    throw new UsageError(`--out is "${given}", which can't be a folder of outputs (${errorCode(error)})`);
  }
}
