import { CliError, errnoOf, InterruptedError, reportFailure, systemText } from "./output/failure.ts";
import { type HelpOutput, runProgram } from "./program.ts";
import { cleanUpAtEnd, endBy } from "./stop-requests.ts";

const terminal: HelpOutput = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
};

/** Runs one command line (without `node` and the script); sets the exit code, one of those of `output/failure.ts`. */
export async function main(args: readonly string[]): Promise<void> {
  const options = { json: args.includes("--json") };
  cleanUpAtEnd();
  process.stdout.on("error", (error) => {
    const code = errnoOf(error) ?? "Failed";
    // `sluice ls | head`: the reader has seen enough.
    if (code === "EPIPE") process.exit(0);
    const { exitCode, text } = reportFailure(new CliError(systemText(error, "stdout"), { code }), options);
    process.stderr.write(text);
    process.exit(exitCode);
  });
  // Nobody is left to be told.
  process.stderr.on("error", () => undefined);
  try {
    await runProgram(args, terminal);
  } catch (error) {
    const { exitCode, text } = reportFailure(error, options);
    if (exitCode !== 0 && isEvaluated(args)) terminal.out("false\n");
    process.stderr.write(text);
    process.exitCode = exitCode;
    // Requests that are still under way end with the process.
    if (error instanceof InterruptedError) endBy(error.signal);
  }
}

/**
 * Whether a shell evaluates what is printed: `eval "$(sluice env)"`. To evaluate nothing is a success, so what follows behind
 * `&&` would go to the gateway that was named before. So a failure has a line, too, which fails.
 */
function isEvaluated(args: readonly string[]): boolean {
  return args[0] === "env" && !args.includes("--json") && !process.stdout.isTTY;
}
