import { createInterface } from "node:readline";
import type { Command } from "commander";
import { LogLine } from "../../protocol/pipelines.ts";
import { encodePath } from "../client.ts";
import { type ClientOptions, withClientOptions, withExamples } from "../options.ts";
import { printLine } from "../output.ts";
import { withClient } from "../with-client.ts";

interface Options extends ClientOptions {
  readonly datum?: string;
}

/** Digits of a datum's id that tell it from others, for people. */
const SHOWN_DIGITS = 12;

/** `sluice job logs` */
export function addJobLogs(group: Command): void {
  const command = group
    .command("logs")
    .description("Shows the last lines that the failed datums of a job wrote, or one datum.")
    .argument("<id>", "the job")
    .option("--datum <id>", "only this datum, whole as in `sluice job datums`")
    .action((id: string, options: Options) =>
      withClient(options, async (client) => {
        const answer = await client.send({
          method: "GET",
          path: `/api/v1/jobs/${encodePath(id)}/logs`,
          query: options.datum === undefined ? {} : { datum: options.datum },
        });
        for await (const text of createInterface({ input: answer.body })) {
          if (options.json) printLine(text);
          else printLog(LogLine.parse(JSON.parse(text)));
        }
      }),
    );
  withExamples(
    withClientOptions(command),
    "sluice job logs 01KAR…",
    "sluice job logs 01KAR… --datum 3f2a… --json",
  );
}

function printLog({ datum, line }: LogLine): void {
  printLine(`${datum.slice(0, SHOWN_DIGITS)}  ${line}`);
}
