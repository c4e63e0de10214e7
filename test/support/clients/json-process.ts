import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** A process that takes one request after the other: a line of JSON on its stdin, one on its stdout. */
export interface JsonProcess {
  /** What it answers to a request; an error if it has ended. */
  ask<Answer>(request: object): Promise<Answer>;
  /** Lets it end; resolves once it has. */
  close(): Promise<void>;
}

/** Starts one; `env` is all of its environment but PATH. What it prints to stderr is the test's. */
export function startJsonProcess(
  [program = "", ...args]: readonly string[],
  env: Readonly<Record<string, string>>,
): JsonProcess {
  const child = spawn(program, args, {
    env: { PATH: process.env.PATH ?? "", ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async ask<Answer>(request: object): Promise<Answer> {
      child.stdin.write(`${JSON.stringify(request)}\n`);
      const { value, done } = await lines.next();
      if (done) throw new Error(`${[program, ...args].join(" ")} ended`);
      return JSON.parse(value);
    },
    close: () =>
      new Promise((resolve) => {
        child.once("close", () => resolve());
        child.stdin.end();
      }),
  };
}
