import { INTERRUPTED } from "./gateway/open-commits.ts";
import { CliError, reportFailure } from "./output/failure.ts";
import { type HelpOutput, runProgram } from "./program.ts";

const terminal: HelpOutput = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
};

/** Runs one command line (without `node` and the script); sets the exit code: 0, 1 failed, 2 wrong usage. */
export async function main(args: readonly string[]): Promise<void> {
  // `sluice ls | head`: the reader has seen enough.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    throw error;
  });
  try {
    await runProgram(args, terminal);
  } catch (error) {
    const { exitCode, text } = reportFailure(error, { json: args.includes("--json") });
    process.stderr.write(text);
    // A signal stopped the command: requests that are still under way end with the process.
    if (error instanceof CliError && error.code === INTERRUPTED) process.exit(exitCode);
    process.exitCode = exitCode;
  }
}
