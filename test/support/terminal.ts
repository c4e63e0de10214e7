import { spawn } from "node:child_process";
import { eventually } from "./eventually.ts";

/** A program on a terminal of its own, at which a test types. */
export interface TerminalProgram {
  /** What the terminal shows, from the start. */
  screen(): string;
  /** Presses keys. A line ends in a newline. */
  type(keys: string): void;
  /** Waits until the terminal has shown a text. */
  shows(text: string): Promise<void>;
  /** Its exit code. */
  readonly ended: Promise<number | null>;
}

/** Starts a program on a pseudo-terminal, which `script` of util-linux makes. `env`: all of its environment but PATH. */
export function onTerminal(
  command: readonly string[],
  { env = {}, cwd }: { env?: Readonly<Record<string, string>>; cwd?: string } = {},
): TerminalProgram {
  const line = command.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
  const child = spawn("script", ["-qefc", line, "/dev/null"], {
    env: { PATH: process.env.PATH ?? "", TERM: "xterm", ...env },
    ...(cwd !== undefined && { cwd }),
    stdio: ["pipe", "pipe", "pipe"],
  });
  let shown = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (bytes: Buffer) => {
      shown += bytes.toString();
    });
  }
  child.stdin.on("error", () => undefined);
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  return {
    screen: () => shown,
    type: (keys) => void child.stdin.write(keys),
    shows: async (text) => {
      await eventually(`the terminal shows '${text}'`, () => {
        if (!shown.includes(text)) throw new Error(`it shows:\n${shown}`);
        return true;
      });
    },
    ended,
  };
}
