import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

/** A program that says with a line of JSON where it listens. */
export interface Launched {
  readonly pid: number;
  /** From before its start until that line. */
  readonly seconds: number;
  stop(): Promise<void>;
}

/** Starts a program of Node and waits until it is ready. `variables`: of its environment, beside this process's own. */
export async function launched(
  command: readonly string[],
  { variables = {} }: { readonly variables?: Readonly<Record<string, string>> } = {},
): Promise<Launched> {
  const startedAt = performance.now();
  const env = { ...process.env, ...variables };
  const child = spawn(process.execPath, command, { env, stdio: ["ignore", "pipe", "pipe"] });
  await ready(child, command);
  const seconds = (performance.now() - startedAt) / 1000;
  const stop = async (): Promise<void> => {
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
  };
  return { pid: child.pid ?? 0, seconds, stop };
}

function ready(child: ChildProcess, command: readonly string[]): Promise<void> {
  let errors = "";
  child.stderr?.on("data", (bytes: Buffer) => {
    errors += bytes.toString();
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`${command.join(" ")} ended with ${code}\n${errors}`)));
    child.stdout?.on("data", (bytes: Buffer) => {
      if (bytes.includes('"endpoint"')) resolve();
    });
  });
}
