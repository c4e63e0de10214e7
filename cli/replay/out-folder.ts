import { createWriteStream } from "node:fs";
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { errorCode } from "../../runner/lib/fault.ts";
import { type Collected, openPlain } from "../../runner/pfs/collect.ts";
import { permitted } from "../../runner/pfs/raw-path.ts";
import { removeTree } from "../../runner/pfs/remove.ts";
import { UsageError } from "../output/failure.ts";

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
  fill(outputs: readonly Collected[], signal: AbortSignal): Promise<void>;
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
        await put(output, { folder: path, signal });
      }
    },
    async undo() {
      if (found === "empty") {
        for (const name of await readdir(path)) await rm(join(path, name), { recursive: true, force: true });
      } else await removeTree(path);
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

async function put(
  { path, source }: Collected,
  { folder, signal }: { folder: string; signal: AbortSignal },
): Promise<void> {
  const target = join(folder, path);
  if (path.endsWith("/")) return void (await mkdir(target, { recursive: true }));
  await mkdir(dirname(target), { recursive: true });
  const file = await permitted({ path: source, mode: 0o600 }, () => openPlain(source));
  // The stream closes it.
  await pipeline(file.createReadStream(), createWriteStream(target, { flags: "wx" }), { signal });
}
