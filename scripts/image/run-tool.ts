import { execFile } from "node:child_process";
import { promisify } from "node:util";

const execute = promisify(execFile);

/** Something that the person who makes the image can mend. The message says how. */
export class ImageError extends Error {
  override readonly name = "ImageError";
}

/** Runs a program to its end and returns what it printed. Throws an ImageError with what it complained of. */
export async function runTool(command: string, args: readonly string[], { cwd = "/" } = {}): Promise<string> {
  try {
    const options = { cwd, maxBuffer: 64 * 1024 * 1024, env: { ...process.env, LC_ALL: "C" } };
    return (await execute(command, args, options)).stdout;
  } catch (error) {
    const said = error instanceof Error && "stderr" in error ? String(error.stderr).trim() : "";
    throw new ImageError(`${command} ${args[0] ?? ""} failed: ${said || error}`);
  }
}
