import type { Command } from "commander";
import type { LogLine } from "../../../protocol/pipelines.ts";
import { withClient } from "../../gateway/client.ts";
import { readLogs } from "../../gateway/job-logs.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { count, printJson, printLine, printNote, printOutput } from "../../output/output.ts";

interface Options extends ClientOptions {
  readonly datum?: string;
  readonly follow?: true;
  readonly timestamps?: true;
}

/** Digits of a datum's id that tell it from others, for people. */
const SHOWN_DIGITS = 12;

/** `sluice job logs` */
export function addJobLogs(group: Command): void {
  const command = group
    .command("logs")
    .description(
      "Shows what the datums of a job printed, in the order in which it came. Where a datum printed more than is kept, the end of it is there. On a terminal, control characters are shown; into a pipe or a file they go as they are.",
    )
    .argument("<id>", "the job")
    .option("--datum <id>", "only this datum, as in `sluice job datums`; the first digits are enough")
    .option("-f, --follow", "go on as more is printed, until the job has ended")
    .option("--timestamps", "say when each line was printed, in UTC")
    .action((id: string, options: Options) =>
      withClient(options, (client) =>
        readLogs(client, {
          job: id,
          datum: options.datum,
          follow: options.follow ?? false,
          print: options.json ? printJson : (line) => printLog(line, options),
          lost: (why) => printNote(`${why}; trying again`),
        }),
      ),
    );
  withClientOptions(
    command,
    "sluice job logs 01KAR… --follow",
    "sluice job logs 01KAR… --datum 3f2a --timestamps",
    "sluice job logs 01KAR… --json | jq -r .line",
  );
}

function printLog({ datum, at, line, dropped }: LogLine, { timestamps }: Options): void {
  const start = `${timestamps ? `${new Date(at).toISOString()}  ` : ""}${datum.slice(0, SHOWN_DIGITS)}  `;
  if (dropped !== undefined) printLine(`${start}… ${count(dropped, "line")} left out`);
  if (line !== null) printOutput(start, line);
}
