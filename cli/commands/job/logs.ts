import { Option } from "commander";
import type { LogLine } from "../../../protocol/pipelines.ts";
import { LogStream } from "../../../protocol/runner.ts";
import { type Command, withClient } from "../../command.ts";
import type { Client } from "../../gateway/client.ts";
import { jobNamed } from "../../gateway/ids/ids.ts";
import { DatumPaths, findDatums, readLogs } from "../../gateway/jobs/datums.ts";
import { type JobOptions, wholeNumber } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { count, printJson, printLine, printNote, printOutput } from "../../output/output.ts";

interface Options extends JobOptions {
  readonly datum?: string;
  readonly stream?: LogStream;
  readonly failed?: true;
  /** Lines. */
  readonly tail?: number;
  readonly follow?: true;
  readonly timestamps?: true;
}

/** Digits of a datum's id that tell it from others, for people. */
const SHOWN_DIGITS = 12;
const MAX_TAIL = 100_000;
/** Most failed datums whose logs are shown. */
const MOST_FAILED = 1000;

export function addJobLogs(group: Command): void {
  group
    .command("logs")
    .description(
      "Shows what the datums of a job printed, in the order in which it came, each line behind the file that it is about. Where a datum printed more than is kept, the end of it is there. On a terminal, control characters are shown; into a pipe or a file they go as they are.",
    )
    .jobArgument()
    .option("--datum <id>", "only this datum, as in 'sluice job datums'; the first digits are enough")
    .addOption(
      new Option("--stream <stream>", "only what came on stdout, or on stderr").choices(LogStream.options),
    )
    .option("--failed", "only the datums that failed, one after the other")
    .option(
      "--tail <number>",
      "only so many lines from the end; with --failed, of each datum",
      wholeNumber({ min: 0, max: MAX_TAIL }),
    )
    .option("-f, --follow", "go on as more is printed, until the job has ended")
    .option("--timestamps", "say when each line was printed, in UTC")
    .action((_id: string | undefined, options: Options) => {
      if (options.failed && (options.follow || options.datum !== undefined)) {
        throw new UsageError("--failed shows what failed so far: leave out --follow and --datum");
      }
      return withClient(options, async (client) => {
        const job = await jobNamed(client, options.job);
        const printer = new LogPrinter(client, { job, options });
        await (options.failed ? failedLogs : logs)(client, { job, printer, options });
      });
    })
    .clientOptions(
      "sluice job logs 01KAR… --follow",
      "sluice job logs --pipeline edges --failed --tail 5",
      "sluice job logs 01KAR… --datum 3f2a --timestamps",
      "sluice job logs 01KAR… --stream stderr",
      "sluice job logs 01KAR… --json | jq -r .line",
    );
}

interface Show {
  readonly job: string;
  readonly printer: LogPrinter;
  readonly options: Options;
}

async function logs(client: Client, { job, printer, options }: Show): Promise<void> {
  const { datum, stream, tail, follow = false } = options;
  const after =
    tail === undefined ? undefined : await printEnd(client, { job, datum, stream, tail, printer });
  if (tail !== undefined && !follow) return;
  const print = (line: LogLine) => printer.add(line);
  await readLogs(client, { job, datum, stream, follow, after, print, lost: noteLost });
}

function noteLost(why: string): void {
  printNote(`${why}; trying again`);
}

async function failedLogs(client: Client, { job, printer, options }: Show): Promise<void> {
  const failed = await findDatums(client, { job, state: "failed", limit: MOST_FAILED });
  if (failed.datums.length === 0) printNote("no datum of the job has failed");
  let isSilent = failed.datums.length > 0;
  for (const { id: datum } of failed.datums) {
    const tail = options.tail ?? Number.POSITIVE_INFINITY;
    const { stream } = options;
    if ((await printEnd(client, { job, datum, stream, tail, printer })) !== undefined) isSilent = false;
  }
  if (isSilent)
    printNote(
      `what failed printed nothing${options.stream ? ` on ${options.stream}` : ""}: what a command writes into a file is not in its logs`,
    );
  if (failed.next !== null) printNote(`only the first ${MOST_FAILED} datums that failed are shown`);
}

/** Prints the last lines, and returns the place behind them. */
async function printEnd(
  client: Client,
  {
    job,
    datum,
    stream,
    tail,
    printer,
  }: {
    job: string;
    datum: string | undefined;
    stream: LogStream | undefined;
    tail: number;
    printer: LogPrinter;
  },
): Promise<string | undefined> {
  let lines: LogLine[] = [];
  let after: string | undefined;
  await readLogs(client, {
    ...{ job, datum, stream, follow: false },
    print(line) {
      lines.push(line);
      after = line.next ?? after;
      // Not at each line: that would move all of them each time.
      if (lines.length > 2 * tail + 1000) lines = lastOf(lines, tail);
    },
    lost: noteLost,
  });
  for (const line of lastOf(lines, tail)) await printer.add(line);
  return after;
}

function lastOf(lines: LogLine[], tail: number): LogLine[] {
  return tail === 0 ? [] : lines.slice(-tail);
}

/** Prints lines, each with the files that it is about. */
class LogPrinter {
  readonly #options: Options;
  readonly #paths: DatumPaths;

  constructor(client: Client, { job, options }: { job: string; options: Options }) {
    this.#options = options;
    this.#paths = new DatumPaths(client, job);
  }

  async add(shown: LogLine): Promise<void> {
    if (this.#options.json) return printJson(shown);
    const { datum, at, line, dropped } = shown;
    const about = (await this.#paths.of(datum)) ?? datum.slice(0, SHOWN_DIGITS);
    const start = `${this.#options.timestamps ? `${new Date(at).toISOString()}  ` : ""}${about}  `;
    if (dropped !== undefined) printLine(`${start}… ${count(dropped, "line")} left out`);
    if (line !== null) printOutput(start, line);
  }
}
